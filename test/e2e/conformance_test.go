package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/conformance"
)

// revisions are the requirement sets of the suite, and the arguments with which the server speaks them: the Go SDK's
// serves either era at one endpoint.
var revisions = map[string]string{"2025-11-25": "-stateless=false", "2026-07-28": "-stateless=true"}

// way is how Freehold serves the server.
type servedWay struct {
	name string
	// spec is the MCPServer's, beside the image and with the arguments.
	spec func(args string) string
	// serve serves it in another way than by an MCPServer, and returns the endpoint; nil for none.
	serve func(ctx context.Context, s story, args string) string
	// prepare makes what the spec refers to, and returns how clients are let in; nil for nothing.
	prepare func(ctx context.Context, s story) (account string)
	// only is the one requirement set that the way is for, "" for all, and differs the scenarios that end in another way,
	// by requirement set and with the reason.
	// sometimes are those that chance may end in another way.
	only               string
	differs, sometimes map[string]map[string]string
}

// judged is which scenarios differ, and which may.
func (w servedWay) judged(revision string, differences []conformance.Difference) (found, want []string) {
	found, want = scenarios(differences), slices.Collect(maps.Keys(w.differs[revision]))
	for _, scenario := range found {
		if _, may := w.sometimes[revision][scenario]; may {
			want = append(want, scenario)
		}
	}
	return found, slices.Sorted(slices.Values(want))
}

func overHTTP(more string) func(string) string {
	return func(args string) string {
		return fmt.Sprintf(`{image: %q, args: ["-http", ":8080", %q]%s}`, image, args, more)
	}
}

// servedWays are all ways in which a server can be served. Another one is a row.
var servedWays = []servedWay{
	{name: "streamable HTTP", spec: overHTTP("")},
	{name: "streamable HTTP through two proxies", spec: overHTTP(", proxy: {replicas: 2}")},
	{name: "streamable HTTP with login and policies", spec: overHTTP(`, oidcConfigRef: {name: cluster},
		authzConfig: {policies: [{name: all, policy: 'permit(principal, action, resource);'}]}`), prepare: accountLogin},
	{
		name: "streamable HTTP through two proxies to two backends", spec: overHTTP(", replicas: 2, proxy: {replicas: 2}"),
		sometimes: conformance.Spread,
	},
	{name: "MCPRemoteProxy", serve: elsewhere},
	{name: "stdio", differs: conformance.OverStdio, spec: func(string) string {
		return fmt.Sprintf(`{image: %q, transport: stdio, command: [/everything-server]}`, image)
	}},
	{name: "SSE", differs: conformance.OverSSE, spec: func(string) string {
		return fmt.Sprintf(`{image: %q, transport: sse, args: ["-http", ":8080"], path: %s}`,
			"freehold.dev/everything-sse:"+version(), eventsPath)
	}},
	{
		name: "a legacy server to modern clients", only: "2026-07-28", differs: conformance.Translated,
		spec: func(string) string { return overHTTP("")("-stateless=false") },
	},
}

