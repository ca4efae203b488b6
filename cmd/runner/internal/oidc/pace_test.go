package oidc

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/freehold-dev/freehold/cmd/runner/internal/oidc/oidctest"
	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
)

// sendFrom calls from an address, and returns the status.
func sendFrom(h http.Handler, address, token string) int {
	r, w := httptest.NewRequest(http.MethodPost, "/mcp", http.NoBody), httptest.NewRecorder()
	r.RemoteAddr, r.Header = address+":1", withToken(token)
	h.ServeHTTP(w, r)
	return w.Code
}

// Whoever sends forged tokens, under the name of a key that is known or under others, keeps nobody elsewhere from a key
// that is new.
func TestForgedTokensKeepNobodyElseFromANewKey(t *testing.T) {
	rogue := oidctest.New(t)
	for name, kids := range map[string]struct {
		forged, next string
	}{"known names": {"one", "one"}, "unknown names": {"made up", "two"}} {
		t.Run(name, func(t *testing.T) {
			p := oidctest.New(t)
			h := front(p, at0, nil)
			token := func(by *oidctest.Issuer, kid string) string {
				claims := oidctest.Object{"iss": p.URL, "sub": "ann", "aud": resource, "exp": clock.Unix() + 60, "jti": rand.Text()}
				return by.Token(t, oidctest.Object{"alg": "RS256", "kid": kid}, claims)
			}
			for range 5 {
				if got := sendFrom(h, "192.0.2.1", token(rogue, kids.forged)); got != 401 {
					t.Fatalf("forged: %d", got)
				}
			}
			p.Kid.Store(kids.next)
			p.Renew(t)
			if got := sendFrom(h, "192.0.2.2", token(p, kids.next)); got != 200 {
				t.Errorf("signed with the new key: %d", got)
			}
			for n := range 50 {
				sendFrom(h, fmt.Sprint("192.0.2.", n), token(rogue, kids.forged))
			}
			if fetched := p.Fetches.Load(); fetched > 8 {
				t.Errorf("55 forged tokens, of many addresses, made %d fetches", fetched)
			}
		})
	}
}

// Whoever sends tokens that are made up keeps nobody elsewhere from asking about one that is new.
func TestAFloodFromOneAddressHoldsUpNoOther(t *testing.T) {
	p := oidctest.New(t)
	ask, _ := asking(t, p)
	h := front(p, at0, ask)
	p.Tokens.Store("new", oidctest.Object{"sub": "ann", "aud": resource})
	held := make(chan struct{})
	p.Held.Store(&held)
	var flood sync.WaitGroup
	for n := range askBurst {
		flood.Go(func() { sendFrom(h, "192.0.2.1", fmt.Sprint("made up ", n)) })
	}
	for p.Busy.Load() < asked/2 {
		time.Sleep(time.Millisecond)
	}
	if got := sendFrom(h, "192.0.2.2", "new"); got != 200 {
		t.Errorf("%d", got)
	}
	close(held)
	flood.Wait()
}

func TestOneAddressHasHalfOfAPace(t *testing.T) {
	p := newPace(rate.Every(time.Hour), 4)
	for _, step := range []struct {
		address string
		want    bool
	}{{"a", true}, {"a", true}, {"a", false}, {"b", true}, {"c", true}, {"c", false}, {"d", false}} {
		if got := p.allow(step.address); got != step.want {
			t.Errorf("%s: %t", step.address, got)
		}
	}
}

// Questions of many addresses are bounded together, and who waits for one has it in its time.
func TestAPaceIsOfAllAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, began := newPace(askRate, askBurst), time.Now()
		var all sync.WaitGroup
		for n := range askBurst + 2*askRate {
			all.Go(func() {
				if err := p.wait(t.Context(), fmt.Sprint(n)); err != nil {
					t.Error(err)
				}
			})
		}
		if all.Wait(); time.Since(began) != 2*time.Second {
			t.Errorf("%d questions take %s", askBurst+2*askRate, time.Since(began))
		}
	})
}

// Of the places for questions at once one address has half.
func TestOneAddressHasHalfOfTheQuestionsAtOnce(t *testing.T) {
	i := newIntrospector(Config{Client: http.DefaultClient}, nil)
	for _, step := range []struct {
		address string
		n       int64
		want    error
	}{{"a", asked / 2, nil}, {"a", 1, share.ErrOwn}, {"b", asked / 2, nil}, {"c", 1, share.ErrAll}} {
		if _, err := i.unknown.Take(step.address, step.n); !errors.Is(err, step.want) {
			t.Errorf("%d of %s: %v", step.n, step.address, err)
		}
	}
}
