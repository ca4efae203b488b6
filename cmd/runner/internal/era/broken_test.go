package era

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline/pipelinetest"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
)

// Why there is no answer is said, to clients of either era; whatever happens ends that call alone.
func TestAnAnswerThatIsNotWhole(t *testing.T) {
	long := strings.Repeat("x", maxAnswer+1)
	for name, tc := range map[string]struct {
		answer func(http.ResponseWriter)
		want   string
	}{
		"JSON that is too long": {func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, `"`)
			if _, err := io.WriteString(w, long); err != nil {
				panic(http.ErrAbortHandler) // as ReverseProxy does
			}
		}, "longer than the 16 MiB"},
		"an event that is too long": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			if _, err := io.WriteString(w, "data: "+long); err != nil {
				panic(http.ErrAbortHandler)
			}
		}, "longer than the 16 MiB"},
		"one that breaks off": {func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, "{")
			panic(http.ErrAbortHandler)
		}, "broke its answer off"},
		"a panic": {func(http.ResponseWriter) { panic("oh") }, "broke its answer off"},
		"another thing": {
			func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":99,"result":{}}`) },
			"is not one to this request",
		},
	} {
		for era, speaks := range map[string]*found{"modern": {legacy: true}, "legacy": {modern: true}} {
			t.Run(name+", to a client of the "+era+" era", func(t *testing.T) {
				send := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					messages, _, _ := jsonrpc.Parse(body)
					if m := messages[0]; m.Method == "prompts/get" {
						tc.answer(w)
					} else if m.Identified() {
						_, _ = w.Write(jsonrpc.Result(m.ID, []byte(`{"protocolVersion":"2025-11-25","capabilities":{}}`)))
					}
				})
				translator := New(Config{
					Caller: func(*http.Request) string { return "" }, Log: slog.New(slog.DiscardHandler),
				}, nil, send)
				speaks.until = time.Now().Add(time.Hour)
				translator.state.Store(speaks)
				body := request(1, "prompts/get", jsonrpc.Object{"name": encoded("a")})
				if era == "modern" {
					body = modernRequest(1, "prompts/get", jsonrpc.Object{"name": encoded("a")}, nil)
				}
				r := httptest.NewRequest(http.MethodPost, "/mcp", body)
				if era == "modern" {
					r.Header = modernHeaders("prompts/get", "a")
				}
				w := httptest.NewRecorder()
				begun(translator).ServeHTTP(w, r)
				if w.Code != http.StatusBadGateway || !strings.Contains(w.Body.String(), tc.want) {
					t.Errorf("HTTP %d with %.300s", w.Code, w.Body)
				}
			})
		}
	}
}

