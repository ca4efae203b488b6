package integration

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

// A GitOps tool that renders fields of ours, or kubectl in a loop.
const (
	theirProxy   = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: echo-proxy}\nspec: {revisionHistoryLimit: 7}\n"
	theirBackend = "apiVersion: v1\nkind: Service\nmetadata: {name: echo-backend, labels: {app.kubernetes.io/name: " +
		"them}}\n"
)

// counted is a metric of the operator, by the values of its labels in the order of
// their names; 0 where it has no such series.
func counted(name string, labels ...string) float64 {
	GinkgoHelper()
	families, err := metrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var values []string
			for _, label := range metric.GetLabel() {
				values = append(values, label.GetValue())
			}
			if family.GetName() == name && slices.Equal(values, labels) {
				return metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			}
		}
	}
	return 0
}

func repairs(kind string) float64 { return counted("freehold_field_repairs_total", kind) }

var _ = It("A tool that forces our fields over and over costs a few writes and is named, and the server serves and "+
	"changes all the while", func() {
	const rounds = 30
	s := newEnv()
	op := operate(s)
	runners := s.RunProxies()
	claims, contended := counted("freehold_workload_claims_total", "MCPServer"),
		counted("freehold_contended_fields", "MCPServer")
	s.Apply(git, server("echo", ""))
	live := atRest(s, "echo")
	Expect(counted("freehold_workload_claims_total", "MCPServer") - claims).To(Equal(1.0))
	operators, theirs, begin := op.requests.Mark(), runners.Requests.Mark(), time.Now()
	repaired := repairs("Deployment")
	force := func() {
		for range rounds {
			s.Force(intruder, theirProxy)
			s.Force(intruder, theirBackend)
			time.Sleep(100 * time.Millisecond)
		}
	}
	force()
	s.Await(live, "who forces is named", func() error {
		c := meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionFieldConflict)
		b := meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionBackendApplied)
		if c == nil || b == nil || b.Reason != v1alpha1.ReasonFieldConflict {
			return fmt.Errorf("it says %v and %v", c, b)
		}
		if err := errors.Join(contains(c.Message,
			fmt.Sprintf("field manager %q overwrites .spec.revisionHistoryLimit of Deployment echo-proxy", intruder)),
			contains(c.Message, "Service echo-backend")); err != nil {
			return err // one of the two conflicts comes first
		}
		Expect(b.Message).To(ContainSubstring(
			fmt.Sprintf("field manager %q overwrites .metadata.labels.app.kubernetes.io/name of Service echo-backend",
				intruder)))
		Expect(b.Status).To(Equal(metav1.ConditionTrue))
		return nil
	})
	Expect(counted("freehold_field_conflicts_total", "Deployment")).To(BeNumerically(">", 0))
	Expect(counted("freehold_contended_fields", "MCPServer") - contended).To(Equal(1.0))
	Expect(counted("freehold_object_conditions", "FieldConflict", "MCPServer", "FieldConflict", "True")).
		To(BeNumerically(">", 0))
	Expect(counted("freehold_objects", "MCPServer")).To(BeNumerically(">", 0))
	announced(s, live, corev1.EventTypeWarning, "FieldsRepaired")
	announced(s, live, corev1.EventTypeWarning, "FieldConflict")
	force()
	most := 3 + int(time.Since(begin)/time.Minute) // a slow machine sees one more each minute
	for who, log := range map[string]kit.Log{
		"the operator": op.requests.Since(operators),
		"the runner":   runners.Requests.Since(theirs),
	} {
		// Beside those that the gate refused because a controller wrote meanwhile.
		writes := log.In(s.Namespace).Writes().Of("deployments", "services").Answered(http.StatusOK)
		Expect(len(writes)).To(BeNumerically("<=", most), "%s wrote %s", who, writes)
		told := log.In(s.Namespace).Writes().Of("mcpservers/status")
		// Of a conflict that begins, and of its end with each repair; the operator also tells of the runner's.
		Expect(len(told)).To(BeNumerically("<=", 2*(most-1)), "%s told %s", who, told)
	}
	// All that the operator wrote there was to take a field back.
	Eventually(func() error {
		taken := len(op.requests.Since(operators).In(s.Namespace).Writes().Of("deployments").Answered(http.StatusOK))
		if grown := repairs("Deployment") - repaired; taken == 0 || grown != float64(taken) {
			return fmt.Errorf("%v are counted of %d writes", grown, taken)
		}
		return nil
	}).Should(Succeed())
	ready(s, "echo")

	s.Apply(git, server("echo", "args: [b]"))
	rolledOut(s, "echo", 2)
	ready(s, "echo")
})
