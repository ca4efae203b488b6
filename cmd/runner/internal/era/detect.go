package era

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

const (
	// remembered is how long it is known which eras a backend speaks: a backend may get another image.
	remembered = 10 * time.Minute
	// pause is how long nothing is asked after an answer that told nothing.
	pause = time.Second
	// probeTime is how long a backend may take to tell, unless Config says otherwise.
	probeTime = 10 * time.Second
)

// found is what a backend speaks. Neither era is what an answer that tells nothing leaves.
type found struct {
	modern, legacy bool
	versions       []string
	until          time.Time
}

func (f *found) both() bool                 { return f.modern && f.legacy }
func (f *found) modernOnly() bool           { return f.modern && !f.legacy }
func (f *found) current(now time.Time) bool { return now.Before(f.until) }

// errRefused is what a backend tells a client that it does not let in.
var errRefused = errors.New("the backend does not let this client ask which revisions of MCP it speaks")

var errUnknown = errors.New("it is not known which revisions of MCP the backend speaks")

// detect returns which eras the backend speaks, asked with the client's own credentials. It returns an error while that is not
// known. Era detection: MCP specification 2026-07-28, basic/transports/streamable-http, backward compatibility. A backend that
// answers HTTP 401, 403, 413, 414 or 431 has told this caller nothing, and one that answers 5xx nobody.
func (t *Translator) detect(r *http.Request) (*found, error) {
	known := t.state.Load()
	switch {
	case known != nil && known.current(time.Now()):
		return known.orUnknown()
	case known != nil && (known.modern || known.legacy):
		// What was found stands until it is found again.
		select {
		case t.probing <- struct{}{}:
			go func() {
				defer func() { <-t.probing }()
				t.look(context.Background(), detached(r))
			}()
		default:
		}
		return known, nil
	}
	if t.denials.recent(t.config.Caller(r)) {
		return nil, errUnknown
	}
	select {
	case t.probing <- struct{}{}:
		defer func() { <-t.probing }()
	case <-r.Context().Done():
		return nil, errUnknown
	}
	if known := t.state.Load(); (known == nil || !known.current(time.Now())) && !t.denials.recent(t.config.Caller(r)) {
		t.look(r.Context(), r)
	}
	if known = t.state.Load(); known == nil {
		return nil, errUnknown
	}
	return known.orUnknown()
}

// look asks the backend, and keeps what it says.
func (t *Translator) look(ctx context.Context, r *http.Request) {
	began, known := time.Now(), t.state.Load()
	probe, cancel := context.WithTimeout(ctx, cmp.Or(t.config.ProbeTime, probeTime))
	defer cancel()
	speaks, err := t.probe(probe, t.bare(r))
	switch {
	case ctx.Err() != nil:
		return // this client has left; the next one asks
	case errors.Is(err, errRefused):
		t.denials.add(t.config.Caller(r)) // another caller may be told
		return
	case err != nil:
		t.config.Log.Debug("the backend does not tell which revisions of MCP it speaks", "error", err)
		again := time.Now().Add(pause)
		if probe.Err() != nil {
			// Whoever comes waits for an answer: not again soon for one that does not come. What takes no connection, or is not up yet, may
			// be there the next moment.
			t.overdue = min(t.overdue+1, 3)
			again = time.Now().Add(time.Duration(t.overdue) * time.Since(began))
		}
		if speaks = (&found{until: again}); known != nil {
			speaks = &found{modern: known.modern, legacy: known.legacy, versions: known.versions, until: again}
		}
	default:
		speaks.until, t.overdue = time.Now().Add(remembered), 0
		t.config.Log.Info("the backend tells which revisions of MCP it speaks", "modern", speaks.modern, "legacy", speaks.legacy, "versions", speaks.versions)
	}
	t.state.Store(speaks)
}

func (f *found) orUnknown() (*found, error) {
	if !f.modern && !f.legacy {
		return nil, errUnknown
	}
	return f, nil
}

// forget has the next request ask again: the backend did not speak as it was known to. What was known stands until there is an answer,
// since a client can have its own calls refused.
func (t *Translator) forget() {
	if known := t.state.Load(); known != nil {
		t.state.CompareAndSwap(known, &found{modern: known.modern, legacy: known.legacy, versions: known.versions})
	}
}

