// Package budget divides the memory of a process among those who make it keep something: callers, where they log in,
// and addresses before.
//
// New makes all parts from one limit.
package budget

import (
	"net"

	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
)

// Default is the limit of a process that is told none: that of the proxy's container unless spec.proxy.resources says
// otherwise.
const Default = 256 << 20

// What takes how much, in bytes.
const (
	// connection is what is reckoned for a connection with a call on its way, at most: buffers and stacks of net/http, and
	// a head.
	connection = 128 << 10
	// Least is the longest of a body or of an answer that needs no room, because a connection has at most one of each.
	Least = 4 << 10
	// Long is from where on a body is read by one at a time, and an answer needs room.
	Long = 64 << 10
	// MaxBody is the longest body.
	MaxBody = 4 << 20
)

// Budget has a part for each thing of which a process keeps many. Of each part one caller, or one address before a
// login, has at most half. Whoever waits for a part holds none that another waits for, but for bodies, for which nobody
// waits long.
type Budget struct {
	// Connections has a place for each connection of a client.
	Connections *share.Places
	// Calls has a place for each request on its way of callers that have logged in. There are as many as connections.
	Calls *share.Places
	// Bodies has a byte for each that is kept of bodies.
	Bodies *share.Places
	// Answers has a byte for each that is kept of answers.
	Answers *share.Places
	// answers is how many one caller has of them.
	answers int64
	// turns has a place for each long body that is read.
	turns *share.Places
}

// New divides a limit in bytes: an eighth of it for bodies, a quarter for answers, a place for a connection for each
// 128 KiB. The rest is the program's own, what connections take, and garbage.
func New(limit int64) *Budget {
	// A body and an answer of any length that is allowed find room.
	bodies, answers := max(int(limit/8), 2*MaxBody), max(int(limit/4), 8<<20)
	connections := max(int(limit/connection), 64)
	return &Budget{
		Connections: halves(connections), Calls: halves(connections), Bodies: halves(bodies), Answers: halves(answers),
		answers: int64(share.Half(answers)), turns: share.New(2, 1),
	}
}

// halves are places of which one caller has half.
func halves(all int) *share.Places { return share.New(all, share.Half(all)) }

// AnswerRoom is how much of Answers an answer takes of which so many bytes are kept: it is read, taken apart and put
// together again.
func (b *Budget) AnswerRoom(size int64) int64 { return min(3*size, b.answers) }

// Address is where a connection comes from, without the port.
func Address(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	return host
}
