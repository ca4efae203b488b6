package virtual

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/media"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/sse"
)

// Bounds of what a member may tell.
const (
	// maxList is how long a list of a member may be, in bytes, on all its pages, and maxItems how many items it may have.
	maxList, maxItems = 10 << 20, 10_000
	// maxPages is how many pages of a list are asked for.
	maxPages = 1_000
	// maxItem is how long an item may be.
	maxItem = 512 << 10
	// maxHeld is how much is kept of the lists of all members.
	maxHeld = 32 << 20
	// maxHello is how long may be what a member says about itself.
	maxHello = 256 << 10
	// longLists is how many answers that are longer than shortList are read at once.
	longLists, shortList = 4, 1 << 20
	// maxWords is how much of a member's words is told of why it does not answer.
	maxWords = 256
)

// told is a list as a member has told it.
type told struct {
	items   []item
	bytes   int64
	ttl     time.Duration
	private bool
}

// readList asks for all pages of a list. Where a bound is reached what was told until then comes with the error.
func (m *member) readList(ctx context.Context, k kind) (all told, err error) {
	params, seen, names := jsonrpc.Object{}, map[string]bool{}, map[string]bool{}
	all.items = []item{}
	for range maxPages {
		text, err := m.question(ctx, of[k].method, params, maxList-all.bytes)
		var wrong *trouble
		if errors.As(err, &wrong) && wrong.reason == ReasonTooLong {
			return all, err
		}
		if err != nil {
			return told{}, err
		}
		if err := all.add(k, text, names); err != nil {
			return all, err
		}
		cursor := jsonrpc.At(text, "nextCursor")
		if cursor.Kind() != '"' {
			return all, nil
		}
		if seen[string(cursor)] {
			return all, &trouble{reason: ReasonNotReadable, message: "its list has the same cursor twice, and was ended there"}
		}
		seen[string(cursor)] = true
		params["cursor"] = cursor
	}
	return all, &trouble{reason: ReasonTooLong, message: fmt.Sprintf("its list has more than %d pages", maxPages)}
}

// add adds a page. Of items with one name it keeps the first.
func (t *told) add(k kind, page jsontext.Value, names map[string]bool) error {
	var ttl float64
	if value := jsonrpc.At(page, "ttlMs"); value.Kind() == '0' {
		_ = json.Unmarshal(value, &ttl) //nolint:errcheck // what is no number is none
	}
	stands := time.Duration(max(0, min(ttl, float64(time.Hour/time.Millisecond)))) * time.Millisecond
	if t.bytes == 0 || stands < t.ttl {
		t.ttl = stands
	}
	t.private = t.private || jsonrpc.TextAt(page, "cacheScope") != "public"
	t.bytes += int64(len(page))
	value := jsonrpc.At(page, of[k].member)
	if value.Kind() != '[' {
		return nil
	}
	decoder, done := jsonrpc.Decode(value)
	defer done()
	unreadable := &trouble{reason: ReasonNotReadable, message: "its list cannot be read as a whole"}
	if _, err := decoder.ReadToken(); err != nil {
		return unreadable
	}
	wrong := error(nil)
	for decoder.PeekKind() != ']' {
		raw, err := decoder.ReadValue()
		if err != nil {
			return unreadable
		}
		if len(t.items) == maxItems {
			return &trouble{reason: ReasonTooLong, message: fmt.Sprintf("its list has more than %d items", maxItems)}
		}
		end := decoder.InputOffset()
		one, err := itemOf(k, value[end-int64(len(raw)):end:end])
		if err != nil {
			wrong = err
		} else if !names[one.own] {
			names[one.own] = true
			t.items = append(t.items, one)
		}
	}
	return wrong
}

// itemOf is an item by its text.
func itemOf(k kind, text jsontext.Value) (item, error) {
	one := item{text: text, sum: sha256.Sum256(text)}
	var found bool
	one.own = jsonrpc.TextAt(text, of[k].name)
	one.begin, one.end, found = jsonrpc.Span(text, of[k].name)
	switch {
	case !found || one.own == "":
		return one, &trouble{reason: ReasonNotReadable, message: "an item of its list has no " + of[k].name}
	case len(one.own) > maxName || len(text) > maxItem:
		return one, &trouble{
			reason:  ReasonTooLong,
			message: fmt.Sprintf("an item of its list is longer than %d KiB, or its name than %d bytes", maxItem>>10, maxName),
		}
	}
	one.app = k == tools && jsonrpc.At(text, "_meta", "ui", "resourceUri").Kind() == '"'
	return one, nil
}

