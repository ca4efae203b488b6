package oidc

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
	"k8s.io/utils/lru"

	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
)

// Introspection is where the issuer tells what a token is (RFC 7662).
type Introspection struct {
	// URL is asked, without following a redirect.
	URL string
	// ClientID and the content of SecretFile, read for each question, are who asks.
	ClientID, SecretFile string
}

const (
	// toldAge is how long an answer holds at most: a token that the issuer withdraws
	// lives that much longer. refusedAge is the same of a token that is not taken.
	toldAge, refusedAge = time.Minute, 10 * time.Second
	// askTime is how long a question may take, and maxAnswer how long its answer may
	// be, in bytes.
	askTime, maxAnswer = 5 * time.Second, 64 << 10
	// asked is how many questions there are at once about tokens that nobody knows,
	// and again as many about those that were valid before. Of the first no more than
	// askRate begin in a second, after askBurst.
	asked, askRate, askBurst = 16, 50, 100
)

var (
	errNoAnswer = fmt.Errorf("%w: the issuer does not tell what it is", errUnavailable)
	errInactive = errors.New("the issuer says that the token is not active")
)

type hash = [sha256.Size]byte

// introspector asks the issuer about tokens.
type introspector struct {
	config Config
	client *http.Client
	// read makes an identity of claims.
	read func(claims []byte, issuer string, told bool) (identity, error)

	questions singleflight.Group
	limit     *pace
	// unknown and known are the places for questions, so that a flood of tokens that
	// are made up holds up nobody whose token was valid before. Of the first an address has half.
	unknown, known *share.Places
	refused        *lru.Cache // by hash, why a token was not taken and until when
	complaint      rate.Sometimes
}

// rejected is why a token is not taken, and for how long that holds.
type rejected struct {
	err   error
	until time.Time
}

func newIntrospector(config Config, read func([]byte, string, bool) (identity, error)) *introspector {
	client := *config.Client
	client.Timeout = askTime
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &introspector{
		config: config, client: &client, read: read,
		limit: newPace(askRate, askBurst), unknown: share.New(asked, share.Half(asked)), known: share.New(asked, asked),
		refused: lru.New(remembered), complaint: rate.Sometimes{Interval: askTime},
	}
}

// ask returns who sent a token, once for all who wait. wasValid says that the issuer
// has told of it before. The question goes on when ctx ends.
func (i *introspector) ask(ctx context.Context, token, from string, key hash, wasValid bool) (identity, error) {
	if known, ok := i.refused.Get(key); ok {
		if r := known.(rejected); i.config.Now().Before(r.until) { //nolint:forcetypeassert // nothing else is added
			return identity{}, r.err
		}
	}
	done := i.questions.DoChan(string(key[:]), func() (any, error) {
		asking, cancel := context.WithTimeout(context.Background(), askTime)
		defer cancel()
		id, err := i.turn(asking, token, from, wasValid)
		if err != nil && !errors.Is(err, errUnavailable) {
			i.refused.Add(key, rejected{err, i.config.Now().Add(refusedAge)})
		}
		return id, err
	})
	select {
	case <-ctx.Done():
		return identity{}, errNoAnswer
	case result := <-done:
		id, _ := result.Val.(identity)
		return id, result.Err
	}
}

// turn asks when there is a place for it.
func (i *introspector) turn(ctx context.Context, token, from string, wasValid bool) (identity, error) {
	places := i.known
	if !wasValid {
		places = i.unknown
		if i.limit.wait(ctx, from) != nil {
			return identity{}, errNoAnswer
		}
	}
	leave, err := places.Wait(ctx, from, 1)
	if err != nil {
		return identity{}, errNoAnswer
	}
	defer leave()
	claims, active, err := i.question(ctx, token)
	if err != nil {
		i.complaint.Do(func() {
			if i.config.Log != nil {
				i.config.Log.Warn("cannot ask the issuer about a token", "error", err.Error())
			}
		})
		return identity{}, errNoAnswer
	}
	if !active {
		return identity{}, errInactive
	}
	return i.read(claims, i.config.Issuer, true)
}

// question returns the issuer's answer about a token, and whether it is active. Its
// error holds no token.
func (i *introspector) question(ctx context.Context, token string) (claims []byte, active bool, err error) {
	secret, err := os.ReadFile(i.config.Introspection.SecretFile)
	if err != nil {
		return nil, false, fmt.Errorf("reading the client secret: %w", err)
	}
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, i.config.Introspection.URL,
		strings.NewReader(form.Encode()))
	if err != nil {
		return nil, false, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", "application/json")
	// Both are encoded before they are joined (RFC 6749, section 2.3.1).
	password := strings.TrimRight(string(secret), "\r\n") // editors end a file with one
	request.SetBasicAuth(url.QueryEscape(i.config.Introspection.ClientID), url.QueryEscape(password))
	response, err := i.client.Do(request)
	if err != nil {
		return nil, false, err
	}
	defer response.Body.Close() //nolint:errcheck // it is read
	if response.StatusCode != http.StatusOK {
		return nil, false, fmt.Errorf("%s answers %s", i.config.Introspection.URL, response.Status)
	}
	claims, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, false, fmt.Errorf("reading %s: %w", i.config.Introspection.URL, err)
	case len(claims) > maxAnswer:
		return nil, false, fmt.Errorf("%s answers with more than %d bytes", i.config.Introspection.URL, maxAnswer)
	}
	var told struct {
		Active *bool `json:"active"`
	}
	if err := json.Unmarshal(claims, &told); err != nil || told.Active == nil {
		return nil, false, fmt.Errorf("%s does not answer whether the token is active (RFC 7662, section 2.2)",
			i.config.Introspection.URL)
	}
	return claims, *told.Active, nil
}
