package headers

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
)

const (
	// fresh is for how long a list is believed. A server need not tell that it has changed.
	fresh = time.Minute
	// retry is when a list that could not be read is read again, if that was told at once.
	retry = 5 * time.Second
	// maxPages is how many pages of a list are read, and maxBindings how many headers are remembered of it.
	maxPages    = 50
	maxBindings = 1000
	// listTime is how long a list may take.
	listTime = 10 * time.Second
)

// List is the result of tools/list, from a cursor on: a JSON text, nil for the first page.
type List func(ctx context.Context, cursor jsontext.Value) (result jsontext.Value, err error)

// Tools is what the tools of a server want repeated in headers. The zero value knows nothing.
type Tools struct {
	mu     sync.Mutex
	asking chan struct{} // full while a list is read
	known  map[string]definition
	read   time.Time
	lasts  time.Duration // how long after that it is read again: fresh or retry
}

// Add adds the headers of a call of a tool to those of the request, as far as they are known, also of a schema that
// breaks the rules: its server may want them.
func (t *Tools) Add(header http.Header, tool string, arguments jsontext.Value) {
	for _, b := range t.of(tool).bindings {
		b.add(header, arguments)
	}
}

// Check is what is wrong with the headers of a call of a tool, held against a list that is a minute old at most and
// read with list else. Where there is none no header is known, and none is wrong: the call is judged by whoever runs
// it.
func (t *Tools) Check(ctx context.Context, header http.Header, tool string, arguments jsontext.Value, list List) error {
	if !repeats(header) && len(bytes.TrimSpace(arguments)) <= len("{}") {
		return nil // nothing could be amiss
	}
	t.mu.Lock()
	old := time.Since(t.read) >= t.lasts
	t.mu.Unlock()
	if old {
		_ = t.learn(ctx, list, fresh) //nolint:errcheck // what is known stands
	}
	err := t.wrong(header, tool, arguments)
	// The client may know a newer list.
	if err != nil && !old && t.learn(ctx, list, time.Second) == nil {
		err = t.wrong(header, tool, arguments)
	}
	return err
}

func (t *Tools) wrong(header http.Header, tool string, arguments jsontext.Value) error {
	d := t.of(tool)
	if d.broken {
		return nil
	}
	for _, b := range d.bindings {
		if err := b.check(header, arguments); err != nil {
			return err
		}
	}
	return nil
}

func repeats(header http.Header) bool {
	for name := range header {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

func (t *Tools) of(tool string) definition {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[tool]
}

// Learn reads the list.
func (t *Tools) Learn(ctx context.Context, list List) error { return t.learn(ctx, list, 0) }

// learn reads the list, unless it was read in the time before.
func (t *Tools) learn(ctx context.Context, list List, before time.Duration) error {
	t.mu.Lock()
	if t.asking == nil {
		t.asking = make(chan struct{}, 1)
	}
	asking := t.asking
	t.mu.Unlock()
	select {
	case asking <- struct{}{}:
		defer func() { <-asking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	t.mu.Lock()
	again := time.Since(t.read) < min(before, t.lasts)
	t.mu.Unlock()
	if again {
		return nil
	}
	began := time.Now()
	all, err := readAll(ctx, list)
	if ctx.Err() != nil {
		return ctx.Err() // this client has left; the next one reads it
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.read, t.lasts = time.Now(), fresh
	switch {
	case err == nil || errors.Is(err, errLong):
		t.known = all
	case t.read.Sub(began) < retry: // else calls would wait most of the time
		t.lasts = retry
	}
	return err
}

var errLong = errors.New("tools/list has too many pages, or tools with headers")

// readAll returns what it has read with errLong.
func readAll(ctx context.Context, list List) (map[string]definition, error) {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	all, count := map[string]definition{}, 0
	var cursor jsontext.Value
	for range maxPages {
		result, err := list(ctx, cursor)
		if err != nil {
			return nil, err
		}
		var page page
		if err := json.Unmarshal(result, &page, jsonrpc.Lenient); err != nil {
			return nil, err
		}
		for _, tool := range page.Tools {
			if d := define(tool.InputSchema); len(d.bindings) > 0 {
				if count += len(d.bindings); count > maxBindings {
					return all, errLong
				}
				all[tool.Name] = d
			}
		}
		if page.Next == nil || page.Next.Kind() == 'n' {
			return all, nil
		}
		cursor = page.Next.Clone()
	}
	return all, errLong
}
