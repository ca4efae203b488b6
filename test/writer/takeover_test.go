package writer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

const (
	csa         = "kubectl-client-side-apply"
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
)

// origins are the ways in which an object comes into another hand than ours.
var origins = map[string]func(d *fixture, object *unstructured.Unstructured){
	"kubectl apply": func(d *fixture, object *unstructured.Unstructured) {
		text := d.text(object.Object)
		annotate(object, lastApplied, text)
		d.Must(d.Client.Create(d.Ctx, object, client.FieldOwner(csa)), "creating as kubectl apply does")
	},
	"another operator": func(d *fixture, object *unstructured.Unstructured) {
		d.Must(d.Client.Create(d.Ctx, object, client.FieldOwner("other-operator")), "creating")
		d.Patch(object, "other-dashboard", `{"metadata":{"labels":{"example.com/team":"red"}}}`)
	},
	"another applier": func(d *fixture, object *unstructured.Unstructured) {
		d.Apply("argocd-controller", d.text(object.Object))
	},
}

// inAnotherHand makes what a statement says, without an owner, and hands it over.
func (d *fixture) inAnotherHand(s statement, origin string, edit func(*unstructured.Unstructured)) client.Object {
	d.Helper()
	object := d.Intent(d.text(s.ac))
	object.SetOwnerReferences(nil)
	annotate(object, contract.AdoptAnnotation, "true")
	if edit != nil {
		edit(object)
	}
	origins[origin](d, object)
	return d.live(s)
}

func annotate(object *unstructured.Unstructured, key, value string) {
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	object.SetAnnotations(annotations)
}

// running is what would change if a pod was restarted.
func (d *fixture) running() map[string]string {
	d.Helper()
	d.settle("echo")
	found := map[string]string{}
	for _, list := range []client.ObjectList{
		&corev1.PodList{}, &appsv1.ReplicaSetList{},
		&appsv1.ControllerRevisionList{},
	} {
		d.Must(d.Client.List(d.Ctx, list, client.InNamespace(d.Namespace)), "listing")
		d.Must(meta.EachListItem(list, func(o runtime.Object) error {
			found[fmt.Sprintf("%T %s", o, o.(client.Object).GetName())] = string(o.(client.Object).GetUID())
			return nil
		}), "reading a list")
	}
	proxy, backend := read(d, &appsv1.Deployment{}, "echo-proxy"), read(d, &appsv1.StatefulSet{}, "echo-backend")
	found["generation of the proxy"], found["generation of the backend"] = fmt.Sprint(proxy.Generation),
		fmt.Sprint(backend.Generation)
	found["revision of the backend"] = backend.Status.UpdateRevision
	return found
}

// wrongly are the holdings of an object that the contract forbids.
func (d *fixture) wrongly(object client.Object) []string {
	d.Helper()
	holdings, err := d.contract.Judge(d.gvk(object).GroupKind(), object.GetName(), object.GetManagedFields())
	d.Must(err, "judging")
	var wrong []string
	for _, h := range holdings {
		if h.Verdict.Wrong() {
			wrong = append(wrong, fmt.Sprintf("%s of %s %s is %s", ownership.Notation(h.Field), h.Manager, h.Operation,
				h.Verdict))
		}
	}
	return wrong
}

// A whole server that stands in another hand becomes ours, and nothing of it restarts where it is what we state.
func TestWhatIsHandedOverIsTakenWithItsFields(t *testing.T) {
	t.Parallel()
	for origin := range origins {
		t.Run(origin, func(t *testing.T) {
			t.Parallel()
			d := freehold(t)
			server := d.server("echo", full)
			all := d.children(server, d.content(server, 1))
			for _, s := range all {
				d.inAnotherHand(s, origin, func(o *unstructured.Unstructured) {
					if o.GetKind() == "StatefulSet" {
						d.Must(unstructured.SetNestedField(o.Object, int64(2), "spec", "replicas"), "scaling")
					}
				})
			}
			before := d.running()
			_ = d.sent()
			for _, s := range all {
				live, births := d.live(s), 0
				if len(s.opts) == 0 {
					live, births = nil, 1 // a cache of what is ours does not show it
				}
				done := d.put(apply.Configured, s.manager, live, s.ac, s.opts...)
				if done.TakenOver == nil || len(done.TakenOver.From) == 0 {
					t.Errorf("%s took over %v", s, done.TakenOver)
				}
				d.tookOver(births)
			}
			scale := d.statements(server)[len(all)+2]
			d.put(apply.Configured, contract.MCPServerScale, d.live(scale), scale.ac)
			if diff := cmp.Diff(before, d.running()); diff != "" {
				t.Errorf("something restarted (-before +after):\n%s", diff)
			}
			d.applier = d.process()
			_ = d.sent()
			for _, s := range append(all, scale) {
				live := d.live(s)
				if wrong := d.wrongly(live); len(wrong) > 0 {
					t.Errorf("%s:\n%s", s, strings.Join(wrong, "\n"))
				}
				d.put(apply.Unchanged, s.manager, live, s.ac, s.opts...)
			}
			if sent := d.sent().Writes(); len(sent) > 0 {
				t.Errorf("what is ours was written again: %s", sent)
			}
			d.keptTheirs(origin)
			d.stopsStating()
		})
	}
}

