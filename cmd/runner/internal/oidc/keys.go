package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/time/rate"
)

const (
	// keyAge is how old keys may be before they are fetched again, so that a key
	// that the issuer has withdrawn is forgotten.
	keyAge = time.Hour
	// keyPatience is how old they may be while the issuer cannot be reached.
	keyPatience = 24 * time.Hour
	// keyRetry is how long old keys are used without another try.
	keyRetry = time.Minute
	// fetchTime is how long a document may take, and maxDocument how long it may
	// be, in bytes.
	fetchTime   = 10 * time.Second
	maxDocument = 1 << 20
)

// errUnavailable is the error of a token that cannot be judged now.
var errUnavailable = errors.New("the issuer's keys cannot be fetched")

// issuer is what is known of who signs.
type issuer struct {
	config Config
	client *http.Client

	mu sync.Mutex
	// name and set are those of the last success at fetched, and used without
	// another try until next.
	name          string
	set           oidc.KeySet
	fetched, next time.Time
}

func newIssuer(config Config) *issuer {
	client := &http.Client{Timeout: fetchTime, CheckRedirect: config.Client.CheckRedirect}
	// A token with a key that nobody knows makes the keys be fetched. Tokens cost
	// their senders nothing, fetches cost the issuer.
	client.Transport = &limited{next: config.Client.Transport, limiter: rate.NewLimiter(rate.Every(5*time.Second), 5)}
	return &issuer{config: config, client: client}
}

// verify returns the payload of a token that the issuer has signed. Its error is
// errUnavailable if that cannot be told.
func (i *issuer) verify(ctx context.Context, token string) (payload []byte, name string, err error) {
	set, name, err := i.current(ctx)
	if err != nil {
		return nil, "", errUnavailable
	}
	payload, err = set.VerifySignature(ctx, token)
	if isFetch(err) {
		return nil, "", errUnavailable
	}
	return payload, name, err
}

// current is the issuer's name and keys, fetched again when they are old.
func (i *issuer) current(ctx context.Context) (oidc.KeySet, string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.config.Now()
	if i.set != nil && now.Before(i.next) {
		return i.set, i.name, nil
	}
	// The fetch is for everybody who waits, not for the one who began it.
	ctx = oidc.ClientContext(context.WithoutCancel(ctx), i.client)
	name, set, err := i.fetch(ctx)
	switch {
	case err == nil:
		i.name, i.set, i.fetched, i.next = name, set, now, now.Add(keyAge)
	case i.set != nil && now.Before(i.fetched.Add(keyPatience)):
		i.next = now.Add(keyRetry)
	default:
		i.set = nil
		return nil, "", err
	}
	return i.set, i.name, nil
}

// fetch reads the discovery document, where it is needed, and the keys.
func (i *issuer) fetch(ctx context.Context) (string, oidc.KeySet, error) {
	name, keys := i.config.Issuer, i.config.KeysURL
	if name == "" || keys == "" {
		var found struct {
			Issuer string `json:"issuer"`
			Keys   string `json:"jwks_uri"`
		}
		if err := i.document(ctx, i.config.Discovery, &found); err != nil {
			return "", nil, err
		}
		if name != "" && found.Issuer != name {
			return "", nil, fmt.Errorf("%s names the issuer %q, not %q", i.config.Discovery, found.Issuer, name)
		}
		name = found.Issuer
		if keys == "" {
			keys = found.Keys
		}
	}
	if name == "" || keys == "" {
		return "", nil, fmt.Errorf("%s names no issuer or no keys", i.config.Discovery)
	}
	set := oidc.NewRemoteKeySet(ctx, keys)
	// A token that nobody has signed makes the set fetch its keys.
	if _, err := set.VerifySignature(ctx, probe); isFetch(err) {
		return "", nil, err
	}
	return name, set, nil
}

// probe is a well-formed token without a valid signature: {"alg":"RS256"}, {},
// and one byte.
const probe = "eyJhbGciOiJSUzI1NiJ9.e30.AA"

func (i *issuer) document(ctx context.Context, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := i.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // it is read
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return json.NewDecoder(io.LimitReader(response.Body, maxDocument)).Decode(into)
}

// fetchError is an error of a fetch, whatever the libraries between say.
type fetchError struct{ error }

func (e fetchError) Unwrap() error { return e.error }

func isFetch(err error) bool {
	var fetch fetchError
	return errors.As(err, &fetch)
}

// limited bounds how often an issuer is asked, how long its answers are, and
// makes every failure a fetchError.
type limited struct {
	next    http.RoundTripper
	limiter *rate.Limiter
}

// RoundTrip implements http.RoundTripper.
func (l *limited) RoundTrip(r *http.Request) (*http.Response, error) {
	if !l.limiter.Allow() {
		return nil, fetchError{errors.New("the issuer was asked too often")}
	}
	next := l.next
	if next == nil {
		next = http.DefaultTransport
	}
	response, err := next.RoundTrip(r)
	if err != nil {
		return nil, fetchError{err}
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close() //nolint:errcheck // nothing of it is used
		return nil, fetchError{fmt.Errorf("%s answers %s", r.URL.Redacted(), response.Status)}
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(response.Body, maxDocument), response.Body}
	return response, nil
}
