package integration

import (
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/configs/registry"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/rollout"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// fleet are servers that refer to a configuration, called s0, s1 and so on.
type fleet struct {
	*kit.Env
	names []string
	refer string
}

// newFleet applies servers that refer to a configuration that exists, and waits until all are ready.
func newFleet(s *kit.Env, size int, refer string) *fleet {
	GinkgoHelper()
	f := &fleet{Env: s, refer: refer}
	for i := range size {
		f.names = append(f.names, fmt.Sprintf("s%d", i))
		s.Apply(git, server(f.names[i], refer))
	}
	for _, name := range f.names {
		atRest(s, name)
	}
	return f
}

// await waits until of every server holds what is asked.
func (f *fleet) await(question string, holds func(*v1alpha1.MCPServer) bool) {
	GinkgoHelper()
	f.awaitSome(question, len(f.names), holds)
}

// awaitSome waits until it holds of exactly so many.
func (f *fleet) awaitSome(question string, count int, holds func(*v1alpha1.MCPServer) bool) {
	GinkgoHelper()
	list := &v1alpha1.MCPServerList{}
	f.AwaitAll(list, fmt.Sprintf("%d servers: %s", count, question), func() error {
		var are []string
		for i := range list.Items {
			if holds(&list.Items[i]) {
				are = append(are, list.Items[i].Name)
			}
		}
		if len(are) != count {
			return fmt.Errorf("these are: %v", are)
		}
		return nil
	})
}

// has reports whether a server is ready with content of a configuration.
func has(hash string) func(*v1alpha1.MCPServer) bool {
	return func(server *v1alpha1.MCPServer) bool { return recorded(server, hash) && unreadyFor(server, "") }
}

func recorded(server *v1alpha1.MCPServer, hash string) bool {
	claim := server.Status.Workload
	return claim != nil && slices.ContainsFunc(claim.Configs,
		func(c v1alpha1.WorkloadConfig) bool { return c.Hash == hash })
}

// unreadyFor reports whether a server is not Ready for this reason, or Ready for none.
func unreadyFor(server *v1alpha1.MCPServer, reason string) bool {
	c := meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionReady)
	return c != nil && (reason == "" && c.Status == metav1.ConditionTrue || reason != "" && c.Reason == reason)
}

// waits reports whether a server waits for its turn.
func waits(server *v1alpha1.MCPServer) bool { return unreadyFor(server, v1alpha1.ReasonRolloutPending) }

// hashOf is what claims record of the MCPAuthzConfig company.
func hashOf(s *kit.Env) string {
	GinkgoHelper()
	live := policiesOf(s, "company")
	s.Read(live)
	return registry.Read(live)[0].Verdict.Hash
}

// inTurns fails the test if more servers were under way at any time than the budget
// allows, or one was rolled more than once.
func inTurns(recording *kit.Recording, hash string, budget int) {
	GinkgoHelper()
	phases, numbers := map[string]rollout.Phase{}, map[string]map[int64]bool{}
	recording.Check(func(state kit.State) error {
		live := &v1alpha1.MCPServer{}
		if err := decode(state.Object, live); err != nil {
			return err
		}
		phases[live.Name] = rollout.Of(live).Member("MCPAuthzConfig", "company", hash).Phase
		if numbers[live.Name] == nil {
			numbers[live.Name] = map[int64]bool{}
		}
		numbers[live.Name][live.Status.Workload.Generation] = true
		moving := 0
		for _, phase := range phases {
			if phase == rollout.Moving || phase == rollout.Failed {
				moving++
			}
		}
		if moving > budget || len(numbers[live.Name]) > 2 {
			return fmt.Errorf("%d servers are under way, of at most %d, and %s had the numbers %v", moving, budget, live.Name,
				numbers[live.Name])
		}
		return nil
	})
}

