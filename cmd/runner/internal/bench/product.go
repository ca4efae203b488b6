package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

// issuer signs the token that every call has.
type issuer struct {
	url, token string
}

const audience = "http://bench-proxy:8000/mcp"

// startIssuer serves the key of a token for as long as the process lasts.
func startIssuer() (issuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return issuer{}, fmt.Errorf("making a key: %w", err)
	}
	listener, err := listen()
	if err != nil {
		return issuer{}, err
	}
	i := issuer{url: "http://" + listener.Addr().String()}
	keys, err := json.Marshal(jose.JSONWebKeySet{
		Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "bench", Algorithm: "ES256"}},
	})
	if err != nil {
		return issuer{}, fmt.Errorf("encoding a key: %w", err)
	}
	go func() {
		_ = quick(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(keys) })).Serve(listener) //nolint:errcheck // the runner says that it is gone
	}()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key},
		new(jose.SignerOptions).WithHeader("kid", "bench"))
	if err != nil {
		return issuer{}, fmt.Errorf("signing a token: %w", err)
	}
	claims, err := json.Marshal(map[string]any{
		"iss": i.url, "sub": "ann", "aud": audience, "exp": time.Now().Add(24 * time.Hour).Unix(), "scope": "tools openid",
		"groups": []string{"blue", "red"}, "email": "ann@example.com", "level": 4, "azp": "desktop", "jti": rand.Text(),
	})
	if err != nil {
		return issuer{}, fmt.Errorf("encoding claims: %w", err)
	}
	signed, err := signer.Sign(claims)
	if err != nil {
		return issuer{}, fmt.Errorf("signing a token: %w", err)
	}
	i.token, err = signed.CompactSerialize()
	return i, err
}

// guard is a way in which the runner is set.
type guard = func(*runconfig.Proxy)

// guards are how the runner is measured, by the name of the contender.
func (i issuer) guards() map[string]guard {
	token := func(p *runconfig.Proxy) {
		p.Authentication = &runconfig.Authentication{
			Issuer: i.url, KeysURL: i.url, Algorithms: []string{"ES256"}, UsernameClaim: "sub", GroupsClaim: "groups",
			Resource: audience, Audiences: []string{audience}, Scopes: []string{"tools"},
		}
	}
	return map[string]guard{
		ours:        func(*runconfig.Proxy) {},
		"token":     token,
		"and Cedar": func(p *runconfig.Proxy) { token(p); p.Authorization = twenty() },
	}
}

// twenty are policies as a team writes them, of which two decide about a call. Half of
// the tools in a list are permitted.
func twenty() *runconfig.Authorization {
	a := &runconfig.Authorization{}
	add := func(name, text string) {
		a.Policies = append(a.Policies, runconfig.Policy{Name: name, Text: text})
	}
	for n := range 18 {
		add(fmt.Sprintf("tool-%02d", n),
			fmt.Sprintf(
				`permit(principal in Group::"team-%d", action == Action::"call_tool", resource == Tool::"tool-%d") when { resource.arg_n < %d };`, n, n, n))
	}
	add("own",
		`permit(principal in Group::"blue", action == Action::"call_tool", resource) when { principal.claim_level >= 3 };`)
	add("not",
		`forbid(principal, action == Action::"call_tool", resource) when { resource.name like "*-odd" || resource has arg_path && resource.arg_path like "/etc/*" };`)
	return a
}

// startProduct starts the runner's own binary. It has no mark, so it serves and
// applies nothing. It logs to nowhere, but it logs.
func startProduct(ctx context.Context, binary, dir, backend string, guard guard) (*process, error) {
	run := runconfig.RunConfig{
		Version:  runconfig.Version,
		Server:   runconfig.Server{Namespace: "bench", Name: "bench", UID: "1"},
		Backend:  runconfig.Backend{Image: "bench", Port: 8080, Path: "/mcp", Transport: "streamable-http"},
		Proxy:    runconfig.Proxy{Port: 8000, Path: "/mcp"},
		Workload: runconfig.Workload{Generation: 1}, Rendering: runconfig.Rendering{Proxy: "p", Backend: "b"},
	}
	guard(&run.Proxy)
	hash, err := run.ContentHash()
	if err != nil {
		return nil, fmt.Errorf("hashing a run config: %w", err)
	}
	run.Workload.Hash = hash
	data, err := run.Encode()
	if err != nil {
		return nil, fmt.Errorf("encoding a run config: %w", err)
	}
	keys, err := sessionKeys(dir)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, hash)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return nil, fmt.Errorf("writing a run config: %w", err)
	}
	var free [2]string
	for i := range free {
		if free[i], err = freeAddress(); err != nil {
			return nil, err
		}
	}
	p := &process{calls: free[0]}
	p.command = exec.CommandContext(ctx, binary, "--config", file, "--backend", "http://"+backend, "--address", free[0],
		"--probe-address", free[1], "--session-keys", keys)
	p.command.Env = []string{"PATH=" + os.Getenv("PATH")}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("starting the runner: %w", err)
	}
	if err := awaitReady(ctx, "http://"+free[1]+"/readyz"); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// sessionKeys makes a directory with a key of session ids, as the Secret is mounted.
func sessionKeys(dir string) (string, error) {
	keys, err := os.MkdirTemp(dir, "keys-")
	if err != nil {
		return "", fmt.Errorf("making a directory of keys: %w", err)
	}
	if err := os.WriteFile(filepath.Join(keys, runconfig.SessionKey), []byte(rand.Text()+rand.Text()), 0o600); err != nil {
		return "", fmt.Errorf("writing a key of session ids: %w", err)
	}
	return keys, nil
}

func awaitReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for ; ; time.Sleep(50 * time.Millisecond) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return fmt.Errorf("asking whether the runner is ready: %w", err)
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			_ = response.Body.Close() //nolint:errcheck // its status is all there is
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the runner is not ready: %w", ctx.Err())
		}
	}
}