// Servers and gateways keep streams alive with events that are no messages: clients pass over them, and so does whoever
// reads for one.
func TestWhatIsNoMessageIsPassedOver(t *testing.T) {
	for name, noise := range map[string]string{
		"a comment":         ": ping\n\n",
		"a retry":           "retry: 3000\n\n",
		"an id alone":       "id: 1\ndata:\n\n",
		"a text by name":    "event: ping\ndata: 2026-01-01 00:00:00.1\n\n",
		"an object by name": "event: heartbeat\ndata: {\"type\":\"heartbeat\"}\n\n",
		"a response by name": "event: heartbeat\ndata: " +
			"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1,\"message\":\"no\"}}\n\n",
		"a text":                    "data: ping\n\n",
		"an object":                 "data: {\"type\":\"heartbeat\"}\n\n",
		"what begins as an object":  "data: {ping}\n\n",
		"a list that is none of it": "data: [\"ping\"]\n\n",
	} {
		for era, speaks := range map[string]*found{"modern": {legacy: true}, "legacy": {modern: true}} {
			t.Run(name+", to a client of the "+era+" era", func(t *testing.T) {
				backend := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					messages, _, _ := jsonrpc.Parse(body)
					if len(messages) == 0 || !messages[0].Identified() {
						return
					}
					result := `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"n","version":"1"}}`
					switch messages[0].Method {
					case protocol.MethodDiscover:
						result = `{"supportedVersions":["2026-07-28"],"capabilities":{}}`
						if speaks.legacy {
							w.WriteHeader(http.StatusBadRequest)
							return
						}
					case "prompts/get":
						result = `{"messages":[]}`
					}
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, noise+"event: message\ndata: "+
						string(jsonrpc.Result(messages[0].ID, jsontext.Value(result)))+"\n\n")
				})
				translator := New(Config{Caller: func(*http.Request) string { return "" }, Log: slog.New(slog.DiscardHandler)},
					backend, backend)
				body := modernRequest(1, "prompts/get", jsonrpc.Object{"name": encoded("a")}, nil)
				header := modernHeaders("prompts/get", "a")
				if era == "legacy" {
					speaks.until = time.Now().Add(time.Hour)
					translator.state.Store(speaks)
					body, header = request(1, "prompts/get", jsonrpc.Object{"name": encoded("a")}), http.Header{}
				}
				r := httptest.NewRequest(http.MethodPost, "/mcp", body)
				r.Header = header
				w := httptest.NewRecorder()
				begun(translator).ServeHTTP(w, r)
				if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"messages":[]`) {
					t.Errorf("HTTP %d with %.300s", w.Code, w.Body)
				}
				if known := translator.state.Load(); known == nil || known.legacy != speaks.legacy ||
					known.modern != speaks.modern {
					t.Errorf("the backend is taken for %+v", known)
				}
			})
		}
	}
}

// answering is a translator before a backend with one answer.
func answering(kind, answer string) *Translator {
	return New(Config{}, nil,
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = io.WriteString(w, answer)
		}))
}

// A long answer waits in the backend until there is room, has it until it is sent, and a short one waits for nothing.
func TestALongAnswerHasRoomUntilItIsSent(t *testing.T) {
	long := `{"id":1,"result":{"x":"` + strings.Repeat("x", budget.Long) + `"}}`
	for name, tc := range map[string]struct {
		kind, answer string
		waits        bool
	}{
		"JSON":          {"application/json", long, true},
		"an event":      {"text/event-stream", "data: " + long + "\n\n", true},
		"short":         {"application/json", `{"id":1,"result":{}}`, false},
		"a short event": {"text/event-stream", "data: {\"id\":1,\"result\":{}}\n\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory := budget.New(0)
				half := int64(share.Half(8 << 20))
				r := httptest.NewRequest(http.MethodPost, "/mcp", http.NoBody)
				call := pipeline.New(nil, httptest.NewRecorder(), r, memory)
				others, err := memory.Answers.Take(call.Payer(), half)
				if err != nil {
					t.Fatal(err)
				}
				r = r.WithContext(call.In(t.Context()))
				x := answering(tc.kind, tc.answer).start(t.Context(), r, http.MethodPost, nil, nil)
				defer x.cancel()
				select {
				case <-x.words:
					if tc.waits {
						t.Fatal("it is read though there is no room")
					}
					return
				case <-time.After(time.Minute):
					if !tc.waits {
						t.Fatal("it waits")
					}
				}
				others()
				if said := <-x.words; string(said.text) != long {
					t.Errorf("%d bytes came", len(said.text))
				}
				free := func() bool {
					leave, err := memory.Answers.Take(call.Payer(), half)
					if err == nil {
						leave()
					}
					return err == nil
				}
				if free() {
					t.Error("its room is given back before it is sent")
				}
				x.cancel()
				synctest.Wait()
				if !free() {
					t.Error("its room is not given back")
				}
			})
		})
	}
}

// What is put together from a long answer is one copy of it, and the same JSON.
func TestALongAnswerIsCopiedOnce(t *testing.T) {
	long := encoded(strings.Repeat("x", 1<<20))
	result := map[string]any{"b": long, "a": 1, `"`: nil}
	object := map[string]any{}
	for name, value := range result {
		object[name] = value
	}
	members := with(nil, nil)
	for name, value := range object {
		members[name] = encoded(value)
	}
	if got, want := string(joinedMembers(members)), string(encoded(object)); got != want {
		t.Errorf("got %.60s… of %d bytes, want %.60s… of %d", got, len(got), want, len(want))
	}
	if n := testing.AllocsPerRun(10, func() { joinedMembers(members) }); n > 10 {
		t.Errorf("%v allocations", n)
	}
}

// A call that waits for its client holds nothing of the request, which comes again.
func TestACallThatWaitsIsSmall(t *testing.T) {
	c := &call{
		id: jsontext.Value("1"), method: "tools/call", held: &held{},
		origin: pipelinetest.Called(httptest.NewRequest(http.MethodPost, "/mcp", http.NoBody)),
		params: jsonrpc.Object{"arguments": encoded(strings.Repeat("x", 1<<20))},
		meta:   jsonrpc.Object{protocol.MetaCapabilities: jsontext.Value(`{"roots":{}}`)},
	}
	digest, translator, w := c.digest(), New(Config{}, nil, nil), httptest.NewRecorder()
	if !translator.asked(answerTo(w), c, jsonrpc.Message{ID: jsontext.Value("7"), Method: "roots/list"}) {
		t.Fatal("it does not wait")
	}
	if c.id != nil || c.params != nil || c.meta != nil {
		t.Error("it holds its request")
	}
	translator.pending.Each(func(q *waiting) {
		q.end.Stop()
		if q.digest != digest {
			t.Error("it is found under another digest")
		}
	})
	if !strings.Contains(w.Body.String(), `"id":1`) || translator.pending.Len() != 1 {
		t.Errorf("the client gets %s", w.Body)
	}
}

// A backend that asks while a session begins, and leaves what answers it unanswered, is waited for a while.
func TestAQuestionIsAnsweredInItsSessionForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		send := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if !strings.Contains(string(body), `"initialize"`) {
				told = append(told, r.Header.Get(protocol.HeaderSession)+" "+string(body))
				<-r.Context().Done()
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set(protocol.HeaderSession, "s")
			_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\n\ndata: "+
				"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n")
		})
		began := time.Now()
		answer, err := New(Config{}, nil, send).
			ask(t.Context(), pipelinetest.Called(httptest.NewRequest(http.MethodPost, "/mcp", http.NoBody)),
				request(1, "initialize", jsonrpc.Object{}), nil)
		if err != nil || string(answer.message.Result) != "{}" || time.Since(began) != probeTime {
			t.Errorf("got %s, %v after %s", answer.message.Result, err, time.Since(began))
		}
		if want := `s {"jsonrpc":"2.0","id":7,"result":{}}`; len(told) != 1 || told[0] != want {
			t.Errorf("the backend was told %q, want %q", told, want)
		}
	})
}

