package bridge

import (
	"net/http"
	"regexp"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/stdio"
)

var (
	idFirst = regexp.MustCompile(`^\{"jsonrpc":\s*"2\.0",\s*"id":\s*(\d+|"[^"]*")\s*,`)
	idLast  = regexp.MustCompile(`"id":\s*(\d+|"[^"]*")\s*\}\s*$`)
)

// tooLong fails the call that a message answers which is too long to be read; all of
// them where it cannot be told, since one of them gets no other answer.
func (p *peer) tooLong(m *stdio.TooLong) {
	why := jsonrpc.Fail(http.StatusBadGateway, CodeServerUnusable, "ServerUnusable: %s: have it answer in smaller parts",
		m)
	for _, found := range [][][]byte{idFirst.FindSubmatch(m.Begin), idLast.FindSubmatch(m.End)} {
		if found == nil {
			continue
		}
		if c := p.take(found[1]); c != nil {
			c.answer(why.Response(c.id), why.Status, p.alone)
			return
		}
	}
	p.failAll(func(*call) *jsonrpc.Fault { return why })
}

// end fails what waits.
func (p *peer) end() {
	p.broken.Store(true) // whoever is told of the end may end the session before the log has it
	why := p.conn.Why()
	p.mu.Lock()
	p.fault = jsonrpc.Fail(http.StatusBadGateway, CodeServerEnded, "ServerEnded: the server has ended (%s)", why)
	p.mu.Unlock()
	if p.over != nil {
		p.over(p)
	}
	p.failAll(func(c *call) *jsonrpc.Fault {
		return jsonrpc.Fail(http.StatusBadGateway, CodeServerEnded, "ServerEnded: the server ended before it answered (%s)%s",
			why, c.mayHaveRun())
	})
	close(p.done)
}

func (p *peer) failAll(why func(*call) *jsonrpc.Fault) {
	p.mu.Lock()
	var calls []*call
	for key := range p.calls {
		calls = append(calls, p.remove(key))
	}
	p.mu.Unlock()
	for _, c := range calls {
		f := why(c)
		c.answer(f.Response(c.id), f.Status, p.alone)
	}
}
