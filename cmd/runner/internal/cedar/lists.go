package cedar

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/media"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
	"github.com/freehold-dev/freehold/cmd/runner/internal/sse"
	"github.com/freehold-dev/freehold/controllers/authz"
)

// maxAnswer is the longest answer to a list that is filtered, in bytes. A longer one is
// not passed on.
const maxAnswer = 2 << 20

// largeAnswers is how many answers above smallBody are collected and filtered at once:
// reading one takes many times its length. One caller has half of the places: a backend that
// answers slowly holds them for as long.
const largeAnswers = 3

// items are the members of a result that hold a list, and what is asked of
// policies about each item. A template is judged by its text.
var items = []struct {
	member, action, kind, id string
}{
	{"tools", authz.CallTool, authz.Tool, "name"},
	{"prompts", authz.GetPrompt, authz.Prompt, "name"},
	{"resources", authz.ReadResource, authz.Resource, "uri"},
	{"resourceTemplates", authz.ReadResource, authz.Resource, "uriTemplate"},
}

// members are the names of the lists.
var members = func() (names []string) {
	for _, list := range items {
		names = append(names, list.member)
	}
	return names
}()

// filter takes out of a message's result what visible denies. Messages without a
// list are returned as they are. It refuses names in another case, which a client may
// take for those that are filtered.
func filter(message []byte, visible func(authz.Call) bool) ([]byte, error) {
	if trimmed := bytes.TrimSpace(message); len(trimmed) > 0 && trimmed[0] == '[' {
		var batch []jsontext.Value
		if err := json.Unmarshal(trimmed, &batch, jsonrpc.Lenient); err != nil {
			return nil, err
		}
		for i := range batch {
			one, err := filter(batch[i], visible)
			if err != nil {
				return nil, err
			}
			batch[i] = one
		}
		return json.Marshal(batch, jsonrpc.Lenient)
	}
	envelope, err := jsonrpc.ReadAnswer(message, "result")
	if err != nil {
		return nil, err
	}
	if envelope["result"].Kind() != '{' {
		return message, nil
	}
	result, err := jsonrpc.ReadAnswer(envelope["result"], members...)
	if err != nil {
		return nil, err
	}
	changed := false
	for _, list := range items {
		if result[list.member].Kind() != '[' {
			continue
		}
		if len(message) > maxAnswer {
			return nil, errList
		}
		kept, err := keep(result[list.member], list.id, func(id string) bool {
			return visible(authz.Call{Action: list.action, Type: list.kind, ID: id})
		})
		if err != nil {
			return nil, err
		}
		result[list.member], changed = kept, true
	}
	if !changed {
		return message, nil
	}
	if envelope["result"], err = json.Marshal(result, json.Deterministic(true), jsonrpc.Lenient); err != nil {
		return nil, err
	}
	return json.Marshal(envelope, json.Deterministic(true), jsonrpc.Lenient)
}

func keep(list jsontext.Value, id string, visible func(string) bool) (jsontext.Value, error) {
	var all []jsontext.Value
	if err := json.Unmarshal(list, &all, jsonrpc.Lenient); err != nil {
		return nil, err
	}
	kept := []jsontext.Value{}
	for _, item := range all {
		fields, err := jsonrpc.ReadAnswer(item, id)
		if err != nil {
			return nil, err
		}
		var name string
		if err := json.Unmarshal(fields[id], &name, jsonrpc.Lenient); err != nil {
			return nil, fmt.Errorf("%s: %w", id, err)
		}
		if visible(name) {
			kept = append(kept, item)
		}
	}
	return json.Marshal(kept, jsonrpc.Lenient)
}

// Why an answer is not passed on.
var (
	errAnswer = errors.New("the backend's answer to a list is not JSON that can be filtered")
	errList   = errors.New("the backend's answer to a list is longer than the 2 MiB that are filtered")
)

// answer is a ResponseWriter that filters lists: a JSON body as a whole, a
// stream event by event. Other bodies of a call that succeeded are not passed
// on.
type answer struct {
	http.ResponseWriter
	judge  *judge
	ctx    context.Context //nolint:containedctx // one request's
	caller authz.Caller
	listing
	// release gives back the place among the large answers, and left that among those of the caller; nil for none.
	release, left func()
	// call is whose places they are, and lease is what a long event takes of the memory; nil for none.
	call  *pipeline.Call
	lease *share.Lease

	begun  bool
	mode   mode
	whole  bytes.Buffer
	stream sse.Reader
	failed error // why nothing is passed on any more
}

