package faults

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// ofEcho selects what belongs to the server.
var ofEcho = client.MatchingLabels{workload.LabelServer: "echo"}

// seesSpec says what of the conditions is of an earlier spec.
func seesSpec(live *v1alpha1.MCPServer) error {
	for _, name := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionSuspended} {
		c := meta.FindStatusCondition(live.Status.Conditions, name)
		if c != nil && c.ObservedGeneration == live.Generation {
			return nil
		}
	}
	return fmt.Errorf("the conditions are %+v", live.Status.Conditions)
}

// settled waits until what is asked for has the calls, and nothing else of the server stands.
func (r *rolling) settled() {
	GinkgoHelper()
	live := r.server()
	r.s.Await(live, "what is asked for serves", func() error {
		ready, s := meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionReady), live.Status
		switch {
		case ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != live.Generation:
			return fmt.Errorf("Ready is %+v, the rollout %+v, the last %+v", ready, s.Rollout, s.LastRollout)
		case s.Rollout != nil || s.Active == nil:
			return fmt.Errorf("active is %+v, the rollout %+v", s.Active, s.Rollout)
		case s.ReadyReplicas == nil || *s.ReadyReplicas != r.replicas || *s.Replicas != r.replicas:
			return fmt.Errorf("%v replicas are ready", s.ReadyReplicas)
		}
		return nil
	})
	r.leaves(live.Status.Active, r.image(r.content), r.replicas)
}

// stopped waits until nothing runs, and nothing of other content than serves is left.
func (r *rolling) stopped() {
	GinkgoHelper()
	live := r.server()
	r.s.Await(live, "it is suspended", func() error {
		c := meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionSuspended)
		if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != live.Generation ||
			live.Status.Rollout != nil {
			return fmt.Errorf("Suspended is %+v, the rollout %+v", c, live.Status.Rollout)
		}
		return nil
	})
	r.leaves(live.Status.Active, "", 0)
}

// leaves waits until of the backend there is just what serves, of any image where none is said.
func (r *rolling) leaves(active *v1alpha1.ActiveBackend, image string, replicas int32) {
	GinkgoHelper()
	slot := workload.Slot(active.Slot)
	sets, services := &appsv1.StatefulSetList{}, &corev1.ServiceList{}
	r.s.AwaitAll(sets, "one StatefulSet has what serves", func() error {
		if len(sets.Items) != 1 || sets.Items[0].Name != slot.Name("echo") {
			return fmt.Errorf("there are %v, and slot %d serves", names(sets), slot)
		}
		template := sets.Items[0].Spec.Template
		if hash := template.Annotations[workload.AnnotationBackendHash]; hash != active.Hash {
			return fmt.Errorf("it has content %s, and %s serves", hash, active.Hash)
		}
		if runs := template.Spec.Containers[0].Image; image != "" && image != runs {
			return fmt.Errorf("it runs %s", runs)
		}
		return nil
	}, ofEcho)
	wanted := []string{slot.Name("echo"), slot.HeadlessName("echo"), workload.ProxyName("echo")}
	r.s.AwaitAll(services, "three Services", func() error {
		for i := range services.Items {
			if !slices.Contains(wanted, services.Items[i].Name) {
				return fmt.Errorf("there are %v", names(services))
			}
		}
		return isMany(services, 3)
	}, ofEcho)
	pods := &corev1.PodList{}
	r.s.AwaitAll(pods, "no other pods", func() error {
		running := 0
		for i := range pods.Items {
			if component := pods.Items[i].Labels[workload.LabelComponent]; component == slot.Component() {
				running++
			} else if component != workload.ComponentProxy {
				return fmt.Errorf("there are %v", names(pods))
			}
		}
		if running != int(replicas) {
			return fmt.Errorf("there are %v", names(pods))
		}
		return nil
	}, ofEcho)
	r.keeps(active)
}

// keeps waits until the history has what serves, and no more contents than it may.
func (r *rolling) keeps(active *v1alpha1.ActiveBackend) {
	GinkgoHelper()
	contents := &appsv1.ControllerRevisionList{}
	r.s.AwaitAll(contents, "the history has what serves", func() error {
		kept := map[string]bool{}
		for i := range contents.Items {
			if owner := metav1.GetControllerOfNoCopy(&contents.Items[i]); owner != nil && owner.Kind == "MCPServer" {
				kept[contents.Items[i].Name] = true
			}
		}
		if !kept[workload.ContentName("echo", active.Hash)] || len(kept) > 3 {
			return fmt.Errorf("it is %v, and %s serves", kept, active.Hash)
		}
		return nil
	})
}

