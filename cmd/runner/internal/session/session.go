// Package session seals the ids of MCP sessions, so that each proxy of a server
// finds the pod that keeps a session, and nobody else can make an id, change one or
// use that of another caller (MCP specification 2025-11-25, basic/transports,
// Session Management).
//
// Read Keys.Seal and Keys.Open first; Keys.Peers encrypts what proxies of one server say to each other.
package session

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"
)

const (
	// MaxID is the longest id of a backend that is sealed, in bytes. Servers that keep no
	// session write all of it into its id.
	MaxID = 4 << 10
	// hashSize is how much of the content's hash is in an id.
	hashSize = 8
	// overhead is what an id holds beside the backend's own: the name of the key,
	// the AEAD's nonce and tag, hash, time, and address and port with their length.
	overhead = nameSize + 12 + 16 + hashSize + 4 + 1 + 16 + portSize
	portSize = 2
)

// encoding is visible ASCII, as the specification asks of ids. Each id has one
// spelling.
var encoding = base64.RawURLEncoding.Strict()

// MaxSealed is the longest sealed id, in bytes.
var MaxSealed = encoding.EncodedLen(MaxID + overhead)

// ErrUnknown says that an id is none of this server's, or of another caller.
var ErrUnknown = errors.New("no proxy of this server gave this session id to this caller")

// ErrTooLong says that a backend's id has more than MaxID bytes.
var ErrTooLong = fmt.Errorf("the backend's session id is empty or longer than %d bytes", MaxID)

// Session is where a session is, and what its backend calls it.
type Session struct {
	// Pod is where the backend pod that keeps the session is called; the zero AddrPort where
	// the server does, wherever it runs. An id of a release before has the address alone.
	Pod netip.AddrPort
	// ID is the backend's own.
	ID string
	// Issued is when the id was sealed, to the second.
	Issued time.Time
	// Content is the beginning of the hash of what the backend's pods were to run
	// then.
	Content [hashSize]byte
}

// Content is what a Session has of a hash.
func Content(hash string) (c [hashSize]byte) {
	copy(c[:], hash)
	return c
}

// Caller is who a session belongs to; empty for servers without a login.
type Caller struct{ Issuer, Subject string }

// bound is what an id is sealed with, and does not hold: another caller's opens
// nothing. The length keeps the two texts apart.
func (c Caller) bound() []byte {
	data := make([]byte, 0, 4+len(c.Issuer)+len(c.Subject))
	data = binary.BigEndian.AppendUint32(data, uint32(len(c.Issuer))) //nolint:gosec // an issuer is a part of a token of 16 KiB
	data = append(data, c.Issuer...)
	return append(data, c.Subject...)
}

// Seal makes the id that the caller gets. It returns ErrTooLong, or why there is no
// key.
func (k *Keys) Seal(caller Caller, s Session) (string, error) {
	if s.ID == "" || len(s.ID) > MaxID {
		return "", ErrTooLong
	}
	keys, err := k.current()
	if err != nil {
		return "", err
	}
	plain := make([]byte, 0, hashSize+4+1+16+portSize+len(s.ID))
	plain = append(plain, s.Content[:]...)
	plain = binary.BigEndian.AppendUint32(plain, uint32(s.Issued.Unix())) //nolint:gosec // until 2106
	address := s.Pod.Addr().Unmap().AsSlice()                             // none of the zero Addr
	if s.Pod.Port() == 0 {
		plain = append(append(plain, byte(len(address))), address...)
	} else {
		plain = append(append(plain, byte(len(address)+portSize)), address...)
		plain = binary.BigEndian.AppendUint16(plain, s.Pod.Port())
	}
	plain = append(plain, s.ID...)
	key := keys[0]
	sealed := make([]byte, nameSize, nameSize+12+len(plain)+16)
	copy(sealed, key.name[:])
	return encoding.EncodeToString(key.aead.Seal(sealed, nil, plain, caller.bound())), nil
}

// Open is the session that an id of the caller names. It returns ErrUnknown, or why
// there is no key.
func (k *Keys) Open(caller Caller, id string) (Session, error) {
	keys, err := k.current()
	if err != nil {
		return Session{}, err
	}
	if id == "" || len(id) > MaxSealed || strings.ContainsAny(id, "\r\n") { // which the decoder would skip
		return Session{}, ErrUnknown
	}
	sealed, err := encoding.DecodeString(id)
	if err != nil || len(sealed) < nameSize {
		return Session{}, ErrUnknown
	}
	for _, key := range keys {
		if string(key.name[:]) != string(sealed[:nameSize]) {
			continue
		}
		if plain, err := key.aead.Open(nil, nil, sealed[nameSize:], caller.bound()); err == nil {
			return parse(plain)
		}
	}
	return Session{}, ErrUnknown
}

// parse reads what Seal wrote; the AEAD has vouched for it.
func parse(plain []byte) (s Session, err error) {
	if len(plain) < hashSize+4+1 {
		return Session{}, ErrUnknown
	}
	copy(s.Content[:], plain)
	s.Issued = time.Unix(int64(binary.BigEndian.Uint32(plain[hashSize:])), 0)
	rest := plain[hashSize+4+1:]
	size := int(plain[hashSize+4])
	if size > len(rest) {
		return Session{}, ErrUnknown
	}
	where, port := rest[:size], uint16(0)
	if size == net.IPv4len+portSize || size == net.IPv6len+portSize {
		port = binary.BigEndian.Uint16(where[size-portSize:])
		where = where[:size-portSize]
	}
	if pod, ok := netip.AddrFromSlice(where); ok {
		s.Pod = netip.AddrPortFrom(pod, port)
	} else if size > 0 {
		return Session{}, ErrUnknown
	}
	s.ID = string(rest[size:])
	return s, nil
}
