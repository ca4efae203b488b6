package faults

import (
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// sharedKills is the share of the kills that a shared configuration meets.
const sharedKills = 3

// shared is a configuration, the servers that refer to it, and those that do not.
type shared struct {
	s                *kit.Env
	name             string
	members, outside []string
	// contents is how many each server has had.
	contents map[string]int64
	// backends are the uids of the pods that no change of it replaces.
	backends map[string]types.UID
}

// A change of a shared configuration replaces the proxies of those that refer to it, each once, whenever the operator
// is killed meanwhile: what is under way is read from the servers and not remembered. So it is with a change of
// release, which is a content of every proxy.
var _ = It("A shared configuration, and a release, reach each server once, though the operator is killed on the way",
	func() {
		atLength()
		s := newEnv()
		op := operate(s, func(o *operator) { o.options.ConfigRolloutShare = 50 })
		s.RunProxies()
		c := &shared{
			s: s, name: "company", members: []string{"one", "three", "two"}, outside: []string{"none", "other"},
			contents: map[string]int64{},
		}
		c.begin()
		op.stop()
		k := &killer{reach: operatorReach, random: chance("shared", 0)}
		op.wire = k.doom
		op.start()

		changes := 0
		for most := max(1, kills/sharedKills); len(k.deaths()) < most; changes++ {
			c.says(fmt.Sprint("t", changes))
			c.takes(c.members...)
			c.arrived()
		}
		// Its namesake is another object, with the same content or with its own.
		c.made(fmt.Sprint("t", changes-1))
		c.arrived()
		c.made("other")
		c.takes(c.members...)
		c.arrived()

		for _, release := range []string{otherRunnerImage, runnerImage} {
			op.stop()
			op.options.Workload.RunnerImage = release
			op.start()
			c.takes(slices.Concat(c.members, c.outside)...)
			c.arrived()
		}
		points := map[string]int{}
		for _, point := range k.deaths() {
			points[point]++
		}
		GinkgoWriter.Printf("FREEHOLD_SEED=%d: the operator was killed at %d points of %d rollouts:\n%s", seed, len(points),
			changes+3, table(points))

		last := c.server("one")
		s.Read(last)
		s.Delete(last)
		s.AwaitGone(last)
		Expect(seen.saw(s.Namespace, last.UID)).To(BeEmpty(), "on the way")
	})

// begin makes all of it, with its first content.
func (c *shared) begin() {
	GinkgoHelper()
	c.says("first")
	(&shared{s: c.s, name: "another"}).says("first")
	for _, member := range c.members {
		c.s.Apply(git, kit.Server(member, imageOne, "authzConfigRef: {name: company}"))
	}
	c.s.Apply(git, kit.Server("other", imageOne, "authzConfigRef: {name: another}"))
	c.s.Apply(git, kit.Server("none", imageOne, ""))
	c.takes(slices.Concat(c.members, c.outside)...)
	c.arrived()
	c.backends = c.pods(workload.ComponentBackend)
	Expect(c.backends).To(HaveLen(len(c.contents)))
}

// takes notes who has to have another content.
func (c *shared) takes(names ...string) {
	for _, name := range names {
		c.contents[name]++
	}
}

func (c *shared) server(name string) *v1alpha1.MCPServer {
	return &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Namespace: c.s.Namespace, Name: name}}
}

// says applies the configuration with a policy about one tool.
func (c *shared) says(tool string) {
	GinkgoHelper()
	c.insist("writing the configuration", func() error {
		_, err := c.s.ApplyErr(git, fmt.Sprintf(
			"apiVersion: freehold.dev/v1alpha1\nkind: MCPAuthzConfig\nmetadata: {name: %s}\n"+
				"spec: {policies: [{name: all, policy: 'permit(principal, action, resource == Tool::%q);'}]}\n", c.name, tool))
		return err
	})
}

