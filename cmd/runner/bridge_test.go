package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/session"
)

// What the proxy has to collect garbage seldom is not in the container of a user's server.
func TestABridgeTakesNoBallast(t *testing.T) {
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), path, runconfig.BridgeCommand, "-h")
	command.Env = append(os.Environ(), "GODEBUG=inittrace=1") // https://pkg.go.dev/runtime#hdr-Environment_Variables
	said, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	inits := regexp.MustCompile(`(?m)^init (\S+) @.*, (\d+) bytes, `).FindAllSubmatch(said, -1)
	if len(inits) == 0 {
		t.Fatalf("nothing is initialized: %s", said)
	}
	for _, init := range inits {
		if n, err := strconv.Atoi(string(init[2])); err != nil || n >= ballastSize/4 {
			t.Errorf("package %s takes %s bytes before it is known that this is a bridge", init[1], init[2])
		}
	}
}

// echoes is a server on standard input and output that answers whatever it is asked as initialize is answered.
const echoes = `while read -r l; do id=$(printf %s "$l" | sed -n 's/.*"id":\([^,}]*\).*/\1/p'); [ -z "$id" ] || printf ` +
	`'{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":` +
	`{"name":"sh","version":"1"}}}\n' "$id"; done`

// The two programs as they are in a cluster: what the proxy of a server is answered, nobody else is.
func TestABridgeAnswersTheProxyOfItsServerAlone(t *testing.T) {
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	run := sample(t, func(r *runconfig.RunConfig) {
		r.Backend.Transport, r.Backend.Bridge = "stdio", &runconfig.Bridge{Image: "runner", Sessions: 1}
	})
	sums, err := session.Follow(keys(t), "", run.Server.UID).Sums()
	if err != nil {
		t.Fatal(err)
	}
	at := address(t)
	bridge := &process{t: t}
	bridge.command = exec.CommandContext(t.Context(), path, runconfig.BridgeCommand, "-address", at,
		"--", "sh", "-c", echoes)
	bridge.command.Env = append(os.Environ(), runconfig.EnvProxySum+"="+sums[0])
	bridge.command.Stderr = bridge
	if err := bridge.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bridge.command.Process.Kill(); _ = bridge.command.Wait() })
	bridge.await("it listens", func() bool {
		c, err := net.Dial("tcp", at)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",` +
		`"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	direct, err := http.Post("http://"+at+"/mcp", "application/json", strings.NewReader(hello))
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Body.Close()
	if said, err := io.ReadAll(direct.Body); err != nil || direct.StatusCode != http.StatusMisdirectedRequest ||
		!strings.Contains(string(said), "NotAProxy") {
		t.Errorf("past the proxy: HTTP %d with %s, %v", direct.StatusCode, said, err)
	}
	mine := start(t, run, "http://"+at)
	mine.await("it is ready", func() bool { return mine.get("/readyz") == http.StatusOK })
	if status, said := mine.send(hello); status != http.StatusOK || !strings.Contains(said, `"name":"sh"`) {
		t.Errorf("by its proxy: HTTP %d with %s", status, said)
	}
	other := start(t, sample(t, func(r *runconfig.RunConfig) { *r, r.Server.UID = run, "2222" }), "http://"+at)
	if status, said := other.send(hello); status != http.StatusServiceUnavailable ||
		!strings.Contains(said, "NoSessions") {
		t.Errorf("by another server's proxy: HTTP %d with %s", status, said)
	}
	for name, p := range map[string]*process{"bridge": bridge, "proxy": mine, "other": other} {
		if said := p.said(); strings.Contains(said, sums[0]) || strings.Contains(said, "Freehold-Proxy") {
			t.Errorf("the %s's log has what is shown: %s", name, said)
		}
	}
}
