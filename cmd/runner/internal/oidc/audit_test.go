package oidc

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/freehold-dev/freehold/cmd/runner/internal/oidc/oidctest"
)

// lines are what was logged, without when.
func lines(t *testing.T, log *bytes.Buffer) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range strings.Lines(log.String()) {
		one := map[string]any{}
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatal(err)
		}
		delete(one, "time")
		all = append(all, one)
	}
	return all
}

func TestWhoIsKeptOutIsLogged(t *testing.T) {
	p, log := oidctest.New(t), &bytes.Buffer{}
	h := front(p, at0, func(c *Config) {
		c.Audit, c.Usernames, c.Scopes = slog.New(slog.NewJSONHandler(log, nil)), []string{"ann"}, []string{"tools"}
	})
	claims := oidctest.Object{
		"iss": p.URL, "sub": "ann", "aud": resource, "exp": clock.Unix() + 60, "scope": "tools",
		"email": "s3cr3t",
	}
	for _, header := range []http.Header{
		nil, withToken("s3cr3t"), withToken(p.Token(t, rs, claims.With(oidctest.Object{"scope": "s3cr3t"}))),
		withToken(p.Token(t, rs, claims.With(oidctest.Object{"sub": "bob"}))), withToken(p.Token(t, rs, claims)),
		withToken(p.Token(t, rs, claims.With(oidctest.Object{"sub": strings.Repeat("b", 300)}))),
	} {
		send(h, http.MethodPost, "/mcp", header)
	}
	line := func(subject, issuer string, status float64, reason string) map[string]any {
		return map[string]any{
			"level": "INFO", "msg": "authentication", "client": "192.0.2.1:1234", "subject": subject, "issuer": issuer,
			"decision": "deny", "status": status, "detail": reason,
		}
	}
	cut := strings.Repeat("b", 256) + "…"
	want := []map[string]any{
		line("", "", 401, "no token: send one in the header Authorization, as Bearer TOKEN"),
		line("", "", 401, errNotSigned.Error()),
		line("ann", p.URL, 403, "the token lacks a scope: it needs tools"),
		line("bob", p.URL, denied, "bob is not among those who may call"),
		line(cut, p.URL, denied, cut+" is not among those who may call"),
	}
	if diff := cmp.Diff(want, lines(t, log)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAFloodOfRefusalsDoesNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &bytes.Buffer{}
		h := New(Config{
			Resource: &url.URL{}, Audit: slog.New(slog.NewJSONHandler(log, nil)), Client: http.DefaultClient,
			Refuse: func(http.ResponseWriter, int, string) {},
		}).Guard(nil)
		for range 1000 {
			send(h, http.MethodPost, "/mcp", http.Header{"Authorization": {"Bearer a"}})
		}
		time.Sleep(2 * time.Second)
		synctest.Wait() // for the last line, which another goroutine has written
		got := lines(t, log)
		if last := got[len(got)-1]; len(got) != refusalBurst+1 || last["suppressed"] != 1000.0-refusalBurst {
			t.Errorf("%d lines, the last is %v", len(got), last)
		}
		send(h, http.MethodPost, "/mcp", nil)
		if more := len(lines(t, log)) - len(got); more != 1 {
			t.Errorf("after that a refusal makes %d lines", more)
		}
	})
}
