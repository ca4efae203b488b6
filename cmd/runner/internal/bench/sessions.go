package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"
)

// hello begins a session, ready says that its client knows what the server is.
const (
	hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`
	ready = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	// legacyCall is call, as a client of the legacy era makes it.
	legacyCall = `{"jsonrpc":"2.0","id":1000000000,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}`
)

// firstID is the id of legacyCall, and ids is how many followed it: none may be used twice in a session (MCP
// specification 2025-11-25, basic, Requests). Calls of the modern era stand for themselves, and keep theirs.
const firstID = 1_000_000_000

var ids atomic.Int64

// idOf is where a legacy call has its id, nil for others.
func idOf(call []byte) []byte {
	at := bytes.Index(call, strconv.AppendInt(nil, firstID, 10))
	if at < 0 {
		return nil
	}
	return call[at:at]
}

// inSession is a request of the legacy era. One that begins a session tells the backend so.
func inSession(kind, token, session, body string) []byte {
	head := "POST /mcp HTTP/1.1\r\nHost: bench-proxy:8000\r\nUser-Agent: bench\r\nAuthorization: Bearer " +
		token + "\r\n" +
		"Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
	if session == "" {
		head += "Mcp-Name: " + kind + "\r\n"
	} else {
		head += "Mcp-Protocol-Version: 2025-11-25\r\n" + sessionHeader + ": " + session + "\r\n"
	}
	return []byte(head + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
}

// callOf is a call of a kind for the connection of a number. Each connection has a session of its own, since each
// repeats the id of its call; sessions are kept from turn to turn, since each may have a server of its own.
func (p *process) callOf(kind string, number int) ([]byte, error) {
	if kind != asSession && kind != asStdio {
		return request(kind, p.token), nil
	}
	for len(p.sessions) <= number {
		session, err := p.begin(kind)
		if err != nil {
			return nil, fmt.Errorf("beginning a session: %w", err)
		}
		p.sessions = append(p.sessions, session)
	}
	return inSession(kind, p.token, p.sessions[number], legacyCall), nil
}

// begin begins a session, and returns its id.
func (p *process) begin(kind string) (session string, err error) {
	conn, err := net.Dial("tcp", p.calls) //nolint:noctx // the deadline below ends it
	if err != nil {
		return "", err
	}
	defer conn.Close() //nolint:errcheck // it did its work
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return "", err
	}
	reader := bufio.NewReader(conn)
	for _, body := range []string{hello, ready} {
		if _, err := conn.Write(inSession(kind, p.token, session, body)); err != nil {
			return "", err
		}
		head, err := readHead(reader)
		if err != nil {
			return "", err
		}
		if head.session != "" {
			session = head.session
		}
		if _, err := head.rest(reader); err != nil {
			return "", err
		}
	}
	return session, nil
}