// gone waits until nothing of the server is left.
func (r *rolling) gone() {
	GinkgoHelper()
	r.s.AwaitGone(r.server())
	for _, list := range []client.ObjectList{
		&appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{},
		&corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &corev1.PodList{},
		&appsv1.ControllerRevisionList{}, &networkingv1.NetworkPolicyList{},
	} {
		r.s.AwaitAll(list, fmt.Sprintf("%T is empty", list), func() error { return isMany(list, 0) }, ofEcho)
	}
}

// orphaned waits until the server is gone. What serves stays without an owner, as was asked for.
func (r *rolling) orphaned() {
	GinkgoHelper()
	r.s.AwaitGone(r.server())
}

func isMany(list client.ObjectList, want int) error {
	if n := meta.LenList(list); n != want {
		return fmt.Errorf("there are %v", names(list))
	}
	return nil
}

func names(list client.ObjectList) (all []string) {
	_ = meta.EachListItem(list, func(o runtime.Object) error { // it returns what this returns
		if object, is := o.(client.Object); is {
			all = append(all, object.GetName())
		}
		return nil
	})
	return all
}

// recorder has every state of a server, its backends and their pods.
type recorder struct {
	s    *kit.Env
	kept []*kit.Recording

	// What is so at a state: the server, the slots that its status named so far, whether other content has the calls,
	// and what was seen first of the incumbent.
	server   *v1alpha1.MCPServer
	named    map[workload.Slot]bool
	switched bool
	// begun says that the pods that there were at first are known.
	begun     bool
	incumbent *appsv1.StatefulSet
	known     map[types.UID]bool
	ready     map[workload.Slot]map[types.UID]bool
}

func newRecorder() *recorder {
	return &recorder{
		named: map[workload.Slot]bool{}, known: map[types.UID]bool{},
		ready: map[workload.Slot]map[types.UID]bool{workload.Slot1: {}, workload.Slot2: {}},
	}
}

func (r *rolling) record() *recorder {
	GinkgoHelper()
	c := newRecorder()
	c.s = r.s
	// The server is listed first: nothing that is made later is listed before what names its slot.
	for _, kind := range []client.Object{
		&v1alpha1.MCPServer{}, &appsv1.StatefulSet{}, &corev1.Service{}, &corev1.Pod{},
	} {
		c.kept = append(c.kept, r.s.RecordAll(kind))
	}
	return c
}

// check judges all states in the order in which they were stored.
func (c *recorder) check() error {
	var states []kit.State
	for _, kept := range c.kept {
		states = append(states, kept.States()...)
	}
	slices.SortStableFunc(states, func(a, b kit.State) int {
		one, two := a.Object.GetResourceVersion(), b.Object.GetResourceVersion()
		order, err := resourceversion.CompareResourceVersion(one, two)
		c.s.Must(err, "comparing versions")
		return order
	})
	return c.judgeAll(states)
}

func (c *recorder) judgeAll(states []kit.State) error {
	for _, state := range states {
		err := c.judge(state)
		if err == nil && c.server != nil {
			err = c.serves()
		}
		if err != nil {
			return fmt.Errorf("after %s %s at version %s: %w", state.Object.GetKind(), state.Object.GetName(),
				state.Object.GetResourceVersion(), err)
		}
	}
	return nil
}

// isProtected reports whether what serves may not be replaced.
func (c *recorder) isProtected() bool {
	return c.server.DeletionTimestamp == nil && c.server.Spec.Rollout.Strategy == v1alpha1.StrategySuccessive
}

// serves judges that the content which has the calls has pods that answer them.
func (c *recorder) serves() error {
	slot := workload.Slot(c.server.Status.Active.Slot)
	n := len(c.ready[slot])
	if c.server.Spec.Suspend { // and when it runs again its pods start
		c.begun = false
		return nil
	}
	if c.begun = c.begun || n >= incumbents; c.begun && c.isProtected() && n < incumbents {
		return fmt.Errorf("%d pods are ready in slot %d, which serves", n, slot)
	}
	return nil
}

