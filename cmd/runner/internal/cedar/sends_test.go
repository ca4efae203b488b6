package cedar

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
)

// stalled is a client that does not read what is sent to it.
type stalled struct {
	*httptest.ResponseRecorder
	sent, over chan struct{}
	deadline   time.Time
}

func (s *stalled) SetWriteDeadline(deadline time.Time) error {
	s.deadline = deadline
	return nil
}

func (s *stalled) Write(p []byte) (int, error) {
	if s.deadline.IsZero() {
		return 0, nil // without a bound it is not sent
	}
	s.sent <- struct{}{}
	<-s.over
	return len(p), nil
}

func TestClientsThatDoNotReadHoldNobodyUp(t *testing.T) {
	long := `{"id":1,"result":{"tools":[{"name":"add","x":"` + strings.Repeat("a", smallBody) + `"}]}}`
	for _, b := range []*backend{
		{kind: "application/json", body: long},
		{kind: "text/event-stream", body: "data: " + long + "\n\n"},
	} {
		h := guarded(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			one := *b
			one.ServeHTTP(w, r)
		}), nil)
		sent, over := make(chan struct{}), make(chan struct{})
		var calls sync.WaitGroup
		for i := range 2 * largeAnswers {
			r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(`{"id":1,"method":"tools/list"}`))
			r.Header = http.Header{"Content-Type": {"application/json"}, "As": {fmt.Sprint("caller ", i)}}
			calls.Go(func() {
				client := &stalled{ResponseRecorder: httptest.NewRecorder(), sent: sent, over: over}
				if h.ServeHTTP(client, r); !client.deadline.IsZero() {
					t.Error("the connection keeps a deadline")
				}
			})
			select {
			case <-sent:
			case <-time.After(time.Minute):
				t.Fatalf("clients that do not read a list as %s keep others from theirs", b.kind)
			}
		}
		close(over)
		calls.Wait()
	}
}

// One caller takes its share of what is sent, however many of its clients do not read.
func TestACallerThatDoesNotReadLeavesRoomForOthers(t *testing.T) {
	long := `{"id":1,"result":{"tools":[{"name":"add","x":"` + strings.Repeat("a", smallBody) + `"}]}}`
	h := guarded(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		(&backend{kind: "application/json", body: long}).ServeHTTP(w, r)
	}), nil)
	sent, others, over := make(chan struct{}, 2*largeSends), make(chan struct{}, 1), make(chan struct{})
	var calls sync.WaitGroup
	list := func(as string, sent chan struct{}) {
		r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(`{"id":1,"method":"tools/list"}`))
		r.Header = http.Header{"Content-Type": {"application/json"}, "As": {as}}
		calls.Go(func() { h.ServeHTTP(&stalled{ResponseRecorder: httptest.NewRecorder(), sent: sent, over: over}, r) })
	}
	for range largeSends + largeEach {
		list("mallory", sent)
	}
	for range largeEach {
		<-sent
	}
	time.Sleep(200 * time.Millisecond) // more of them would come now
	list("ann", others)
	select {
	case <-others:
	case <-time.After(time.Minute):
		t.Error("a caller that does not read keeps another one from a list")
	}
	close(over)
	calls.Wait()
}

// A body that says it is longer than all that one caller may have does not wait for what never comes.
func TestABodyLongerThanTheShareOfACallerHasRoom(t *testing.T) {
	h := guarded(t, &backend{kind: "application/json", body: "{}"}, nil)
	for _, length := range []int64{budget.MaxBody, budget.MaxBody + 1, 16<<20 + 1, 32<<20 + 1} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", strings.NewReader(`{"id":1,"method":"ping"}`))
		r.Header, r.ContentLength = http.Header{"Content-Type": {"application/json"}, "As": {"ann"}}, length
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		cancel()
		if w.Code != http.StatusOK {
			t.Errorf("%d bytes get HTTP %d: %s", length, w.Code, w.Body)
		}
	}
}

// A caller that sends bodies slowly holds half of the room for them at most.
func TestACallerLeavesRoomForBodiesOfOthers(t *testing.T) {
	h := guarded(t, &backend{kind: "application/json", body: "{}"}, nil)
	send := func(as string, body io.Reader) *http.Request {
		r := httptest.NewRequest(http.MethodPost, "/mcp", body)
		r.Header, r.ContentLength = http.Header{"Content-Type": {"application/json"}, "As": {as}}, budget.MaxBody
		return r
	}
	var calls sync.WaitGroup
	defer calls.Wait()
	for range 8 { // four take all that one caller may have
		body, slow := io.Pipe()
		defer slow.Close()
		calls.Go(func() { h.ServeHTTP(httptest.NewRecorder(), send("mallory", body)) })
	}
	time.Sleep(200 * time.Millisecond) // more of them would have room now
	served := make(chan int, 1)
	go func() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, send("ann", strings.NewReader(`{"id":1,"method":"ping"}`)))
		served <- w.Code
	}()
	select {
	case status := <-served:
		if status != http.StatusOK {
			t.Errorf("HTTP %d", status)
		}
	case <-time.After(time.Minute):
		t.Error("bodies of one caller keep another one from the backend")
	}
}

// A caller whose lists the backend does not end leaves a place to filter those of others.
func TestACallerLeavesRoomForListsOfOthers(t *testing.T) {
	begun, over := make(chan struct{}, 2*largeEach), make(chan struct{})
	long := `{"id":1,"result":{"tools":[{"name":"add","x":"` + strings.Repeat("a", smallBody) + `"}]}}`
	h := guarded(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, long[:len(long)-1]) // it waits for a place
		if r.Header.Get("As") == "mallory" {
			begun <- struct{}{}
			<-over
		}
		_, _ = io.WriteString(w, long[len(long)-1:])
	}), nil)
	var calls sync.WaitGroup
	list := func(as string) *httptest.ResponseRecorder {
		r, w := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(`{"id":1,"method":"tools/list"}`)),
			httptest.NewRecorder()
		r.Header = http.Header{"Content-Type": {"application/json"}, "As": {as}}
		h.ServeHTTP(w, r)
		return w
	}
	for range largeEach {
		calls.Go(func() { list("mallory") })
	}
	for range share.Half(largeAnswers) {
		<-begun
	}
	time.Sleep(200 * time.Millisecond) // more of them would begin now
	served := make(chan int, 1)
	calls.Go(func() { served <- list("ann").Code })
	select {
	case status := <-served:
		if status != http.StatusOK {
			t.Errorf("HTTP %d", status)
		}
	case <-time.After(time.Minute):
		t.Error("lists of one caller keep another one from one")
	}
	close(over)
	calls.Wait()
}