// tookOver expects the three writes of a take-over: an apply that is not kept, managedFields, and the apply.
func (d *fixture) tookOver(births int) {
	d.Helper()
	var verbs []string
	for _, r := range d.sent().Writes() {
		if r.Code != 409 {
			verbs = append(verbs, r.Verb)
			continue
		}
		births--
	}
	if !slices.Equal(verbs, []string{"apply", "patch", "apply"}) || births != 0 {
		d.Errorf("the writes are %v, and %d births more or less than were to be", verbs, births)
	}
}

// keptTheirs expects that what we do not state is still whose it was.
func (d *fixture) keptTheirs(origin string) {
	d.Helper()
	service := read(d, &corev1.Service{}, "echo-proxy")
	switch origin {
	case "kubectl apply":
		d.Owns(service, csa, `metadata.annotations["`+lastApplied+`"]`)
		d.Owns(service, csa, `metadata.annotations["`+contract.AdoptAnnotation+`"]`)
	case "another operator":
		d.Owns(service, "other-dashboard", `metadata.labels["example.com/team"]`)
	case "another applier":
		d.Owns(service, "argocd-controller", `metadata.annotations["`+contract.AdoptAnnotation+`"]`)
	}
	if service.Annotations[contract.AdoptAnnotation] != "true" {
		d.Errorf("the annotation is gone")
	}
}

// stopsStating expects that what is not stated any more goes, though others had stated it once.
func (d *fixture) stopsStating() {
	d.Helper()
	d.settle("echo")
	server := d.server("echo", "")
	for _, s := range d.children(server, d.content(server, 2)) {
		_, err := d.applier.As(s.manager).Apply(d.Ctx, d.live(s), s.ac, s.opts...)
		d.Must(err, "stating less")
	}
	pod := read(d, &appsv1.StatefulSet{}, "echo-backend").Spec.Template.Spec
	if len(pod.Containers) != 1 || len(pod.Containers[0].Args)+len(pod.Containers[0].Env)+len(pod.Volumes) > 0 {
		d.Errorf("the backend still has %+v and %+v", pod.Containers, pod.Volumes)
	}
	if service := read(d, &corev1.Service{}, "echo-proxy"); service.Labels["example.com/expose"] != "" {
		d.Errorf("the Service still has %v", service.Labels)
	}
}

// Other content rolls out, once; what others added beside it stays.
func TestOtherContentThatIsHandedOverRollsOutOnce(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	server := d.server("echo", "")
	all := d.children(server, d.content(server, 1))
	other := func(object *unstructured.Unstructured) {
		containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
		d.Must(err, "reading containers")
		if len(containers) == 0 {
			return
		}
		ours := containers[0].(map[string]any)
		side := runtime.DeepCopyJSON(ours)
		side["name"] = "theirs"
		delete(side, "ports")
		ours["image"], ours["command"] = "registry.example.com/other:1", []any{"serve"}
		d.Must(unstructured.SetNestedSlice(object.Object, []any{ours, side}, "spec", "template", "spec", "containers"),
			"writing containers")
		unstructured.RemoveNestedField(object.Object, "spec", "template", "metadata", "annotations")
		object.SetAnnotations(map[string]string{contract.AdoptAnnotation: "true"})
	}
	for _, s := range all {
		d.inAnotherHand(s, "kubectl apply", other)
	}
	before := d.running()
	for _, s := range all {
		d.put(apply.Configured, s.manager, d.live(s), s.ac, s.opts...)
	}
	after := d.running()
	for _, who := range []string{"proxy", "backend"} {
		if was, is := before["generation of the "+who], after["generation of the "+who]; was != "1" || is != "2" {
			t.Errorf("the generation of the %s was %s and is %s", who, was, is)
		}
	}
	var sets appsv1.ReplicaSetList
	var revisions appsv1.ControllerRevisionList
	d.Must(d.Client.List(d.Ctx, &sets, client.InNamespace(d.Namespace)), "listing")
	d.Must(d.Client.List(d.Ctx, &revisions, client.InNamespace(d.Namespace)), "listing")
	if len(sets.Items) != 2 || len(revisions.Items) != 2 {
		t.Errorf("there are %d ReplicaSets and %d revisions", len(sets.Items), len(revisions.Items))
	}
	backend := read(d, &appsv1.StatefulSet{}, "echo-backend")
	containers := backend.Spec.Template.Spec.Containers
	ours := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == podtemplate.ServerContainer })
	if len(containers) != 2 || containers[ours].Image != server.Spec.Image || containers[ours].Command != nil {
		t.Errorf("the containers are %+v", containers)
	}
	d.Owns(backend, csa, "spec.template.spec.containers[name=theirs].image")
}

