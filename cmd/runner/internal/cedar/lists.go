package cedar

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"unicode/utf8"

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

// filter takes out of a message's results what is not visible: lists returns, of what is asked about the items of a
// list, whether an item is. All else stays as it stands. It refuses names in another case, which a client may
// take for those that are filtered.
func filter(message []byte, lists func(action, kind string) (visible func(id string) bool)) ([]byte, error) {
	decoder, done := jsonrpc.Decode(message)
	defer done()
	f := &filtering{text: message, decoder: decoder, lists: lists}
	err := f.messages()
	if err == nil {
		err = jsonrpc.Ended(decoder)
	}
	switch {
	case err != nil:
		return nil, err
	case f.kept == nil:
		return message, nil
	}
	all := append(f.kept, message[f.copied:]...)
	if utf8.Valid(all) && !bytes.Contains(all, []byte(`\ud`)) && !bytes.Contains(all, []byte(`\uD`)) {
		return all, nil
	}
	// A client may read what is cut in another way than it was judged.
	return json.Marshal(jsontext.Value(all), jsonrpc.Lenient)
}

// filtering is the one pass over a message in which its lists are filtered.
type filtering struct {
	text    []byte
	decoder *jsontext.Decoder
	lists   func(action, kind string) (visible func(id string) bool)
	// kept is what stays of the text as far as it is copied; nil before the first list.
	kept   []byte
	copied int64
	// begin is where the message begins that is read.
	begin int64
}

// messages filters a message, or a batch of them.
func (f *filtering) messages() error {
	if f.decoder.PeekKind() != '[' {
		return f.message()
	}
	if _, err := f.decoder.ReadToken(); err != nil {
		return err
	}
	for f.decoder.PeekKind() != ']' {
		if err := f.messages(); err != nil {
			return err
		}
	}
	_, err := f.decoder.ReadToken()
	return err
}

var resultName = []string{"result"}

func (f *filtering) message() error {
	listed := false
	f.begin = f.decoder.InputOffset()
	_, err := jsonrpc.Walk(f.decoder, f.text, resultName, func(name []byte) (err error) {
		if string(name) == resultName[0] && f.decoder.PeekKind() == '{' {
			listed, err = f.result()
		}
		return err
	})
	if err == nil && listed {
		return f.within()
	}
	return err
}

// within refuses a message with a list that is too long. It is asked before each item is judged.
func (f *filtering) within() error {
	if f.decoder.InputOffset()-f.begin > maxAnswer {
		return errList
	}
	return nil
}

// result filters the lists of a result, and reports whether there are any.
func (f *filtering) result() (listed bool, err error) {
	_, err = jsonrpc.Walk(f.decoder, f.text, members, func(name []byte) error {
		at := slices.Index(members, string(name))
		if at < 0 || f.decoder.PeekKind() != '[' {
			return nil
		}
		listed = true
		return f.list(items[at].id, f.lists(items[at].action, items[at].kind))
	})
	return listed, err
}

// list keeps those items of a list that are visible.
func (f *filtering) list(id string, visible func(id string) bool) error {
	if _, err := f.decoder.ReadToken(); err != nil {
		return err
	}
	if f.kept == nil {
		f.kept = make([]byte, 0, min(len(f.text), maxAnswer))
	}
	f.kept = append(f.kept, f.text[f.copied:f.decoder.InputOffset()]...)
	first, ids := true, []string{id}
	for f.decoder.PeekKind() != ']' {
		begin, name, err := f.item(ids)
		if err == nil {
			err = f.within()
		}
		if err != nil {
			return err
		}
		if !visible(name) {
			continue
		}
		if !first {
			f.kept = append(f.kept, ',')
		}
		f.kept, first = append(f.kept, f.text[begin:f.decoder.InputOffset()]...), false
	}
	_, err := f.decoder.ReadToken()
	f.copied = f.decoder.InputOffset() - 1
	return err
}

// item reads an item, which begins there and has its name in the one member of ids.
func (f *filtering) item(ids []string) (begin int64, name string, err error) {
	id, named := ids[0], false
	begin, err = jsonrpc.Walk(f.decoder, f.text, ids, func(member []byte) error {
		if string(member) != id {
			return nil
		}
		value, err := f.decoder.ReadToken()
		if err == nil && value.Kind() != '"' && value.Kind() != 'n' {
			err = fmt.Errorf("%s is no text", id)
		}
		if err == nil && value.Kind() == '"' {
			name = value.String()
		}
		named = true
		return err
	})
	if err == nil && !named {
		err = fmt.Errorf("it has no %s", id)
	}
	return begin, name, err
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

// visible reports, of what could be called, whether the caller may see it.
func (a *answer) visible(action, kind string) func(id string) bool {
	return a.judge.config.Policies.Visible(a.caller, action, kind)
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
