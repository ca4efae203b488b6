package era

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
)

const (
	// remembered is how long it is known which eras a backend speaks: a backend may get another image.
	remembered = 10 * time.Minute
	// pause is how long nothing is asked after an answer that told nothing.
	pause = time.Second
	// probeTime is how long a backend may take to tell, unless Config says otherwise.
	probeTime = 10 * time.Second
	// maxQuestions is how many who come from different places may ask it at once: it may take long to let one in, or not.
	maxQuestions = 8
)

// found is what a backend speaks. Neither era is what an answer that tells nothing leaves.
type found struct {
	modern, legacy bool
	versions       []string
	// path is where it answers, empty where nobody knows: many frameworks redirect to the same path with a slash.
	path string
	// content is that of the backend that was asked, and earlier says that its pods have said nothing yet, and those of an
	// earlier content did.
	content string
	earlier bool
	until   time.Time
	// overdue is how often in a row it has not told in time.
	overdue int
	// nobody is why the last question got nowhere while nothing was found, and asked when that began.
	nobody error
	asked  time.Time
}

func (f *found) both() bool { return f.modern && f.legacy }
func (f *found) any() bool  { return f != nil && (f.modern || f.legacy) }

// of reports whether something was found of a content.
func (f *found) of(content string) bool { return f.any() && f.content == content }

// current reports whether it need not be asked for again.
func (f *found) current(now time.Time, content string) bool {
	return f != nil && f.content == content && now.Before(f.until)
}

// unanswered is what a question leaves that was not answered: what was found holds until it is found again, also where
// that was of another content, since most replacements change no era. Where that one answered this one need not.
func (f *found) unanswered(asked *found) *found {
	again := found{}
	if f != nil {
		again = *f
		again.earlier = f.any() && (f.earlier || f.content != asked.content)
	}
	if !f.of(asked.content) {
		again.path = asked.path
	}
	again.content, again.until, again.nobody = asked.content, time.Time{}, nil
	return &again
}

// gotNowhere reports whether a question that began after a call had come found nobody: the call need not ask again.
func (f *found) gotNowhere(since time.Time) bool {
	return f != nil && f.nobody != nil && f.asked.After(since)
}

// allSpeak reports whether every pod of the backend speaks what was found.
func (f *found) allSpeak(content string) bool { return !f.earlier && content != Mixed }

// errRefused is what a backend tells a client that it does not let in.
var errRefused = errors.New("the backend does not let this client ask which revisions of MCP it speaks")

// nobodyError says that nobody was there to take a question. A call has to wait until somebody is: what has not been
// asked may speak either era.
type nobodyError struct{ error }

// Unwrap is why.
func (e *nobodyError) Unwrap() error { return e.error }

var errUnknown = errors.New("it is not known which revisions of MCP the backend speaks")

// detect returns which eras the backend speaks, asked with the client's own credentials. It returns an error while that
// is not known, which is a *nobodyError where nobody was there. Era detection: MCP specification 2026-07-28,
// basic/transports/streamable-http, backward compatibility. A backend that answers HTTP 401, 403, 413, 414 or 431 has
// told this caller nothing, and one that answers 5xx nobody.
func (t *Translator) detect(r *http.Request) (*found, error) {
	known, content := t.state.Load(), t.config.Content()
	switch {
	case known.current(time.Now(), content), known.of(content) && t.config.Own(r), t.denials.recent(t.config.Caller(r)):
	case known.of(content):
		if leave, err := t.questions.Take(pipeline.Of(r.Context()).Payer(), 1); err == nil {
			go func() {
				defer leave()
				t.askEras(context.Background(), r)
			}()
		}
	default:
		came := time.Now()
		leave, err := t.questions.Wait(r.Context(), pipeline.Of(r.Context()).Payer(), 1)
		if err != nil {
			return nil, errUnknown
		}
		defer leave()
		if known = t.state.Load(); !known.current(time.Now(), content) && !known.of(content) &&
			!known.gotNowhere(came) && !t.denials.recent(t.config.Caller(r)) {
			t.askEras(r.Context(), r)
		}
		known = t.state.Load()
	}
	switch {
	case known.any():
		return known, nil
	case known != nil && known.nobody != nil:
		return nil, &nobodyError{known.nobody}
	default:
		return nil, errUnknown
	}
}