// unadoptable are objects in the place of a child that cannot become it.
var unadoptable = map[string]struct {
	of   client.Object
	name string
	edit func(d *fixture, object *unstructured.Unstructured)
	says string
}{
	"a Deployment of another selector": {
		&appsv1.Deployment{}, "echo-proxy",
		set("b", "spec", "selector", "matchLabels", "a"), "spec.selector: Invalid value",
	},
	"a StatefulSet of another Service": {
		&appsv1.StatefulSet{}, "echo-backend", set("other", "spec", "serviceName"),
		"updates to statefulset spec for fields other than",
	},
	"a headless Service with an IP": {
		&corev1.Service{}, "echo-backend-headless",
		func(_ *fixture, object *unstructured.Unstructured) {
			unstructured.RemoveNestedField(object.Object, "spec", "clusterIP")
		}, "may not change once set",
	},
	"a binding of another role": {
		&rbacv1.RoleBinding{}, "echo-runner", set("other", "roleRef", "name"),
		"cannot change roleRef",
	},
	"a run config of other content": {
		&corev1.ConfigMap{}, "", set("other", "data", runconfig.FileName),
		"field is immutable when `immutable` is set",
	},
	"another controller's": {&corev1.Service{}, "echo-proxy", func(d *fixture, object *unstructured.Unstructured) {
		owner := d.there("holder")
		object.Object["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "name": owner.Name, "uid": string(owner.UID), "controller": true,
		}}
	}, "ConfigMap holder controls it"},
}

// set sets a text in an object, and in the labels of its pods where it is one of its selector.
func set(value string, path ...string) func(*fixture, *unstructured.Unstructured) {
	return func(d *fixture, object *unstructured.Unstructured) {
		d.Must(unstructured.SetNestedField(object.Object, value, path...), "editing")
		if path[1] == "selector" {
			d.Must(unstructured.SetNestedField(object.Object, value, "spec", "template", "metadata", "labels", path[3]),
				"editing")
		}
	}
}

func TestWhatCannotBecomeOursStaysWhole(t *testing.T) {
	t.Parallel()
	for name, tc := range unadoptable {
		for _, origin := range []string{"kubectl apply", "another applier"} {
			t.Run(name+", by "+origin, func(t *testing.T) {
				t.Parallel()
				d := freehold(t)
				server := d.server("echo", "")
				all := d.children(server, d.content(server, 1))
				s := all[slices.IndexFunc(all, func(s statement) bool {
					return fmt.Sprintf("%T", s.empty) == fmt.Sprintf("%T", tc.of) &&
						(tc.name == "" || *s.ac.(named).GetName() == tc.name)
				})]
				foreign := d.inAnotherHand(s, origin, func(object *unstructured.Unstructured) { tc.edit(d, object) })
				_ = d.sent()
				for range 2 {
					// Not at the version: kube-controller-manager moves it meanwhile.
					err := d.refused(s.manager, foreign, s.ac)
					d.is(err, apply.ErrForeign)
					if found := cause[*apply.Unadoptable](d, err); !strings.Contains(found.Error(), tc.says) {
						t.Errorf("it says %q, want %q", found, tc.says)
					}
				}
				d.unmoved(foreign)
				if patches := d.sent().Where(func(r kit.Request) bool {
					return r.Verb == "patch" || r.Code == 200 && r.Verb != "get"
				}); len(patches) > 0 {
					t.Errorf("it was written: %s", patches)
				}
			})
		}
	}
}