// A stream of a session that ends as soon as it has begun is opened again for the call that it was opened for.
func TestAStreamIsOpenedForACallThatHears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &held{session: &session{id: "s", version: protocol.Legacy}}
		opened := make(chan int, 2)
		send := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			h.standing.mu.Lock()
			hear := len(h.standing.calls)
			h.standing.mu.Unlock()
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, ": hello\n\n")
			opened <- hear
		})
		c := &call{
			held: h, origin: pipelinetest.Called(httptest.NewRequest(http.MethodPost, "/mcp", http.NoBody)),
			meta: jsonrpc.Object{protocol.MetaCapabilities: jsontext.Value(`{"roots":{}}`)},
		}
		_, leave := New(Config{}, nil, send).join(t.Context(), c)
		for range 2 {
			if hear := <-opened; hear != 1 {
				t.Errorf("it is opened while %d calls hear", hear)
			}
		}
		leave()
		time.Sleep(2 * usualPause) // one may have been asked for while it heard
		for len(opened) > 0 {
			<-opened
		}
		if time.Sleep(10 * usualPause); len(opened) > 0 {
			t.Error("it is opened for nobody")
		}
		h.standing.close()
	})
}

// On the stream of a session progress is of the call whose token it has, and everything else of the first.
func TestWhoseProgressItIsOnTheStreamOfASession(t *testing.T) {
	var s standing
	for sent := range int64(2) {
		s.add(&hearing{call: &call{sent: sent}})
	}
	for said, want := range map[string]int{
		`"method":"notifications/progress","params":{"progressToken":1}`: 1,
		`"method":"notifications/progress","params":{"progressToken":2}`: -1,
		`"method":"notifications/message","params":{"progressToken":1}`:  0,
	} {
		all, _, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0",` + said + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Index(s.calls, s.about(all[0])); got != want {
			t.Errorf("%s is given to call %d, want %d", said, got, want)
		}
	}
}

// A server may have a process for each session, and counts them.
func TestASessionThatNobodyUsesEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan string, 2)
		translator := New(Config{}, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			switch {
			case r.Method == http.MethodDelete:
				ended <- r.Header.Get(protocol.HeaderSession)
			case strings.Contains(string(body), `"initialize"`):
				m, _, _ := jsonrpc.Parse(body)
				w.Header().Set(protocol.HeaderSession, "s")
				jsonrpc.Write(w, http.StatusOK, jsonrpc.Result(m[0].ID, []byte(`{"protocolVersion":"2025-11-25"}`)))
			default:
				w.WriteHeader(http.StatusAccepted)
			}
		}))
		r := pipelinetest.Called(httptest.NewRequest(http.MethodPost, "/mcp", http.NoBody))
		h, err := translator.sessions.get(t.Context(), r, profile{})
		if err != nil {
			t.Fatal(err)
		}
		if time.Sleep(2 * idleTime); len(ended) > 0 {
			t.Error("it ends while a call has it")
		}
		translator.sessions.put(h)
		if time.Sleep(idleTime - time.Second); len(ended) > 0 {
			t.Error("it ends at once")
		}
		if time.Sleep(idleTime + 2*time.Second); len(ended) != 1 {
			t.Errorf("%d sessions have ended", len(ended))
		}
	})
}

// The next message of a stream has no room of the one before.
func TestARoomThatHasShrunkGrowsAgain(t *testing.T) {
	const size = 1 << 20
	memory := budget.New(0)
	r := &room{memory: memory, who: "ann"}
	for range 2 {
		if err := r.grow(t.Context(), size, size); err != nil {
			t.Fatal(err)
		}
		_, err := memory.Answers.Take("ann", int64(share.Half(8<<20))-memory.AnswerRoom(size)+1)
		if err == nil {
			t.Error("it has no room")
		}
		r.shrink(1)
	}
}

// A client may leave at any moment of what its backend says.
func TestARoomIsLeftWhileItGrows(t *testing.T) {
	memory := budget.New(0)
	for range 100 {
		r := &room{memory: memory, who: "ann"}
		left := make(chan struct{})
		go func() {
			defer close(left)
			r.leave()
		}()
		for size := budget.Long; size < budget.Long+10; size++ {
			_ = r.grow(t.Context(), size, int64(size)) // which fails once it is left
		}
		<-left
	}
	if _, err := memory.Answers.Take("ann", int64(share.Half(8<<20))); err != nil {
		t.Error("something is kept")
	}
}