// visible reports whether the caller may see what could be called.
func (a *answer) visible(call authz.Call) bool {
	return a.judge.config.Policies.Visible(a.caller, call)
}

// over reports whether nothing is passed on any more.
func (a *answer) over() bool { return a.failed != nil }

// unreadable tells of an answer that is not passed on, and why.
func (a *answer) unreadable(why error) {
	// A stream that is silent for hours keeps no headers.
	a.judge.audit(new(http.Request).WithContext(a.ctx),
		decided{method: a.method, detail: "the answer cannot be filtered: " + why.Error()})
}

// refuse answers in the place of an answer that is not passed on.
func (a *answer) refuse(w http.ResponseWriter, id jsontext.Value, why error) {
	refusal := Refusal{Reason: NotFilterable, ID: id, Message: why.Error()}
	a.judge.config.Refuse(w, new(http.Request).WithContext(a.ctx), a.judge.next, refusal)
}

type mode int

const (
	plain mode = iota
	wholeJSON
	events
)

func (a *answer) WriteHeader(status int) {
	if status < http.StatusOK {
		a.ResponseWriter.WriteHeader(status)
		return
	}
	a.begun = true
	kind, encoded := media.Type(a.Header()), media.Encoded(a.Header())
	switch {
	case status >= http.StatusMultipleChoices, status == http.StatusAccepted, status == http.StatusNoContent:
		// these hold no list
	case kind == media.JSON && !encoded:
		a.mode = wholeJSON
		return
	case kind == media.Events && !encoded:
		a.mode, a.stream = events, sse.Reader{Limit: a.longest(), Event: a.event}
	default:
		a.failed = errAnswer
		return
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	if !a.begun {
		a.WriteHeader(http.StatusOK)
	}
	switch {
	case a.over():
		// An error would have ReverseProxy cut the connection before end refuses.
		return len(p), nil
	case a.mode == wholeJSON:
		if a.whole.Len()+len(p) > maxAnswer {
			a.failed, a.whole = errList, bytes.Buffer{}
			return len(p), nil
		}
		if err := a.hold(a.whole.Len() + len(p)); err != nil {
			return 0, err
		}
		return a.whole.Write(p)
	case a.mode == events:
		if err := a.hold(a.stream.Held() + len(p)); err != nil {
			return 0, err
		}
		n, err := a.stream.Write(p)
		if errors.Is(err, sse.ErrTooLong) {
			a.stream = sse.Reader{}
			n, err = len(p), a.lost(nil, a.tooLong())
		}
		return n, errors.Join(err, a.hold(a.stream.Held()))
	}
	return a.ResponseWriter.Write(p)
}

// Flush implements http.Flusher for streams; a body that is collected is sent at
// its end.
func (a *answer) Flush() {
	if a.begun && (a.mode == events || a.failed == nil && a.mode != wholeJSON) {
		_ = http.NewResponseController(a.ResponseWriter).Flush() //nolint:errcheck // a client that left is seen by the next write
	}
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Follow has it filter a stream for another writer once its handler has returned. It is false for an answer that is
// none.
func (a *answer) Follow(to http.ResponseWriter) (end func(), follows bool) {
	if a.mode != events || a.failed != nil {
		return nil, false
	}
	a.ResponseWriter = to
	return a.part, true
}

// end sends what was collected. It must be called when the handler has returned.
func (a *answer) end() {
	if a.mode == wholeJSON && a.failed == nil {
		body, err := filter(media.Text(a.whole.Bytes()), a.visible)
		a.whole = bytes.Buffer{}
		if err == nil {
			done, gone := a.send(len(body))
			if gone != nil {
				return
			}
			defer done()
			a.Header().Set("Content-Length", strconv.Itoa(len(body)))
			a.ResponseWriter.WriteHeader(http.StatusOK)
			_, _ = a.ResponseWriter.Write(body) //nolint:errcheck // a client that left needs no answer
			return
		}
		a.failed = errAnswer
	}
	if a.failed != nil && a.mode != events {
		for _, name := range []string{"Content-Length", "Content-Encoding", "Etag"} {
			a.Header().Del(name)
		}
		a.unreadable(a.failed)
		a.refuse(a.ResponseWriter, a.id, a.failed)
	}
}