// neverOpen fails the test if a server was Ready while a proxy pod of other content
// served, or one without a protection that the spec asked for.
func neverOpen(servers, pods *kit.Recording) {
	GinkgoHelper()
	states := slices.Concat(servers.States(), pods.States())
	slices.SortStableFunc(states, func(a, b kit.State) int {
		switch {
		case a.Object.GetResourceVersion() == b.Object.GetResourceVersion():
			return 0
		case kit.Before(a, b):
			return -1
		}
		return 1
	})
	running := map[string]*corev1.Pod{}
	for _, state := range states {
		if state.Object.GetKind() == "Pod" {
			pod := &corev1.Pod{}
			Expect(decode(state.Object, pod)).To(Succeed())
			if delete(running, pod.Name); !state.Deleted && pod.DeletionTimestamp == nil &&
				pod.Labels[workload.LabelComponent] == workload.ComponentProxy {
				running[pod.Name] = pod
			}
			continue
		}
		live := &v1alpha1.MCPServer{}
		Expect(decode(state.Object, live)).To(Succeed())
		if live.Status.ObservedGeneration != live.Generation || !unreadyFor(live, "") {
			continue
		}
		asks := runconfig.Proxy{}
		if live.Spec.AuthzConfigRef != nil || live.Spec.AuthzConfig != nil {
			asks.Authorization = &runconfig.Authorization{}
		}
		if live.Spec.OIDCConfigRef != nil {
			asks.Authentication = &runconfig.Authentication{}
		}
		for name, pod := range running {
			carries, err := revision.Of(pod.Annotations)
			Expect(err).NotTo(HaveOccurred())
			if pod.Labels[workload.LabelServer] != live.Name {
				continue
			}
			claim := revision.Revision{Generation: live.Status.Workload.Generation, Hash: live.Status.Workload.Hash}
			Expect(carries).To(Equal(claim), "%s is Ready at %s, and pod %s has other content", live.Name, live.ResourceVersion,
				name)
			Expect(podtemplate.HasGuards(pod.Annotations, podtemplate.Guards(asks))).
				To(BeTrue(), "%s is Ready at %s, and pod %s does not hold calls against it", live.Name, live.ResourceVersion, name)
		}
	}
}

// backends are the uids of all pods of backends.
func backends(s *kit.Env) (uids []string) {
	GinkgoHelper()
	list := &corev1.PodList{}
	s.Must(s.Client.List(s.Ctx, list, client.InNamespace(s.Namespace),
		client.MatchingLabels{workload.LabelComponent: workload.ComponentBackend}), "listing pods")
	for i := range list.Items {
		uids = append(uids, string(list.Items[i].UID))
	}
	slices.Sort(uids)
	return uids
}

const denyAll = "forbid(principal, action, resource);"

var _ = It("A changed configuration reaches its servers quarter by quarter, each once, and no backend", func() {
	s := newEnv()
	op := operate(s)
	proxies := s.RunProxies()
	s.Apply(git, policies("company", permitAll))
	f := newFleet(s, 8, "authzConfigRef: {name: company}")
	before, servers, pods := backends(s), s.RecordAll(&v1alpha1.MCPServer{}), s.RecordAll(&corev1.Pod{})
	first := hashOf(s)

	By("nothing rolls where nothing means anything else")
	quiet(op)
	sent := op.requests.Mark()
	s.Apply(git, strings.Replace(policies("company", "// everybody\n permit ( principal,\n action, resource ) ;"),
		"name: company", "name: company, labels: {a: b}", 1))
	Expect(hashOf(s)).To(Equal(first))
	quiet(op)
	others := func(r kit.Request) bool { return !strings.HasPrefix(r.Resource, "mcpauthzconfigs") }
	Expect(op.writes(sent).Where(others)).To(BeEmpty(), op.writes(sent).String())

	By("a change of meaning does")
	sent, ran := op.requests.Mark(), proxies.Requests.Mark()
	s.Apply(git, policies("company", denyAll))
	second := hashOf(s)
	Expect(second).NotTo(Equal(first))
	f.await("ready with the new policies", has(second))
	inTurns(servers, second, 2)
	writes := slices.Concat(op.writes(sent).Where(others), proxies.Requests.Since(ran).Writes()).Accepted()
	GinkgoWriter.Println(writes.String())
	// Ready down (twice where a server waits), the claim, the proxy, Ready up; the runner's
	// report, and the revision on the StatefulSet.
	Expect(len(writes)).To(BeNumerically("<=", 7*len(f.names)), writes.String())
	quiet(op)
	// With the Event of the claim, and not what the configuration says of itself.
	asked := op.requests.Since(sent).Where(others).Accepted()
	Expect(len(asked)).To(BeNumerically("<=", 6*len(f.names)), asked.String())
	neverOpen(servers, pods)
	Expect(backends(s)).To(Equal(before))
})

