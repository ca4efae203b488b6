package virtual

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/media"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/sse"
)

// tells has a fake serve subscriptions, which honor all: tell sends a notification on each that is open.
func (f *fake) tells() (tell func(method, params string), open func() int) {
	var mu sync.Mutex
	streams := map[*io.PipeWriter]bool{}
	f.answer = func(r *http.Request, m jsonrpc.Message) (*http.Response, error) {
		if m.Method != protocol.MethodListen {
			return nil, nil //nolint:nilnil // the fake answers
		}
		from, to := io.Pipe()
		mu.Lock()
		streams[to] = true
		mu.Unlock()
		context.AfterFunc(r.Context(), func() {
			mu.Lock()
			delete(streams, to)
			mu.Unlock()
			to.CloseWithError(r.Context().Err())
		})
		go to.Write(sse.Message([]byte(`{"jsonrpc":"2.0","method":"` + methodAcknowledged + `","params":{"notifications":` +
			string(jsonrpc.At(m.Params, "notifications")) + `,"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}`)))
		answer := respond(r, http.StatusOK, nil)
		answer.Header.Set("Content-Type", media.Events)
		answer.Body = from
		return answer, nil
	}
	tell = func(method, params string) {
		mu.Lock()
		defer mu.Unlock()
		for to := range streams {
			to.Write(sse.Message([]byte(`{"jsonrpc":"2.0","method":"` + method + `","params":` + params + `}`)))
		}
	}
	return tell, func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(streams)
	}
}

