package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/controllers/workload"
)

var _ = It("What connect prints is called as it stands, with a token, from this machine while proxies are replaced",
	func(ctx SpecContext) {
		s := newStory("connected")
		s.applyAll(ctx, "apiVersion: freehold.dev/v1alpha1\nkind: MCPOIDCConfig\nmetadata: {name: accounts}\n"+
			"spec: {kubernetes: {serviceAccounts: [{name: default, namespace: "+s.namespace+"}]}}")
		s.apply(ctx, fmt.Sprintf(`{image: %q, args: ["-http", ":8080"], oidcConfigRef: {name: accounts},
			proxy: {replicas: 2}}`, image))
		s.ready(ctx)

		running, stop := context.WithCancel(ctx)
		forward := exec.CommandContext(running, "bin/kubectl-freehold", "-n", s.namespace, "connect", s.name,
			"--client", "json", "--forward") //nolint:gosec // generated names
		printed, err := forward.StdoutPipe()
		Expect(err).NotTo(HaveOccurred())
		Expect(forward.Start()).To(Succeed())
		DeferCleanup(func() {
			stop()
			_ = forward.Wait() // it was ended
		})
		var endpoint struct {
			URL          string `json:"url"`
			Header       string `json:"header"`
			TokenCommand string `json:"tokenCommand"`
		}
		Expect(json.NewDecoder(printed).Decode(&endpoint)).To(Succeed())
		Expect(endpoint.Header).To(Equal("Authorization"))
		caller := withHeader{name: endpoint.Header, value: &atomic.Pointer[string]{}}
		login := func() {
			GinkgoHelper()
			token, err := exec.CommandContext(ctx, "bash", "-c", endpoint.TokenCommand).Output() //nolint:gosec // ours
			Expect(err).NotTo(HaveOccurred(), endpoint.TokenCommand)
			caller.value.Store(new("Bearer " + strings.TrimSpace(string(token))))
		}
		login()
		list := func() error {
			session, err := mcp.NewClient(&mcp.Implementation{Name: "connected"}, nil).Connect(ctx,
				&mcp.StreamableClientTransport{
					Endpoint: endpoint.URL, HTTPClient: &http.Client{Transport: caller}, DisableStandaloneSSE: true,
				}, nil)
			if err != nil {
				return err
			}
			defer session.Close()
			_, err = session.ListTools(ctx, nil)
			return err
		}
		Eventually(ctx, list).Should(Succeed())

		var answers int
		var failures []string
		var done sync.WaitGroup
		calling, enough := context.WithCancel(ctx)
		done.Go(func() {
			for ; calling.Err() == nil; time.Sleep(20 * time.Millisecond) {
				if err := list(); err != nil {
					failures = append(failures, time.Now().Format(time.TimeOnly)+" "+err.Error())
					continue
				}
				answers++
			}
		})
		lasts, _ := time.ParseDuration(os.Getenv("FORWARD")) // 0 is once
		for begun := time.Now(); ; {
			s.replaced(ctx, s.restart(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
				Name: workload.ProxyName(s.name),
			}}), workload.ComponentProxy)
			if time.Since(begun) >= lasts {
				break
			}
			login() // a token lasts for an hour
		}
		time.Sleep(2 * time.Second) // a call after the last pod of before has ended
		enough()
		done.Wait()
		Expect(failures).To(BeEmpty())
		Expect(answers).To(BeNumerically(">", 0))
	})

// withHeader sends a header with each request.
type withHeader struct {
	name  string
	value *atomic.Pointer[string]
}

// RoundTrip implements http.RoundTripper.
func (h withHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(h.name, *h.value.Load())
	return http.DefaultTransport.RoundTrip(r)
}