var _ = It("The first server that fails with a changed configuration holds the others, until it is corrected", func() {
	s := newEnv()
	op := operate(s)
	s.RunProxies()
	s.Apply(git, fmt.Sprintf(login(""), 10))
	f := newFleet(s, 8, "oidcConfigRef: {name: company}")
	servers, pods := s.RecordAll(&v1alpha1.MCPServer{}), s.RecordAll(&corev1.Pod{})
	fails := func(server *v1alpha1.MCPServer) bool { return unreadyFor(server, v1alpha1.ReasonMissingReference) }

	By("a quarter of them fails")
	s.Apply(git, "apiVersion: freehold.dev/v1alpha1\nkind: MCPOIDCConfig\nmetadata: {name: company}\n"+
		"spec: {oidc: {issuer: 'https://login.example.com', caBundleRef: {name: company-ca}}, clockSkewSeconds: 10}\n")
	f.awaitSome("fail with the new login", 2, fails)
	f.awaitSome("wait", 6, waits)
	company := &v1alpha1.MCPOIDCConfig{ObjectMeta: metav1.ObjectMeta{Name: "company", Namespace: s.Namespace}}
	s.Await(company, "it says who holds the others", func() error {
		c := meta.FindStatusCondition(company.Status.Conditions, v1alpha1.ConditionRolledOut)
		if c == nil || c.Reason != v1alpha1.ReasonHeld || !strings.Contains(c.Message, `MCPServer "s0"`) {
			return fmt.Errorf("RolledOut is %+v", c)
		}
		return nil
	})

	By("a new leader of another release holds them too, and a change of a server's own goes on without the login")
	op.stop()
	op.start(controllers.Options{Workload: podtemplate.Release{RunnerImage: "freehold.dev/runner:next"}})
	s.Apply(git, server("s5", "oidcConfigRef: {name: company}\nargs: [a]"))
	f.awaitSome("have the other release, and wait", 6,
		func(live *v1alpha1.MCPServer) bool { return waits(live) && live.Status.Workload.Generation > 1 })
	f.awaitSome("have the other release, and fail", 2,
		func(live *v1alpha1.MCPServer) bool { return fails(live) && live.Status.Workload.Generation > 2 })

	By("what was missing is made")
	s.Apply(git, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: company-ca}\ndata: {ca.crt: x}\n")
	f.await("ready with the new login", has(loginHash(s)))
	neverOpen(servers, pods)
})

var _ = It("A reference to policies says what is wrong with it", func() {
	s := newEnv()
	operate(s)
	s.RunProxies()
	s.Apply(git, policies("company", "permit("))
	s.Apply(git, server("echo", "authzConfigRef: {name: company}"))
	live := notReady(s, "echo", v1alpha1.ReasonConfigInvalid)
	Expect(readyMessage(live)).To(
		And(ContainSubstring(`MCPAuthzConfig "company": policy "all", line 1, column`), ContainSubstring("Nothing runs")))
	stalled(live, v1alpha1.ReasonConfigInvalid)
	Expect(s.Exists(proxyOf(s, "echo"))).To(BeFalse())

	s.Apply(git, policies("company", permitAll))
	atRest(s, "echo")
	s.Apply(git, policies("company", "forbid("))
	live = notReady(s, "echo", v1alpha1.ReasonConfigInvalid)
	Expect(readyMessage(live)).To(ContainSubstring("The last accepted content keeps running"))
	s.Apply(git, policies("company", permitAll))
	Expect(ready(s, "echo").Status.Workload.Generation).To(BeEquivalentTo(1))

	s.Delete(policiesOf(s, "company"))
	s.Apply(git, server("late", "authzConfigRef: {name: company}"))
	notReady(s, "late", v1alpha1.ReasonConfigDeleting)
	ready(s, "echo")
	s.Apply(git, server("late", ""))
	s.Apply(git, server("echo", ""))
	s.AwaitGone(policiesOf(s, "company"))
	s.Apply(git, server("late", "authzConfigRef: {name: company}"))
	notReady(s, "late", v1alpha1.ReasonConfigNotFound)
})
