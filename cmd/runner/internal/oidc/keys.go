package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
)

const (
	// keyAge is how old keys may be before they are fetched again, so that a key
	// that the issuer has withdrawn is forgotten.
	keyAge = time.Hour
	// keyPatience is how old they may be while the issuer cannot be reached.
	keyPatience = 24 * time.Hour
	// keyRetry is how long old keys are used without another try, and firstRetry how
	// long calls are refused without one where there are none.
	keyRetry, firstRetry = time.Minute, 5 * time.Second
	// fetchTime is how long a fetch may take, and staleWait how long a call waits
	// for it where old keys can serve.
	fetchTime, staleWait = 10 * time.Second, 2 * time.Second
	// maxDocument is how long a document may be, in bytes.
	maxDocument = 1 << 20
)

var (
	// errUnavailable is the error of a token that cannot be verified now, and errNoKeys
	// of one for which no keys are known.
	errUnavailable = errors.New("the token cannot be verified now")
	errNoKeys      = fmt.Errorf("%w: the issuer's keys cannot be fetched", errUnavailable)
	// errSignature is the error of a token that no key of the issuer has signed.
	errSignature = errors.New("no key of the issuer has signed the token")
)

// keys are what one fetch found; none of an issuer that has no keys.
type keys struct {
	issuer string
	set    []jose.JSONWebKey
}

// of are the keys that may have signed a token which names kid.
func (k *keys) of(kid string) []jose.JSONWebKey {
	if kid == "" {
		return k.set
	}
	return (&jose.JSONWebKeySet{Keys: k.set}).Key(kid)
}

func (k *keys) verify(token *jose.JSONWebSignature) ([]byte, error) {
	for _, key := range k.of(token.Signatures[0].Header.KeyID) {
		if payload, err := token.Verify(key.Key); err == nil {
			return payload, nil
		}
	}
	return nil, errSignature
}

// issuer is what is known of who signs.
type issuer struct {
	config Config
	client *http.Client
	// unknown bounds the fetches for tokens that no known key has signed.
	unknown *pace
	fetches singleflight.Group

	mu sync.Mutex
	// last is of the last success, at fetched. Nothing is fetched until next.
	last          *keys
	fetched, next time.Time
}

func newIssuer(config Config) *issuer {
	client := *config.Client
	client.Timeout = fetchTime
	return &issuer{config: config, client: &client, unknown: newPace(rate.Every(2500*time.Millisecond), 4)}
}

// verify returns the payload of a token that the issuer has signed, and the
// issuer's name. Its error is errNoKeys or errSignature.
func (i *issuer) verify(
	ctx context.Context, token *jose.JSONWebSignature, from string,
) (payload []byte, name string, err error) {
	known, err := i.current(ctx)
	if err != nil {
		return nil, "", err
	}
	payload, err = known.verify(token)
	if err == nil || !i.unknown.allow(from) {
		return payload, known.issuer, err
	}
	// The key may be newer than those that are known, also where it has the name of one of them, or none.
	if newer, failed := i.fetch(ctx); failed == nil {
		known = newer
		payload, err = known.verify(token)
	}
	return payload, known.issuer, err
}

// current is what is known of the issuer, fetched again when it is old. Its error is
// errNoKeys.
func (i *issuer) current(ctx context.Context) (*keys, error) {
	i.mu.Lock()
	last, fetched, next := i.last, i.fetched, i.next
	i.mu.Unlock()
	now := i.config.Now()
	usable := last != nil && now.Before(fetched.Add(keyPatience))
	switch {
	case usable && now.Before(next):
		return last, nil
	case usable:
		waiting, cancel := context.WithTimeout(ctx, staleWait)
		defer cancel()
		if newer, err := i.fetch(waiting); err == nil {
			return newer, nil
		}
		return last, nil
	case now.Before(next):
		return nil, errNoKeys
	}
	return i.fetch(ctx)
}

// fetch asks the issuer, once for all who wait. The fetch goes on when ctx ends.
func (i *issuer) fetch(ctx context.Context) (*keys, error) {
	done := i.fetches.DoChan("", func() (any, error) {
		asking, cancel := context.WithTimeout(context.Background(), fetchTime)
		defer cancel()
		found, err := i.read(asking)
		i.note(found, err)
		return found, err
	})
	select {
	case <-ctx.Done():
		return nil, errNoKeys
	case result := <-done:
		found, ok := result.Val.(*keys)
		if result.Err != nil || !ok {
			return nil, errNoKeys
		}
		return found, nil
	}
}

// note keeps what a fetch found, and says why one failed.
func (i *issuer) note(found *keys, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.config.Now()
	switch {
	case err == nil:
		i.last, i.fetched, i.next = found, now, now.Add(keyAge)
		return
	case i.last != nil:
		i.next = now.Add(keyRetry)
	default:
		i.next = now.Add(firstRetry)
	}
	if i.config.Log != nil {
		i.config.Log.Warn("cannot fetch the issuer's keys", "error", err.Error(), "again", i.next.Sub(now).String())
	}
}

// read reads the discovery document, where it is needed, and the keys.
func (i *issuer) read(ctx context.Context) (*keys, error) {
	name, location := i.config.Issuer, i.config.KeysURL
	if name == "" || location == "" {
		var found struct {
			Issuer string `json:"issuer"`
			Keys   string `json:"jwks_uri"`
		}
		if err := i.document(ctx, i.config.Discovery, &found); err != nil {
			return nil, err
		}
		if name != "" && found.Issuer != name {
			return nil, fmt.Errorf("%s names the issuer %q, not %q", i.config.Discovery, found.Issuer, name)
		}
		name = found.Issuer
		if location == "" {
			location = found.Keys
		}
	}
	if name != "" && location == "" && i.config.Introspection != nil {
		return &keys{issuer: name}, nil
	}
	if name == "" || location == "" {
		return nil, fmt.Errorf("%s names no issuer or no keys", i.config.Discovery)
	}
	// Whoever can change what is read over http makes keys, and with them tokens.
	if strings.HasPrefix(i.config.Discovery, "https:") && !strings.HasPrefix(location, "https:") {
		return nil, fmt.Errorf("%s names keys at %s, which is not https", i.config.Discovery, location)
	}
	var document struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := i.document(ctx, location, &document); err != nil {
		return nil, err
	}
	found := &keys{issuer: name}
	for _, raw := range document.Keys {
		var key jose.JSONWebKey
		// A key of a kind that is not known here may stand beside those that are.
		if json.Unmarshal(raw, &key) == nil && key.Valid() && key.IsPublic() && key.Use != "enc" {
			found.set = append(found.set, key)
		}
	}
	if len(found.set) == 0 {
		return nil, fmt.Errorf("%s holds no public key that can be used", location)
	}
	return found, nil
}

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
	if err := json.NewDecoder(io.LimitReader(response.Body, maxDocument)).Decode(into); err != nil {
		return fmt.Errorf("reading %s: %w", url, err)
	}
	return nil
}