// subscribe is what a client hears of a subscription, and what ends it.
func subscribe(t *testing.T, s *Server, wants string) (heard func() []string, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	text := `{"jsonrpc":"2.0","id":"mine","method":"subscriptions/listen","params":{"notifications":` + wants +
		`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://v/mcp", bytes.NewReader([]byte(text)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{protocol.HeaderVersion: {protocol.Modern}, protocol.HeaderMethod: {protocol.MethodListen}}
	answer, err := s.RoundTrip(r)
	if err != nil || answer.StatusCode != http.StatusOK || media.Type(answer.Header) != media.Events {
		t.Fatalf("it is answered with %v, %v", answer, err)
	}
	var mu sync.Mutex
	var all []string
	go func() {
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			if data, is := strings.CutPrefix(lines.Text(), "data: "); is {
				id := jsonrpc.At(jsontext.Value(data), "params", "_meta", protocol.MetaSubscription)
				if string(id) != `"mine"` {
					t.Errorf("it is of the subscription %s", id)
				}
				mu.Lock()
				all = append(all, jsonrpc.TextAt(jsontext.Value(data), "method")+
					string(jsonrpc.At(jsontext.Value(data), "params", "notifications"))+
					jsonrpc.TextAt(jsontext.Value(data), "params", "uri"))
				mu.Unlock()
			}
		}
	}()
	return func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(all)
		}, func() {
			cancel()
			answer.Body.Close()
			synctest.Wait()
		}
}

const toolsChanged = "notifications/tools/list_changed"

// A client is told of a list that is another one for it, at most once a second, and of the last change in any case.
func TestAClientIsToldOfLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := toolsOf("x"), toolsOf("y")
		tell, open := a.tells()
		b.answer = func(_ *http.Request, m jsonrpc.Message) (*http.Response, error) {
			if m.Method == protocol.MethodListen {
				return nil, io.EOF
			}
			return nil, nil //nolint:nilnil // the fake answers
		}
		s := serverOf(map[string]*fake{"a": a, "b": b})
		members := []Member{memberAt("a", 1), memberAt("b", 2)}
		s.Set(members, nil)
		synctest.Wait()
		heard, end := subscribe(t, s, `{"toolsListChanged":true}`)
		other, endOther := subscribe(t, s, `{"promptsListChanged":true}`)
		time.Sleep(10 * time.Second)
		acknowledged := methodAcknowledged + `{"toolsListChanged":true}`
		equal(t, "in quiet", heard(), acknowledged)
		tell(toolsChanged, `{}`)
		time.Sleep(10 * time.Second)
		equal(t, "a change of nothing", heard(), acknowledged)
		a.set(tools, tool("x"), tool("z"))
		tell(toolsChanged, `{}`)
		synctest.Wait()
		equal(t, "a change", heard(), acknowledged, toolsChanged)
		for i := range 50 { // in half a second
			a.set(tools, tool(strings.Repeat("n", i+1)))
			tell(toolsChanged, `{}`)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		equal(t, "many changes", heard(), acknowledged, toolsChanged, toolsChanged)
		a.answer = func(*http.Request, jsonrpc.Message) (*http.Response, error) { return nil, io.EOF }
		tell(toolsChanged, `{}`)
		time.Sleep(time.Minute)
		equal(t, "absence", heard(), acknowledged, toolsChanged, toolsChanged)
		s.Set(members[1:], nil)
		time.Sleep(time.Minute)
		equal(t, "one that leaves", heard(), acknowledged, toolsChanged, toolsChanged, toolsChanged)
		equal(t, "who wants something else", other(), methodAcknowledged+`{"promptsListChanged":true}`)
		end()
		endOther()
		if open() != 0 || s.listeners != 0 {
			t.Errorf("%d subscriptions are left, of %d", open(), s.listeners)
		}
	})
}

// set gives a fake other items of a list.
func (f *fake) set(k kind, items ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists[k] = items
}

// One subscription at a member is enough for all clients, and it ends with the last.
func TestMembersAreListenedToOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := toolsOf("x")
		_, open := a.tells()
		s := serverOf(map[string]*fake{"a": a})
		s.Set([]Member{memberAt("a", 1)}, nil)
		synctest.Wait()
		if open() != 0 {
			t.Error("it is listened to for nobody")
		}
		_, end := subscribe(t, s, `{"toolsListChanged":true}`)
		_, endOther := subscribe(t, s, `{"toolsListChanged":true}`)
		synctest.Wait()
		if open() != 1 {
			t.Errorf("it is listened to %d times", open())
		}
		end()
		if open() != 1 {
			t.Errorf("it is listened to %d times while one client is left", open())
		}
		endOther()
		if open() != 0 {
			t.Errorf("it is listened to %d times for nobody", open())
		}
	})
}

// A resource's changes come from the member that has it, and nobody else can tell them.
func TestAClientIsToldOfItsResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := toolsOf(), toolsOf()
		a.set(resources, `{"uri":"x://1"}`)
		b.set(resources, `{"uri":"x://2"}`)
		tell, open := a.tells()
		s := serverOf(map[string]*fake{"a": a, "b": b})
		s.Set([]Member{memberAt("a", 1), memberAt("b", 2)}, nil)
		synctest.Wait()
		heard, end := subscribe(t, s, `{"resourceSubscriptions":["x://1","x://2","x://3"]}`)
		time.Sleep(acknowledgeTime)
		synctest.Wait()
		tell(methodUpdated, `{"uri":"x://1","_meta":{"a":1}}`)
		tell(methodUpdated, `{"uri":"x://2"}`)
		synctest.Wait()
		equal(t, "its resources", heard(), methodAcknowledged+`{"resourceSubscriptions":["x://1"]}`, methodUpdated+"x://1")
		end()
		if open() != 0 {
			t.Errorf("%d subscriptions are left", open())
		}
	})
}

// A change that is told while the list is asked for is not lost.
func TestAChangeWhileTheListIsAskedForIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := toolsOf("x")
		tell, _ := a.tells()
		s := serverOf(map[string]*fake{"a": a})
		s.Set([]Member{memberAt("a", 1)}, nil)
		synctest.Wait()
		heard, end := subscribe(t, s, `{"toolsListChanged":true}`)
		defer end()
		synctest.Wait()
		streams, slow := a.answer, true
		a.mu.Lock()
		a.answer = func(r *http.Request, m jsonrpc.Message) (*http.Response, error) {
			if m.Method == protocol.MethodListTools && slow {
				slow = false
				answer := a.reply(r, m) // what it had when it was asked
				time.Sleep(3 * time.Second)
				return answer, nil
			}
			return streams(r, m)
		}
		a.mu.Unlock()
		tell(toolsChanged, `{}`)
		time.Sleep(time.Second)
		a.set(tools, tool("y"))
		tell(toolsChanged, `{}`)
		time.Sleep(4 * time.Second)
		equal(t, "a change", heard(), methodAcknowledged+`{"toolsListChanged":true}`, toolsChanged)
	})
}