func (c *recorder) judge(state kit.State) error {
	var into client.Object
	switch state.Object.GetKind() {
	case "MCPServer":
		live := &v1alpha1.MCPServer{}
		into = live
		defer func() { c.sees(live) }()
	case "Pod":
		into = &corev1.Pod{}
	case "StatefulSet":
		into = &appsv1.StatefulSet{}
	default:
		into = &corev1.Service{}
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(state.Object.Object, into); err != nil {
		return fmt.Errorf("reading it: %w", err)
	}
	slot, is := slotOf(into)
	if !is {
		return nil
	}
	if pod, is := into.(*corev1.Pod); is {
		c.seesPod(slot, pod, state.Deleted)
		return nil
	}
	if !c.known[into.GetUID()] && c.server != nil && !c.named[slot] {
		return fmt.Errorf("it was made before a status named slot %d", slot)
	}
	c.known[into.GetUID()] = true
	if set, is := into.(*appsv1.StatefulSet); is {
		return c.keeps(slot, set, state.Deleted)
	}
	return nil
}

// keeps judges that the incumbent stays as it is until the switch.
func (c *recorder) keeps(slot workload.Slot, set *appsv1.StatefulSet, deleted bool) error {
	switch {
	case c.switched || slot != workload.Slot1:
	case c.incumbent == nil:
		c.incumbent = set
	case c.server == nil || !c.isProtected():
	case deleted, set.UID != c.incumbent.UID, set.DeletionTimestamp != nil:
		return errors.New("the incumbent is deleted before the switch")
	case !reflect.DeepEqual(set.Spec.Template, c.incumbent.Spec.Template):
		return errors.New("the incumbent has another template before the switch")
	case !reflect.DeepEqual(set.Labels, c.incumbent.Labels):
		return errors.New("the incumbent has other labels before the switch")
	}
	return nil
}

func (c *recorder) sees(live *v1alpha1.MCPServer) {
	c.server = live
	if active := live.Status.Active; active != nil {
		c.named[workload.Slot(active.Slot)] = true
		c.switched = c.switched || active.Slot != int32(workload.Slot1)
	}
	if rollout := live.Status.Rollout; rollout != nil {
		c.named[workload.Slot(rollout.Target.Slot)] = true
	}
}

func (c *recorder) seesPod(slot workload.Slot, pod *corev1.Pod, deleted bool) {
	ready := slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
	})
	if delete(c.ready[slot], pod.UID); ready && !deleted && pod.DeletionTimestamp == nil {
		c.ready[slot][pod.UID] = true
	}
}

// slotOf is the slot that an object is of.
func slotOf(object client.Object) (workload.Slot, bool) {
	component := object.GetLabels()[workload.LabelComponent]
	for _, slot := range workload.Slots {
		if component == slot.Component() {
			return slot, true
		}
	}
	return 0, false
}

// What is wrong in some state of a rollout.
var _ = DescribeTable("The recorder of rollouts finds", func(want string, states ...kit.State) {
	before := []kit.State{set(1, "one"), serving(1, 0), ready(1, "a"), ready(1, "b")}
	err := newRecorder().judgeAll(append(before, states...))
	if want == "" {
		Expect(err).NotTo(HaveOccurred())
		return
	}
	Expect(err).To(MatchError(ContainSubstring(want)))
},
	Entry("nothing in a rollout that is as it should be", "", serving(1, 2), set(2, "two"), ready(2, "c"), ready(2, "d"),
		serving(2, 2), set(1, "one"), without(ready(1, "a")), without(set(1, "one"))),
	Entry("a candidate before its plan", "before a status named slot 2", set(2, "two"), serving(1, 2)),
	Entry("an incumbent that is edited", "another template", serving(1, 2), set(1, "two")),
	Entry("an incumbent that is edited while it is suspended", "another template", suspended(), set(1, "two")),
	Entry("an incumbent that is deleted", "is deleted", serving(1, 2), without(set(1, "one"))),
	Entry("a pod of the incumbent that goes", "1 pods are ready in slot 1", serving(1, 2), without(ready(1, "a"))),
	Entry("a switch to what is not ready", "0 pods are ready in slot 2", serving(1, 2), set(2, "two"), serving(2, 2)),
)

// serving is a server whose calls go to a slot, while a rollout is to another, 0 for none.
func serving(active, target int64) kit.State {
	status := map[string]any{"active": map[string]any{"slot": active}}
	if target != 0 {
		status["rollout"] = map[string]any{"target": map[string]any{"slot": target}}
	}
	return recorded("MCPServer", "echo", workload.Slot1, map[string]any{
		"spec": map[string]any{"rollout": map[string]any{"strategy": "Successive"}}, "status": status,
	})
}

func suspended() kit.State {
	state := serving(1, 0)
	state.Object.Object["spec"].(map[string]any)["suspend"] = true
	return state
}

// set is the StatefulSet of a slot, with content.
func set(slot workload.Slot, content string) kit.State {
	container := map[string]any{"name": "mcp", "image": content}
	return recorded("StatefulSet", slot.Name("echo"), slot, map[string]any{"spec": map[string]any{
		"template": map[string]any{"spec": map[string]any{"containers": []any{container}}},
	}})
}

func ready(slot workload.Slot, name string) kit.State {
	condition := map[string]any{"type": "Ready", "status": "True"}
	return recorded("Pod", name, slot, map[string]any{"status": map[string]any{"conditions": []any{condition}}})
}

// without is the state of a deletion.
func without(state kit.State) kit.State {
	state.Deleted = true
	return state
}

func recorded(kind, name string, slot workload.Slot, content map[string]any) kit.State {
	object := &unstructured.Unstructured{Object: content}
	object.SetKind(kind)
	object.SetName(name)
	object.SetUID(types.UID(kind + name))
	object.SetLabels(map[string]string{workload.LabelComponent: slot.Component()})
	return kit.State{Object: object}
}
