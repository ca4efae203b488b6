package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/freehold-dev/freehold/cmd/kubectl-freehold/internal/clients"
	"github.com/freehold-dev/freehold/controllers/runspec"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// answerPatience is how long a server may take to answer.
const answerPatience = 30 * time.Second

// askNow asks a server as a client does, through a pod of its proxy.
func (c *cli) askNow(ctx context.Context, r *reached) (result, message string) {
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	to, err := c.tunnelTo(ctx, r)
	if err != nil {
		return failed, err.Error()
	}
	defer to.end()
	return c.answer(ctx, fmt.Sprintf("http://%s%s", to.address, r.Path()), to.pod, os.Getenv(clients.TokenVariable))
}

// answer says what a pod of a proxy answers who sends a token, or none.
func (c *cli) answer(ctx context.Context, url, pod, token string) (result, message string) {
	calls := &bearer{token: token}
	began := c.now()
	tools, err := toolsAt(ctx, url, calls)
	switch {
	case err == nil:
		return passed, fmt.Sprintf("it answers pod %s of its proxy with %d tools in %s", pod, tools,
			c.now().Sub(began).Round(time.Millisecond))
	case calls.last == http.StatusUnauthorized && token == "":
		return unknown, "the proxy answers, and asks callers for a token: fill " + clients.TokenVariable +
			", so that the server is asked too"
	}
	return failed, err.Error()
}

// toolsAt is how many tools a server lists at a URL.
func toolsAt(ctx context.Context, url string, through http.RoundTripper) (tools int, err error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "kubectl-freehold", Version: version}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: url, DisableStandaloneSSE: true, MaxRetries: -1, HTTPClient: &http.Client{Transport: through},
	}, nil)
	if err != nil {
		return 0, err
	}
	defer session.Close() //nolint:errcheck // the answer is here
	for _, err := range session.Tools(ctx, nil) {
		if err != nil {
			return 0, fmt.Errorf("listing its tools: %w", err)
		}
		tools++
	}
	return tools, nil
}

// bearer sends a token, if there is one, and knows the last status.
type bearer struct {
	token string
	last  int
}

// RoundTrip implements http.RoundTripper.
func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		b.last = answer.StatusCode
	}
	return answer, err
}

// tunnelTo leads to a ready pod of a proxy, or to one that is not ready where none is: it may say why.
func (c *cli) tunnelTo(ctx context.Context, r *reached) (*tunnel, error) {
	key, err := keyOfChildren(r.object)
	if err != nil {
		return nil, err
	}
	selector := labels.FormatLabels(workload.Selector(key, workload.ComponentProxy))
	pods, err := c.pods(ctx, r.object.GetNamespace(), selector)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return takesCalls(&p) })
	if i < 0 {
		i = slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	}
	if i < 0 {
		return nil, fmt.Errorf("no pod of the proxy runs: see kubectl -n %s describe pods -l %s", r.object.GetNamespace(),
			selector)
	}
	return c.tunnelToPod(&pods[i], runspec.ProxyPort(r.Spec.Proxy))
}