// elsewhere runs the server by itself, and an MCPRemoteProxy in front of it.
func elsewhere(ctx context.Context, s story, args string) string {
	GinkgoHelper()
	s.applyAll(ctx, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: elsewhere, labels: {app: elsewhere}}
spec:
  automountServiceAccountToken: false
  securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: server
    image: %s
    args: ["-http", ":8080", %q]
    readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
    securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
---
apiVersion: v1
kind: Service
metadata: {name: elsewhere}
spec: {selector: {app: elsewhere}, ports: [{port: 8080}]}
---
apiVersion: freehold.dev/v1alpha1
kind: MCPRemoteProxy
metadata: {name: elsewhere}
spec: {url: "http://elsewhere.%s.svc:8080/mcp", allowHTTP: true, allowedNetworks: [10.0.0.0/8]}
`, image, args, s.namespace))
	remote := &v1alpha1.MCPRemoteProxy{}
	Eventually(ctx, func(g Gomega) {
		g.Expect(cluster.Get(ctx, s.key("elsewhere"), remote)).To(Succeed())
		g.Expect(meta.IsStatusConditionTrue(remote.Status.Conditions, v1alpha1.ConditionReady)).
			To(BeTrue(), "%v", remote.Status.Conditions)
	}).Should(Succeed())
	return remote.Status.URL
}

// accountLogin lets a service account of the story's namespace in.
func accountLogin(ctx context.Context, s story) string {
	GinkgoHelper()
	s.applyAll(ctx, fmt.Sprintf(`
apiVersion: v1
kind: ServiceAccount
metadata: {name: suite}
---
apiVersion: freehold.dev/v1alpha1
kind: MCPOIDCConfig
metadata: {name: cluster}
spec: {kubernetes: {serviceAccounts: [{namespace: %s, name: suite}]}}
`, s.namespace))
	return "suite"
}

// reported is what one way came to with one requirement set.
type reported struct {
	Way         string                   `json:"way"`
	Revision    string                   `json:"revision"`
	Checks      int                      `json:"checks"`
	Failing     map[string]string        `json:"failing"` // of the server itself: scenario and reason
	Differences []conformance.Difference `json:"differences"`
	// Once are differences that were not there when the suite ran again.
	Once []conformance.Difference `json:"once,omitempty"`
}

var _ = Describe("The conformance suite", Ordered, ContinueOnFailure, Label("conformance"), func() {
	suite := conformance.Suite{
		Node:    node,
		Program: "bin/conformance/node_modules/@modelcontextprotocol/conformance/dist/index.js",
	}
	folder := filepath.Join("bin", "conformance", "results", time.Now().UTC().Format("20060102T150405"))
	direct := map[string]conformance.Results{}
	var report []reported

	BeforeAll(func(ctx SpecContext) {
		for revision, args := range revisions {
			results, err := suite.Run(ctx, directly(ctx, args), revision, filepath.Join(folder, revision, "direct"))
			Expect(err).NotTo(HaveOccurred())
			Expect(results.Failures()).To(Equal(slices.Sorted(maps.Keys(conformance.Unmet[revision]))),
				"what the server fails by itself is not what test/conformance/failures.go tells")
			Expect(results.Checks()).To(Equal(conformance.Checks[revision]),
				"the suite of %s has left checks out, or has new ones", revision)
			direct[revision] = results
		}
	}, NodeTimeout(5*time.Minute))
	AfterAll(func() { writeReport(folder, report) })

	for _, w := range servedWays {
		for revision, args := range revisions {
			if w.only != "" && w.only != revision {
				continue
			}
			It("finds in a server behind Freehold what it finds in the server: "+w.name+", "+revision, func(ctx SpecContext) {
				s := newStory("everything")
				account := ""
				if w.prepare != nil {
					account = w.prepare(ctx, s)
				}
				url, token := "", ""
				if w.serve != nil {
					url = w.serve(ctx, s, args)
				} else {
					s.apply(ctx, w.spec(args))
					url = s.ready(ctx).Status.URL
				}
				if account != "" {
					token = s.token(ctx, account, url)
				}
				awaited, _ := atLocalhost(url, token)
				Eventually(ctx, func() (string, error) { return call(ctx, awaited) }).ShouldNot(BeEmpty())
				url, front := atLocalhost(url, token)
				result := reported{Way: w.name, Revision: revision, Failing: conformance.Unmet[revision]}
				// The suite bounds what it asks by time, by half a second and more, so that a machine that is busy fails some. So
				// the row is judged by a second run where the first one differs, but for an answer that is not given or breaks off:
				// that is no lack of time, and fails the row at once.
				for attempt := 1; attempt <= 2; attempt++ {
					dir := fmt.Sprintf("%s-%d", strings.ReplaceAll(w.name, " ", "-"), attempt)
					results, err := suite.Run(ctx, url, revision, filepath.Join(folder, revision, dir))
					Expect(err).NotTo(HaveOccurred())
					result.Once, result.Differences = result.Differences, conformance.Compare(direct[revision], results)
					result.Checks = results.Checks()
					Expect(front.Broken()).To(BeEmpty(), "not answered, or not to the end; differences %v", result.Differences)
					if found, want := w.judged(revision, result.Differences); slices.Equal(found, want) {
						break
					}
				}
				report = append(report, result)
				found, want := w.judged(revision, result.Differences)
				Expect(found).To(Equal(want), "%v", result.Differences)
			}, SpecTimeout(5*time.Minute))
		}
	}
})

// directly runs the program in the server's image without Freehold until the test ends, and returns its endpoint. It
// listens at localhost, because the Go SDK judges Host and Origin only there.
func directly(ctx context.Context, args ...string) string {
	GinkgoHelper()
	address := freeAddress(ctx)
	server := exec.Command("bin/images/rootfs/everything-server", append([]string{"-http", address}, args...)...)
	server.Stderr = GinkgoWriter
	run(server)
	endpoint := "http://" + address + "/mcp"
	Eventually(ctx, func() (string, error) { return call(ctx, endpoint) }).ShouldNot(BeEmpty())
	return endpoint
}

// freeAddress is one of localhost at which nobody listens.
func freeAddress(ctx context.Context) string {
	GinkgoHelper()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	defer listener.Close()
	return listener.Addr().String()
}

// run runs a program until the test ends.
func run(program *exec.Cmd) {
	GinkgoHelper()
	Expect(program.Start()).To(Succeed())
	DeferCleanup(func() {
		Expect(program.Process.Kill()).To(Succeed())
		_, err := program.Process.Wait()
		Expect(err).NotTo(HaveOccurred())
	})
}

// atLocalhost is an endpoint before a server, at localhost, where the suite tries DNS rebinding. It adds a token to
// each request.
func atLocalhost(server, token string) (string, *conformance.Front) {
	GinkgoHelper()
	to, err := url.Parse(server)
	Expect(err).NotTo(HaveOccurred())
	front := conformance.NewFront(to, token)
	at := httptest.NewServer(front)
	DeferCleanup(at.Close)
	return at.URL + to.Path, front
}

// writeReport writes what was compared as JSON, and as text for a person.
func writeReport(folder string, report []reported) {
	GinkgoHelper()
	data, err := json.MarshalIndent(report, "", "  ")
	Expect(err).NotTo(HaveOccurred())
	var text strings.Builder
	for _, r := range report {
		fmt.Fprintf(&text, "%s, %s: %d checks, %d differ from the direct run\n", r.Revision, r.Way, r.Checks,
			len(r.Differences))
		for _, d := range r.Differences {
			fmt.Fprintf(&text, "  %s\n", d)
		}
		for _, d := range r.Once {
			fmt.Fprintf(&text, "  in the first of two runs %s\n", d)
		}
	}
	for revision, unmet := range conformance.Unmet {
		for scenario, reason := range unmet {
			fmt.Fprintf(&text, "%s: the server itself fails %s: %s\n", revision, scenario, reason)
		}
	}
	for name, content := range map[string]string{"report.json": string(data) + "\n", "report.txt": text.String()} {
		Expect(os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644)).To(Succeed())
	}
	fmt.Fprint(os.Stdout, text.String())
}

// scenarios are those of differences, sorted, each once.
func scenarios(differences []conformance.Difference) []string {
	var all []string
	for _, d := range differences {
		all = append(all, d.Scenario)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
