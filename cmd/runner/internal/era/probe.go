package era

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// maxRedirects is how often a backend may lead the question which revisions it speaks to another path.
const maxRedirects = 3

// find asks which revisions the backend speaks, at the path to which the backend leads the question, and returns the
// request for that.
func (t *Translator) find(ctx context.Context, first *http.Request) (answer reply, r *http.Request, err error) {
	r = first
	for range maxRedirects {
		answer, err = t.ask(ctx, r, modernRequest(t.newID(), protocol.MethodDiscover, nil, nil),
			modernHeaders(protocol.MethodDiscover, ""))
		to := answer.header.Get("Location")
		if err != nil || answer.status != http.StatusBadGateway || to == "" {
			return answer, r, err
		}
		r = pipeline.At(r, to)
	}
	return answer, first, nil
}

// slashed reports whether two paths are the same but for a slash at the end.
func slashed(a, b string) bool { return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/") }

// leadsAll reports whether the backend leads everybody to a path to which it has led a question: also one that has
// nothing by which it may let somebody in, whatever it answers there.
func (t *Translator) leadsAll(ctx context.Context, r *http.Request, path string) bool {
	nobody := t.bare(r)
	nobody.Header = http.Header{"User-Agent": nobody.Header["User-Agent"]}
	at := *r.URL
	at.RawQuery = ""
	nobody.URL = &at
	_, led, err := t.find(ctx, nobody)
	return err == nil && led.URL.Path == path
}

// probe asks the backend. Of what it returns with an error the path alone is known.
func (t *Translator) probe(ctx context.Context, r *http.Request) (*found, error) {
	answer, r, err := t.find(ctx, r)
	speaks := &found{path: r.URL.Path}
	switch {
	case err != nil:
		return speaks, err
	case answer.unsent != nil:
		return speaks, &nobodyError{answer.unsent}
	}
	if denied(answer.status) || tooLong(answer.status) {
		return speaks, errRefused
	}
	if inconclusive(answer.status) {
		return speaks, fmt.Errorf("server/discover is answered with HTTP %d", answer.status)
	}
	if speaks.versions = jsonrpc.Discovered(answer.message); slices.Contains(speaks.versions, protocol.Modern) {
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
	case errors.As(err, &refused) && refused.unsent != nil:
		return speaks, &nobodyError{refused.unsent}
	case errors.As(err, &refused) && (denied(refused.status) || tooLong(refused.status)):
		return speaks, errRefused
	case speaks.modern && refused != nil && !inconclusive(refused.status):
	default:
		return speaks, err
	}
	return speaks, nil
}

// inconclusive reports whether an answer may be another one later, to somebody else, or to a shorter request.
func inconclusive(status int) bool {
	return denied(status) || tooLong(status) || status == http.StatusRequestTimeout ||
		status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
}

// denied reports whether an answer is about who has asked.
func denied(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}

// tooLong reports whether an answer is about the length of the request. In a question of ours only what names its
// caller can be long.
func tooLong(status int) bool {
	return status == http.StatusRequestEntityTooLarge || status == http.StatusRequestURITooLong ||
		status == http.StatusRequestHeaderFieldsTooLarge
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
	return slices.DeleteFunc(refusal.Data.Supported,
		func(v string) bool { return !slices.Contains(protocol.LegacyRevisions, v) })
}

func orNull(v jsontext.Value) jsontext.Value {
	if v == nil {
		return jsontext.Value("null")
	}
	return v
}
