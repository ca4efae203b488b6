package era

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// initialize begins a session with the backend. The error is a *refusedError if the backend answered that it does not.
func (t *Translator) initialize(ctx context.Context, r *http.Request, p profile) (*session, error) {
	params := jsonrpc.Object{
		"protocolVersion": encoded(protocol.Legacy), "capabilities": jsontext.Value(cmp.Or(p.capabilities, "{}")),
		"clientInfo": jsontext.Value(cmp.Or(p.client, `{"name":"freehold","version":"1"}`)),
	}
	answer, err := t.ask(ctx, r, request(t.newID(), "initialize", params), nil)
	if err != nil {
		return nil, err
	}
	hello, err := jsonrpc.ReadAnswer(answer.message.Result)
	if err != nil {
		return nil, &refusedError{answer}
	}
	s := &session{id: answer.id, hello: jsonrpc.Object{}}
	for _, name := range []string{"capabilities", "instructions", "serverInfo"} {
		if hello[name] != nil {
			s.hello[name] = hello[name].Clone() // not the whole message
		}
	}
	if n := len(s.hello["capabilities"]) + len(s.hello["instructions"]) + len(s.hello["serverInfo"]) +
		len(s.id); n > maxHello {
		return nil, fmt.Errorf("it answers initialize with %d bytes, of which %d are kept", n, maxHello)
	}
	if s.version, err = hello.Text("protocolVersion"); err != nil || s.version == "" || s.version >= protocol.Modern {
		return nil, &refusedError{answer}
	}
	if _, err := t.ask(ctx, r, pipeline.Made(notification("notifications/initialized", jsonrpc.Object{}), nil),
		s.header()); err != nil {
		return nil, err
	}
	if p.level != "" && jsonrpc.At(hello["capabilities"], "logging") != nil {
		if _, err := t.ask(ctx, r, request(t.newID(), "logging/setLevel", jsonrpc.Object{"level": encoded(p.level)}),
			s.header()); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// end ends a session with the backend, which may not let it (HTTP 405).
func (t *Translator) end(r *http.Request, s *session) {
	if s.id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	x := t.start(ctx, r, http.MethodDelete, nil, s.header())
	defer x.cancel()
	select {
	case <-x.began:
	case <-ctx.Done():
	}
}

func (t *Translator) newID() int64 { return t.ids.Add(1) }
