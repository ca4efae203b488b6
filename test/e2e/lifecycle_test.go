package e2e

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/controllers/workload"
)

const (
	release   = "freehold"
	system    = "freehold-system"
	chartPath = "config/chart"
)

// helm runs the pinned Helm, or the one that HELM names, and waits as long as its --wait does.
func helm(ctx context.Context, args ...string) string {
	GinkgoHelper()
	out, err := exec.CommandContext(ctx, cmp.Or(os.Getenv("HELM"), "bin/tools/helm"),
		append(args, "--namespace", system)...).CombinedOutput() //nolint:gosec // the arguments are this file's
	Expect(err).NotTo(HaveOccurred(), "helm %q: %s", args, out)
	return string(out)
}

// values are those with which every revision of the release runs the images that the cluster holds.
func values(more ...string) []string { return valuesOf(version(), more...) }

func valuesOf(tag string, more ...string) []string {
	args := []string{"--set", "image.tag=" + tag + ",runner.image.tag=" + tag, "--wait", "--timeout", "5m"}
	for _, value := range more {
		args = append(args, "--set", value)
	}
	return args
}

// scrape reads metrics as an account of the system's namespace, over TLS. The error is of the way there.
func scrape(ctx context.Context, account string) (status int, body string, failed error) {
	GinkgoHelper()
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: account}}
	if err := cluster.Create(ctx, sa); err != nil {
		Expect(client.IgnoreAlreadyExists(err)).To(Succeed())
	}
	token := &authenticationv1.TokenRequest{}
	Expect(cluster.SubResource("token").Create(ctx, sa, token)).To(Succeed())
	c := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the operator signs its certificate itself
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"https://"+release+"-operator-metrics."+system+".svc:9443/metrics", nil)
	Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Authorization", "Bearer "+token.Status.Token)
	response, err := c.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// The operator comes and goes, and servers answer all the while.
var _ = It("No call fails while the release is upgraded, rolled back, uninstalled and installed again", Serial,
	func(ctx SpecContext) {
		s := newStory("kept")
		installed := true
		DeferCleanup(func(ctx SpecContext) { // other stories need the operator
			if !installed {
				helm(ctx, append([]string{"upgrade", "--install", release, chartPath}, values()...)...)
			}
		})
		from, tag := chartPath, version()
		if chart := os.Getenv("FROM_CHART"); chart != "" { // hack/e2e-helm.sh has made an earlier release
			from, tag = chart, "from"
		}
		helm(ctx, append([]string{"upgrade", "--install", release, from}, valuesOf(tag)...)...)
		revision := strings.TrimSpace(helm(ctx, "list", "--filter", "^"+release+"$", "--no-headers")) // its third word
		revision = strings.Fields(revision)[2]
		s.apply(ctx, fmt.Sprintf(`{image: %q, args: ["-http", ":8080"], replicas: 2, proxy: {replicas: 2}}`, image))
		url := s.ready(ctx).Status.URL
		calls := callAgain(ctx, url, 8)
		told := func(step string) {
			answers, failures := calls.soFar()
			GinkgoWriter.Printf("%s %s: %d answers so far, failures: %q\n", time.Now().Format(time.TimeOnly), step, answers,
				failures)
		}
		generation := func() int64 { return s.ready(ctx).Status.Workload.Generation }
		pods := func() map[string]bool {
			names := map[string]bool{}
			for _, pod := range s.pods(ctx, workload.ComponentProxy) {
				names[pod.Name] = true
			}
			return names
		}
		first := generation()
		told("installed")

		By("upgrading to another runner and more values")
		before := pods()
		helm(ctx, append([]string{"upgrade", release, chartPath},
			values("runner.image.tag="+version()+"-again", "log.level=debug", "log.format=text",
				"metrics.port=9443", "metrics.secure=true", "metrics.readers[0].name=reader",
				"metrics.readers[0].namespace="+system,
				"test.image="+image, "test.args={-http,:8080}", "test.tool=test_simple_text")...)...)
		Eventually(ctx, generation).Should(Equal(first + 1))
		Eventually(ctx, func(g Gomega) {
			after := pods()
			g.Expect(after).To(HaveLen(2))
			for name := range after {
				g.Expect(before).NotTo(HaveKey(name))
			}
		}).Should(Succeed())
		told("upgraded")

		By("reading metrics, as who may and who may not")
		for account, as := range map[string]types.GomegaMatcher{
			"reader":  SatisfyAll(HavePrefix("200 "), MatchRegexp(`(?m)^freehold_objects\{kind="MCPServer"\} [1-9]`)),
			"default": HavePrefix("403 "),
		} {
			Eventually(ctx, func() (string, error) {
				status, body, err := scrape(ctx, account)
				return fmt.Sprint(status, " ", body), err
			}).Should(as, account)
		}

		Eventually(ctx, func() string { return checks(ctx) }).
			Should(MatchRegexp("metrics OK port 9443 of pod .* with a token"))

		By("testing the release")
		if strings.HasPrefix(helm(ctx, "version", "--short"), "v3.") { // it asks for logs once the pod is gone
			Expect(helm(ctx, "test", release, "--timeout", "4m")).To(MatchRegexp(`Phase: +Succeeded`))
		} else {
			Expect(helm(ctx, "test", release, "--timeout", "4m", "--logs")).
				To(SatisfyAll(ContainSubstring("the tool test_simple_text of http://freehold-test-proxy."+system),
					// The network of this cluster enforces none.
					ContainSubstring("NetworkPolicies are not enforced: this pod reaches freehold-test-backend")))
		}
		told("tested")

		By("rolling back")
		helm(ctx, "rollback", release, revision, "--wait", "--timeout", "5m")
		Eventually(ctx, generation).Should(Equal(first + 2))
		told("rolled back")

		By("uninstalling")
		installed = false
		helm(ctx, "uninstall", release, "--wait", "--timeout", "5m")
		time.Sleep(3 * time.Second)
		told("uninstalled")

		By("installing again")
		helm(ctx, append([]string{"install", release, from}, valuesOf(tag)...)...)
		installed = true
		Expect(generation()).To(Equal(first + 2))
		s.apply(ctx,
			fmt.Sprintf(
				`{image: %q, args: ["-http", ":8080"], replicas: 2, proxy: {replicas: 2, podTemplate: {metadata: {annotations: {round: "2"}}}}}`, image))
		Eventually(ctx, generation).Should(Equal(first + 3))
		told("installed again")

		calls.end()
		answers, failures := calls.soFar()
		Expect(failures).To(BeEmpty())
		Expect(answers).To(BeNumerically(">", 0))
		AddReportEntry(fmt.Sprintf("%d answers", answers))
	}, SpecTimeout(25*time.Minute))