// send sends a member a request that is not a client's. The error is a *trouble.
func (m *member) send(ctx context.Context, method string, params jsonrpc.Object) (*http.Response, error) {
	params["_meta"] = jsonrpc.Object{
		protocol.MetaVersion: quoted(protocol.Modern), protocol.MetaCapabilities: jsontext.Value("{}"),
		protocol.MetaClient: jsonrpc.Object{
			"name": quoted("freehold/" + m.server.config.Name), "version": quoted(m.server.config.Version),
		}.Joined(),
	}.Joined()
	text := jsonrpc.Message{ID: jsontext.Value("1"), Method: method, Params: params.Joined()}.Text()
	via, at := m.way()
	if at == nil {
		return nil, &trouble{reason: ReasonNotAnswering, message: "it is not served now"}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), bytes.NewReader(text))
	if err != nil {
		return nil, notAnswering(err)
	}
	r.Header = http.Header{
		"Content-Type": {media.JSON}, "Accept": {media.JSON + ", " + media.Events}, "User-Agent": {"freehold"},
		protocol.HeaderVersion: {protocol.Modern}, protocol.HeaderMethod: {method},
	}
	answer, err := via.RoundTrip(r)
	if err != nil {
		return nil, notAnswering(err)
	}
	return answer, nil
}

// question asks a member something that is not a client's, and returns the result. The error is a *trouble.
func (m *member) question(
	ctx context.Context, method string, params jsonrpc.Object, most int64,
) (jsontext.Value, error) {
	answer, err := m.send(ctx, method, params)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close() //nolint:errcheck // it was read
	said, err := m.server.answerIn(ctx, answer, most)
	switch {
	case err != nil:
		return nil, err
	case answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden:
		return nil, &trouble{ReasonLoginRequired, "it asks for a login, which a virtual server does not have", false}
	case said.Error != nil:
		return nil, refusalOf(answer.StatusCode, said.Error)
	case said.Result == nil:
		return nil, &trouble{reason: ReasonNotReadable, message: fmt.Sprintf("it answers HTTP %d, without a result",
			answer.StatusCode)}
	}
	return said.Result, nil
}

// refusalOf is why a member answers with an error.
func refusalOf(status int, e jsontext.Value) *trouble {
	code := codeOf(e) // its words may be others each time, and each would be a write of the status
	if code == protocol.CodeMethodNotFound {
		return &trouble{ReasonRefused, "it does not have the list", true}
	}
	return &trouble{
		reason: ReasonNotAnswering, message: fmt.Sprintf("it answers HTTP %d, error %d", status, code),
	}
}

// answerIn is the answer to a question of ours, nothing where there is none that can be read: whoever asks looks at the
// status. The error is a *trouble.
func (s *Server) answerIn(ctx context.Context, answer *http.Response, most int64) (said jsonrpc.Message, err error) {
	if media.Type(answer.Header) == media.Events {
		return eventIn(answer.Body, most)
	}
	text, err := s.readAll(ctx, answer.Body, most)
	if err != nil {
		return said, err
	}
	messages, batch, err := jsonrpc.ParseAnswer(text)
	if err != nil || batch {
		return said, nil //nolint:nilerr // as it says
	}
	return messages[0], nil
}

// readAll reads an answer. Of long ones a few are read at once.
func (s *Server) readAll(ctx context.Context, body io.Reader, most int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(body, min(most, shortList)+1))
	if err != nil {
		return nil, notAnswering(err)
	}
	if len(text) > shortList && most > shortList {
		select {
		case s.long <- struct{}{}:
			defer func() { <-s.long }()
		case <-ctx.Done():
			return nil, notAnswering(ctx.Err())
		}
		rest, err := io.ReadAll(io.LimitReader(body, most-int64(len(text))+1))
		if err != nil {
			return nil, notAnswering(err)
		}
		text = append(text, rest...)
	}
	if int64(len(text)) > most {
		return nil, &trouble{reason: ReasonTooLong, message: fmt.Sprintf("its answer is longer than %d bytes", most)}
	}
	return text, nil
}

// eventIn is the answer in a stream of events.
func eventIn(body io.Reader, most int64) (said jsonrpc.Message, err error) {
	over := errors.New("the answer has come")
	reader := sse.Reader{Limit: int(most), Event: func(e sse.Event) error {
		messages, batch, err := jsonrpc.ParseAnswer(bytes.Clone(e.Message()))
		if err == nil && !batch && messages[0].Response() {
			said = messages[0]
			return over
		}
		return nil
	}}
	_, err = io.Copy(&reader, body)
	switch {
	case errors.Is(err, over), err == nil:
		return said, nil
	case errors.Is(err, sse.ErrTooLong):
		return said, &trouble{reason: ReasonTooLong, message: fmt.Sprintf("its answer is longer than %d bytes", most)}
	}
	return said, notAnswering(err)
}