// askEras asks the backend which eras it speaks, and keeps what it says.
func (t *Translator) askEras(ctx context.Context, r *http.Request) {
	began, known := time.Now(), t.state.Load()
	probe, cancel := context.WithTimeout(ctx, cmp.Or(t.config.ProbeTime, probeTime))
	defer cancel()
	content := t.config.Content()
	speaks, err := t.probe(probe, t.bare(r))
	speaks.content = content
	if !slashed(speaks.path, r.URL.Path) && (err != nil || !t.leadsAll(probe, r, speaks.path)) {
		speaks.path = ""
	}
	switch {
	case ctx.Err() != nil:
		// This client has left; the next one asks.
	case err == nil:
		speaks.until = time.Now().Add(remembered)
		if content == t.config.Content() {
			t.state.Store(speaks)
		} else { // what was found of its successor meanwhile stands
			t.state.CompareAndSwap(known, speaks)
		}
		t.config.Log.Info("the backend tells which revisions of MCP it speaks", "modern", speaks.modern,
			"legacy", speaks.legacy, "versions", speaks.versions, "path", speaks.path)
	case errors.Is(err, errRefused):
		t.denials.add(t.config.Caller(r)) // another caller may be told
		t.state.CompareAndSwap(known, known.unanswered(speaks))
	default:
		t.config.Log.Debug("the backend does not tell which revisions of MCP it speaks", "error", err)
		left := known.unanswered(speaks)
		left.until = time.Now().Add(pause)
		if nobody, ok := errors.AsType[*nobodyError](err); ok && !left.any() {
			left.until, left.nobody, left.asked = time.Time{}, nobody.error, began // calls wait for what the next one finds
		}
		if probe.Err() != nil && left.nobody == nil {
			// Whoever comes waits for an answer: not again soon for one that does not come. What takes no connection, or is not
			// up yet, may be there the next moment.
			left.overdue = min(left.overdue+1, 3)
			left.until = time.Now().Add(time.Duration(left.overdue) * time.Since(began))
		}
		t.state.CompareAndSwap(known, left)
	}
}

// at is a request for where the backend answers. That was found out by a question without anything that a caller has
// said: what policies have judged is sent once, as it is. Where the pods of before were elsewhere it is found out anew.
func (t *Translator) at(r *http.Request) *http.Request {
	known, content := t.state.Load(), t.config.Content()
	if known == nil || known.path == "" || known.path == r.URL.Path {
		return r
	}
	if known.content != content {
		_, _ = t.detect(r) //nolint:errcheck // of what is not known nothing stands
		known = t.state.Load()
	}
	if known.content != content {
		return r
	}
	return pipeline.At(r, known.path)
}

// forget has the next request ask again: the backend did not speak as it was known to. What was known stands until
// there is an answer, since a client can have its own calls refused.
func (t *Translator) forget() {
	if known := t.state.Load(); known != nil {
		again := *known
		again.until = time.Time{}
		t.state.CompareAndSwap(known, &again)
	}
}

// bare is a request with those headers alone by which the backend may let its client in. What else a client sends is
// not to decide what everybody's backend is found to be: padding may leave room for initialize, and none for
// server/discover, which is longer.
//
// It is also what is kept of a request that a session began with: it has nothing of the client's connection, nor of the
// request's context but who sent it.
func (t *Translator) bare(r *http.Request) *http.Request {
	header := http.Header{"User-Agent": {"freehold"}} // some gateways refuse a request without one
	for name, values := range r.Header {
		if name == "Connection" || t.config.Credential(name) { // exchange reads Connection, and sends none
			header[strings.Clone(name)] = values
		}
	}
	// ReverseProxy tells of an answer that breaks off where it knows a server.
	ctx := context.WithValue(pipeline.Of(r.Context()).Alone(), http.ServerContextKey,
		r.Context().Value(http.ServerContextKey))
	return (&http.Request{
		Method: r.Method, URL: r.URL, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header, Body: http.NoBody,
		Host:       r.Host,
		RemoteAddr: r.RemoteAddr, RequestURI: r.RequestURI,
	}).WithContext(ctx)
}

// kept is how many bytes bare keeps of a request.
func (t *Translator) kept(r *http.Request) int {
	sum := len(r.RequestURI) + len(r.Host)
	for name, values := range r.Header {
		if name != "Connection" && !t.config.Credential(name) {
			continue
		}
		sum += len(name)
		for _, value := range values {
			sum += len(value)
		}
	}
	return sum
}

// maxDenials is how many callers are remembered whom the backend does not let ask.
const maxDenials = 1024

// denials are those of the last moment, by caller: their calls do not ask again one after the other.
type denials struct {
	mu    sync.Mutex
	until map[[sha256.Size]byte]time.Time
}

func (d *denials) recent(caller string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Now().Before(d.until[sha256.Sum256([]byte(caller))])
}

func (d *denials) add(caller string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(d.until, func(_ [sha256.Size]byte, until time.Time) bool { return !now.Before(until) })
	if d.until == nil || len(d.until) >= maxDenials {
		d.until = map[[sha256.Size]byte]time.Time{}
	}
	d.until[sha256.Sum256([]byte(caller))] = now.Add(pause)
}
