package target

import (
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/virtual"
)

// virtualOf is a virtual server whose members answer as ask does.
func virtualOf(
	t *testing.T, state string, ask func(r *http.Request, method string) (result string, err error),
) *Target {
	t.Helper()
	to, err := New(Config{
		Run: sample(func(r *runconfig.Target) {
			r.Server.UID, r.Virtual = "2222", &runconfig.Virtual{ToolNames: "Portable"}
		}),
		KeysDir: folder(t, nil), StateDir: state,
	})
	if err != nil {
		t.Fatal(err)
	}
	to.virtual = virtual.New(virtual.Config{Name: "all", Log: slog.New(slog.DiscardHandler), Connect: connector(ask)})
	return to
}

// members are some, in the order of their names.
func members(names ...string) (all Members) {
	for i, name := range names {
		all.Members = append(all.Members, virtual.Member{
			Key: virtual.Key{Kind: "MCPServer", Name: name}, Joined: int64(i + 1), URL: "http://" + name + ":1/mcp",
		})
	}
	return all
}

// A proxy has members of its status, and after a start those that it has read last; of another object it takes none.
func TestAVirtualServerKeepsItsMembers(t *testing.T) {
	dir := t.TempDir()
	ask := func(*http.Request, string) (string, error) { return `{}`, nil }
	first := virtualOf(t, dir, ask)
	if first.Ready(t.Context()) {
		t.Error("it is ready before it knows its members")
	}
	log := slog.New(slog.DiscardHandler)
	two := members("a", "b")
	two.Members[1].URL, two.Members[1].Allow = "", []string{"x"}
	two.Recorded = []virtual.Collision{{Name: virtual.Name{List: "tools", Name: "x"}, Holder: two.Members[1].Key}}
	first.SetMembers(two, log)
	again := virtualOf(t, dir, ask)
	again.RestoreMembers(log)
	if diff := cmp.Diff(first.members, again.members); diff != "" || len(again.virtual.Facts().Members) != 2 {
		t.Errorf("after a start it has other members: %s", diff)
	}
	other := virtualOf(t, dir, ask)
	other.config.Run.Server.UID = "3333"
	other.RestoreMembers(log)
	if len(other.virtual.Facts().Members) != 0 {
		t.Error("another server has its members")
	}
	if err := os.WriteFile(filepath.Join(dir, membersFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	other.RestoreMembers(log)
}

// connector is how requests go to members that answer as ask does.
func connector(
	ask func(r *http.Request, method string) (result string, err error),
) func(*url.URL) http.RoundTripper {
	return func(*url.URL) http.RoundTripper { return answers(ask) }
}

type answers func(r *http.Request, method string) (result string, err error)

// RoundTrip implements http.RoundTripper.
func (ask answers) RoundTrip(r *http.Request) (*http.Response, error) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	said, err := ask(r, jsonrpc.TextAt(text, "method"))
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":1,"result":` + said + `}`)),
	}, nil
}