// made has somebody delete the configuration in spite of who refers to it, and make it again.
func (c *shared) made(tool string) {
	GinkgoHelper()
	config := c.config()
	c.s.Read(config)
	before := config.UID
	c.s.Delete(config)
	c.insist("taking away the finalizer", func() error {
		return client.IgnoreNotFound(c.s.Client.Patch(c.s.Ctx, c.config(),
			client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	})
	// It may be held again before it is gone.
	c.insist("making it again", func() error {
		c.says(tool)
		err := c.s.Client.Get(c.s.Ctx, client.ObjectKeyFromObject(config), config)
		if err == nil && (config.UID == before || config.DeletionTimestamp != nil) {
			err = fmt.Errorf("%s is still there", config.UID)
		}
		return err
	})
}

func (c *shared) config() *v1alpha1.MCPAuthzConfig {
	return &v1alpha1.MCPAuthzConfig{ObjectMeta: metav1.ObjectMeta{Namespace: c.s.Namespace, Name: c.name}}
}

// arrived waits until every server has its content and the configuration says so,
// and holds that none has had more, and that backends stay.
func (c *shared) arrived() {
	GinkgoHelper()
	config, kind := c.config(), contract.ConfigOf("MCPAuthzConfig")
	c.s.Await(config, "the configuration has arrived", func() error {
		rolled := meta.FindStatusCondition(config.Status.Conditions, v1alpha1.ConditionRolledOut)
		var names []string
		for _, w := range config.Status.ReferencingWorkloads {
			names = append(names, w.Name)
		}
		n := config.Status.Workloads
		if rolled == nil || rolled.Status != metav1.ConditionTrue || rolled.ObservedGeneration != config.Generation ||
			config.Status.Hash == "" ||
			n == nil || int(*n) != len(c.members) || !slices.Equal(names, c.members) ||
			!slices.Contains(config.Finalizers, kind.Finalizer) {
			return fmt.Errorf("of spec %d, with finalizers %q, it says %+v", config.Generation, config.Finalizers, config.Status)
		}
		return nil
	})
	for _, name := range c.members {
		c.runs(name, v1alpha1.WorkloadConfig{Kind: kind.Object.Kind, Name: c.name, Hash: config.Status.Hash})
	}
	for _, name := range c.outside {
		c.runs(name)
	}
	if c.backends != nil {
		Expect(c.pods(workload.ComponentBackend)).To(Equal(c.backends), "a backend pod was replaced")
	}
}

// runs waits until a server is ready with its content. Of one that has had more than it should the numbers do not come
// back, and it fails: kube-controller-manager counts the templates of its proxy.
func (c *shared) runs(name string, with ...v1alpha1.WorkloadConfig) {
	GinkgoHelper()
	server, n := c.server(name), c.contents[name]
	c.s.Await(server, fmt.Sprintf("%s is ready with its content %d", name, n), func() error {
		ready := meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionReady)
		w := server.Status.Workload
		if ready == nil || ready.Status != metav1.ConditionTrue || w == nil || w.Generation != n ||
			len(with) > 0 && !slices.EqualFunc(w.Configs, with, alike) {
			return fmt.Errorf("it says %+v of %+v, and should run with %v", ready, w, with)
		}
		return nil
	})
	proxy := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: c.s.Namespace, Name: workload.ProxyName(name)}}
	c.s.Await(proxy, fmt.Sprintf("the proxy of %s has had %d templates", name, n), func() error {
		if count := proxy.Annotations["deployment.kubernetes.io/revision"]; count != fmt.Sprint(n) {
			return fmt.Errorf("it has had %s", count)
		}
		return nil
	})
}

// alike says whether it is the same content of the same configuration, however it was taken.
func alike(a, b v1alpha1.WorkloadConfig) bool {
	return a.Kind == b.Kind && a.Name == b.Name && a.Hash == b.Hash
}

// pods are the uids of the pods of a component, by the server.
func (c *shared) pods(component string) map[string]types.UID {
	GinkgoHelper()
	var list corev1.PodList
	Expect(c.s.Client.List(c.s.Ctx, &list, client.InNamespace(c.s.Namespace),
		client.MatchingLabels{workload.LabelComponent: component})).To(Succeed())
	uids := map[string]types.UID{}
	for i := range list.Items {
		uids[list.Items[i].Labels[workload.LabelServer]] = list.Items[i].UID
	}
	return uids
}

// insist does until it is done: a conflict with the operator is tried again.
func (c *shared) insist(doing string, do func() error) {
	GinkgoHelper()
	Eventually(do).Should(Succeed(), doing)
}
