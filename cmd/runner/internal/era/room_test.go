package era

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
)

// answering is a translator before a backend with one answer.
func answering(memory *budget.Budget, kind, answer string) *Translator {
	return New(Config{Memory: memory}, nil,
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
				others, err := memory.Answers.Take(new(pipeline.Call).Payer(), half)
				if err != nil {
					t.Fatal(err)
				}
				ctx := new(pipeline.Call).In(t.Context())
				r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", http.NoBody)
				x := answering(memory, tc.kind, tc.answer).exchange(t.Context(), r, http.MethodPost, nil, nil)
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
					leave, err := memory.Answers.Take(new(pipeline.Call).Payer(), half)
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
