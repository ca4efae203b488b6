package era

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// A call that waits for its client holds nothing of the request, which comes again.
func TestACallThatWaitsIsSmall(t *testing.T) {
	c := &call{
		id: jsontext.Value("1"), method: "tools/call", held: &held{},
		params: jsonrpc.Object{"arguments": encoded(strings.Repeat("x", 1<<20))},
		meta:   jsonrpc.Object{protocol.MetaCapabilities: jsontext.Value(`{"roots":{}}`)},
	}
	digest, translator, w := c.digest(), New(Config{}, nil, nil), httptest.NewRecorder()
	if !translator.asked(&output{w: w}, c, jsonrpc.Message{ID: jsontext.Value("7"), Method: "roots/list"}) {
		t.Fatal("it does not wait")
	}
	if c.id != nil || c.params != nil || c.meta != nil {
		t.Error("it holds its request")
	}
	for _, q := range translator.pending.calls {
		q.end.Stop()
		if q.digest != digest {
			t.Error("it is found under another digest")
		}
	}
	if !strings.Contains(w.Body.String(), `"id":1`) || len(translator.pending.calls) != 1 {
		t.Errorf("the client gets %s", w.Body)
	}
}
