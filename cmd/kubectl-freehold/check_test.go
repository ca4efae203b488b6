package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	corev1 "k8s.io/api/core/v1"
)

// An answer counts the tools; who needs a token is told from who fails.
func TestAServerIsAskedAsAClientDoes(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "echo"}, nil)
	for _, name := range []string{"a", "b"} {
		mcp.AddTool(server, &mcp.Tool{Name: name},
			func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
				return nil, nil, nil
			})
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	guarded := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer right" {
			http.Error(w, "a token is missing", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	defer guarded.Close()
	for token, want := range map[string]int{"right": http.StatusOK, "": http.StatusUnauthorized} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		calls := &bearer{token: token}
		tools, err := toolsAt(ctx, guarded.URL, calls)
		if answered := err == nil && tools == 2; answered != (want == http.StatusOK) ||
			want == http.StatusUnauthorized && calls.last != want {
			t.Errorf("with token %q: %d tools, last status %d, %v", token, tools, calls.last, err)
		}
		cancel()
	}
	c := sit("")
	for token, want := range map[string][2]string{
		"right": {passed, "it answers pod p of its proxy with 2 tools"}, "wrong": {failed, "Unauthorized"},
		"": {unknown, "asks callers for a token: fill FREEHOLD_TOKEN"},
	} {
		result, says := c.answer(t.Context(), guarded.URL, "p", token)
		if result != want[0] || !strings.Contains(says, want[1]) {
			t.Errorf("with token %q it is %s: %s, want %v", token, result, says, want)
		}
	}
}

func TestMetricsThatAreRefusedAreReached(t *testing.T) {
	for status, want := range map[int]string{
		http.StatusOK: passed, http.StatusForbidden: passed, http.StatusUnauthorized: passed, http.StatusNotFound: failed,
	} {
		serve := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		for secure, server := range map[bool]*httptest.Server{
			false: httptest.NewServer(serve), true: httptest.NewTLSServer(serve),
		} {
			if got, says := metricsAt(t.Context(), server.Listener.Addr().String(), secure); got != want {
				t.Errorf("status %d, TLS %t: %s, %s", status, secure, got, says)
			}
			server.Close()
		}
	}
}

func TestWhyAPodWaits(t *testing.T) {
	for says, status := range map[string]corev1.PodStatus{
		"server: ImagePullBackOff no such tag": {ContainerStatuses: []corev1.ContainerStatus{{
			Name: "server", State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such tag"},
			},
		}}},
		"init: Error, exit code 3": {
			InitContainerStatuses: []corev1.ContainerStatus{{
				Name:  "init",
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 3}},
			}},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "server", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}},
			}},
		},
		"Unschedulable: no node has room": {Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "no node has room",
		}}},
		"it is Pending": {Phase: corev1.PodPending},
	} {
		if got := whyWaits(&corev1.Pod{Status: status}); got != says {
			t.Errorf("%q, want %q", got, says)
		}
	}
}

func TestSomeAreNamed(t *testing.T) {
	if got := some(strings.Split("a b c d e", " ")); got != "a; b; c; and 2 more" {
		t.Error(got)
	}
}

func TestTheOldestKubernetesIsTheCharts(t *testing.T) {
	chart, err := os.ReadFile("../../config/chart/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if want := `kubeVersion: ">=` + oldestKubernetes + `.0-0"`; !strings.Contains(string(chart), want) {
		t.Errorf("the chart does not say %s", want)
	}
}