// bare is a request with those headers alone by which the backend may let its client in. What else a client sends is not to decide what
// everybody's backend is found to be: padding may leave room for initialize, and none for server/discover, which is longer.
//
// It is also what is kept of a request that a session began with: it has nothing of the client's connection, nor of the request's context
// but who sent it.
func (t *Translator) bare(r *http.Request) *http.Request {
	header := http.Header{"User-Agent": {"freehold"}} // some gateways refuse a request without one
	for name, values := range r.Header {
		if name == "Connection" || t.config.Credential(name) { // exchange reads Connection, and sends none
			header[strings.Clone(name)] = values
		}
	}
	// ReverseProxy tells of an answer that breaks off where it knows a server.
	ctx := context.WithValue(t.config.Identity(r), http.ServerContextKey, r.Context().Value(http.ServerContextKey))
	return (&http.Request{
		Method: r.Method, URL: r.URL, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header, Body: http.NoBody, Host: r.Host,
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

func (t *Translator) probe(ctx context.Context, r *http.Request) (*found, error) {
	speaks := &found{}
	answer, err := t.ask(ctx, r, modernRequest(t.newID(), protocol.MethodDiscover, nil, nil), modernHeaders(protocol.MethodDiscover, ""))
	if err != nil {
		return nil, err
	}
	if denied(answer.status) || tooLong(answer.status) {
		return nil, errRefused
	}
	if inconclusive(answer.status) {
		return nil, fmt.Errorf("server/discover is answered with HTTP %d", answer.status)
	}
	if speaks.versions = discovered(answer.message); slices.Contains(speaks.versions, protocol.Modern) {
		speaks.modern = true
		speaks.legacy = slices.ContainsFunc(speaks.versions, func(v string) bool { return v < protocol.Modern })
	}
	if told := supported(answer.message); !speaks.modern && len(told) > 0 {
		speaks.legacy, speaks.versions = true, told // no session is begun for what is known: a bridge would start a server
	}
	if speaks.legacy {
		return speaks, nil
	}
	session, err := t.initialize(ctx, r, profile{})
	var refused *refusedError
	switch {
	case err == nil:
		speaks.legacy = true
		speaks.versions = append(speaks.versions, session.version)
		t.end(r, session)
	case errors.As(err, &refused) && (denied(refused.status) || tooLong(refused.status)):
		return nil, errRefused
	case speaks.modern && refused != nil && !inconclusive(refused.status):
	default:
		return nil, err
	}
	return speaks, nil
}

// inconclusive reports whether an answer may be another one later, to somebody else, or to a shorter request.
func inconclusive(status int) bool {
	return denied(status) || tooLong(status) || status == http.StatusRequestTimeout || status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
}

// denied reports whether an answer is about who has asked.
func denied(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}

// tooLong reports whether an answer is about the length of the request. In a question of ours only what names its caller can be long.
func tooLong(status int) bool {
	return status == http.StatusRequestEntityTooLarge || status == http.StatusRequestURITooLong || status == http.StatusRequestHeaderFieldsTooLarge
}

// discovered are the versions that the answer to server/discover tells. A legacy server may answer anything, also a result.
func discovered(answer jsonrpc.Message) []string {
	var versions []string
	if json.Unmarshal(orNull(jsonrpc.Members(answer.Result)["supportedVersions"]), &versions) != nil {
		return nil
	}
	return versions
}

// supported are the legacy revisions that a server lists which refuses the modern one
// (MCP specification 2026-07-28, basic/versioning); none where it lists that, too.
func supported(answer jsonrpc.Message) []string {
	var refusal struct {
		Code int `json:"code"`
		Data struct {
			Supported []string `json:"supported"`
		} `json:"data"`
	}
	if json.Unmarshal(orNull(answer.Error), &refusal) != nil || refusal.Code != protocol.CodeUnsupportedVersion {
		return nil
	}
	if slices.Contains(refusal.Data.Supported, protocol.Modern) {
		return nil
	}
	return slices.DeleteFunc(refusal.Data.Supported, func(v string) bool { return !slices.Contains(protocol.LegacyRevisions, v) })
}

func orNull(v jsontext.Value) jsontext.Value {
	if v == nil {
		return jsontext.Value("null")
	}
	return v
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
