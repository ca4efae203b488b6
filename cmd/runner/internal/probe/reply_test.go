package probe

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/bridge"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
)

// A code means one thing: clients, and the condition BackendAnswers, tell by it who
// answered.
func TestEachCodeMeansOneThing(t *testing.T) {
	whose := map[string]string{}
	for from, page := range map[string]string{
		"proxy":  "../../../../docs/conditions.md",
		"bridge": "../../../../docs/how-to/transports.md",
	} {
		listed, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for name, code := range codes(t, "../"+from+"/errors.go") {
			if other, known := whose[code]; known {
				t.Errorf("%s.%s and %s are both %s", from, name, other, code)
			}
			whose[code] = from + "." + name
			if !strings.Contains(string(listed), "\n| "+code+" |") {
				t.Errorf("%s has no row for %s, %s.%s", page, code, from, name)
			}
		}
	}
}

// codes are the exported codes of a file.
func codes(t *testing.T, file string) map[string]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Code") {
			found[spec.Names[0].Name] = "-" + spec.Values[0].(*ast.UnaryExpr).X.(*ast.BasicLit).Value
		}
		return true
	})
	if len(found) < 3 {
		t.Fatalf("%s has the codes %v", file, found)
	}
	return found
}

func TestWhoAnswered(t *testing.T) {
	run := runconfig.Target{}
	run.Backend.Port, run.Backend.Path, run.Backend.Transport, run.Backend.Bridge = 8080, "/mcp", "stdio",
		&runconfig.Bridge{}
	for name, tc := range map[string]struct {
		reply reply
		says  string
	}{
		"the bridge": {
			reply{status: 502, code: bridge.CodeServerUnusable, said: "ServerUnusable: it prints"},
			"the bridge of transport stdio in the backend's pod says ServerUnusable: it prints",
		},
		"the proxy": {
			reply{
				status: 503, code: proxy.CodeNoSessions, said: "NoSessions: the Secret echo-session does not exist",
				reason: "NoSessions", detail: "the Secret echo-session does not exist",
			},
			"the Secret echo-session does not exist: write one",
		},
		"the proxy, before any pod is ready": {
			reply{
				status: 503, code: proxy.CodeBackendStarting, said: "BackendStarting: none", reason: "NotAsked",
				detail: "none of its pods is ready",
			},
			"the cluster's DNS names no pod of the backend that is ready",
		},
		"a backend with a code of the proxy's": {
			reply{status: 503, code: proxy.CodeNoSessions, said: "NoSessions: none"},
			"answers MCP at /mcp with HTTP 503",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.reply.from = tc.reply.source(run.Bridged())
			if got := unanswered(run, &tc.reply, nil, askTimeout).Message; !strings.Contains(got, tc.says) {
				t.Errorf("%q does not have %q", got, tc.says)
			}
		})
	}
}

// What has begun to answer as MCP does, and does not come to its end in time, does not answer.
func TestWhatHasBegunAndIsLateDoesNotAnswer(t *testing.T) {
	run := asks(nil).Server
	for name, tc := range map[string]struct {
		reply  reply
		reason string
	}{
		"nothing":             {reply{}, "NotAnswering"},
		"a stream":            {reply{from: theBackend, status: 200, media: "text/event-stream"}, "NotAnswering"},
		"to the notification": {reply{from: theBackend, status: 202}, "NotAnswering"},
		"a page":              {reply{from: theBackend, status: 200, media: "text/html"}, "NotMCP"},
	} {
		if is := unanswered(run, &tc.reply, context.DeadlineExceeded, askTimeout); is.Reason != tc.reason {
			t.Errorf("%s: %s, %s", name, is.Reason, is.Message)
		}
	}
}