// What is not handed over by just this word is not handed over.
func TestOnlyTrueHandsOver(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	server := d.server("echo", "")
	for i, s := range d.children(server, d.content(server, 1)) {
		foreign := d.inAnotherHand(s, "kubectl apply", func(o *unstructured.Unstructured) {
			annotate(o, contract.AdoptAnnotation, []string{"false", "", "True", "yes"}[i%4])
		})
		d.is(d.refused(s.manager, foreign, s.ac, s.opts...), apply.ErrForeign)
		d.unmoved(foreign)
	}
}

// Who restates what it has of an object cannot state what a reset left to nobody, and so leaves that there: else a
// server whose spec cannot be rendered would lose what its proxy runs with.
func TestWhatIsRestatedTakesNothingOver(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	server := d.server("echo", "")
	proxy := d.children(server, d.content(server, 1))[5]
	d.put(apply.Created, proxy.manager, nil, proxy.ac)
	d.Patch(d.live(proxy), "kubectl-edit",
		`{"spec":{"template":{"spec":{"hostname":"older"}}},"metadata":{"managedFields":[{}]}}`)
	// The Deployment controller moves it meanwhile.
	unlessMoved := func(write func() (apply.Outcome, error)) apply.Outcome {
		for {
			done, err := write()
			if !errors.Is(err, apply.ErrStale) {
				d.Must(err, "writing")
				return done
			}
		}
	}
	writer := d.applier.As(proxy.manager)
	unlessMoved(func() (apply.Outcome, error) { return writer.Apply(d.Ctx, d.live(proxy), proxy.ac) })
	done := unlessMoved(func() (apply.Outcome, error) {
		live := read(d, &appsv1.Deployment{}, "echo-proxy")
		stopped, err := workload.ScaledProxy(live, workload.OwnerOf(server), string(proxy.manager), 0)
		d.Must(err, "scaling")
		return writer.Apply(d.Ctx, live, stopped, apply.KeepOwned)
	})
	if done.TakenOver != nil {
		t.Errorf("it took over %s", done.TakenOver)
	}
	live := read(d, &appsv1.Deployment{}, "echo-proxy")
	if *live.Spec.Replicas != 0 || live.Spec.Template.Spec.Hostname != "older" {
		t.Errorf("it has %d replicas, and hostname %q", *live.Spec.Replicas, live.Spec.Template.Spec.Hostname)
	}
}

// Between the two writes of a take-over somebody moves the object, or we die.
func TestATakeOverThatIsInterrupted(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	server := d.server("echo", "")
	account := d.children(server, d.content(server, 1))[0]
	foreign := d.inAnotherHand(account, "kubectl apply", nil)

	stale := foreign.DeepCopyObject().(client.Object)
	d.Patch(foreign.DeepCopyObject().(client.Object), "kubectl-label",
		`{"metadata":{"labels":{"example.com/team":"red"}}}`)
	moved := d.live(account)
	d.is(d.refused(account.manager, stale, account.ac), apply.ErrStale)
	d.unmoved(moved)

	killed := errors.New("killed")
	dying := interceptor.NewClient(plane.Client, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, ac runtime.ApplyConfiguration,
			opts ...client.ApplyOption,
		) error {
			options := (&client.ApplyOptions{}).ApplyOptions(opts)
			if len(options.DryRun) == 0 {
				return killed
			}
			return c.Apply(ctx, ac, opts...)
		},
	})
	d.applier = apply.New(dying, plane.Client, controllers.NewConverter(plane.Scheme), d.contract)
	d.is(d.refused(account.manager, moved, account.ac), killed)

	deleting := interceptor.NewClient(plane.Client, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
			opts ...client.PatchOption,
		) error {
			err := c.Patch(ctx, object, patch, opts...)
			return errors.Join(err, c.Delete(ctx, object))
		},
	})
	role := d.children(server, d.content(server, 1))[1]
	other := d.inAnotherHand(role, "kubectl apply", nil)
	d.applier = apply.New(deleting, plane.Client, controllers.NewConverter(plane.Scheme), d.contract)
	d.is(d.refused(role.manager, other, role.ac), apply.ErrGone)
	if d.live(role) != nil {
		t.Error("what was deleted meanwhile came back")
	}

	d.applier = d.process()
	d.put(apply.Configured, account.manager, d.live(account), account.ac)
	live := d.live(account)
	if wrong := d.wrongly(live); len(wrong) > 0 || live.GetLabels()["example.com/team"] != "red" {
		t.Errorf("%v, and the labels %v", wrong, live.GetLabels())
	}
	d.put(apply.Unchanged, account.manager, live, account.ac)
}
