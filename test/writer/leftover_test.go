package writer

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
)

// workloads are the intents about a server that have a pod template.
func (d *fixture) workloads(more string, generation int64) []statement {
	d.Helper()
	server := d.server("echo", more)
	var all []statement
	for _, s := range d.children(server, d.content(server, generation)) {
		if podsOf(s.empty) != nil {
			all = append(all, s)
		}
	}
	return all
}

func podsOf(object client.Object) *corev1.PodTemplateSpec {
	switch o := object.(type) {
	case *appsv1.Deployment:
		return &o.Spec.Template
	case *appsv1.StatefulSet:
		return &o.Spec.Template
	}
	return nil
}

// asBefore writes an intent as releases did that stated none of what the API server fills in.
func (d *fixture) asBefore(s statement) client.Object {
	d.Helper()
	object := d.Intent(d.text(s.ac))
	pod, _, err := unstructured.NestedMap(object.Object, "spec", "template", "spec")
	d.Must(err, "reading the pod")
	delete(pod, "serviceAccount")
	volumes, _ := pod["volumes"].([]any)
	for _, v := range volumes {
		if empty, is := v.(map[string]any)["emptyDir"].(map[string]any); is && len(empty) == 0 {
			delete(v.(map[string]any), "emptyDir")
		}
	}
	for _, list := range []string{"containers", "initContainers"} {
		containers, _ := pod[list].([]any)
		for _, c := range containers {
			delete(c.(map[string]any), "imagePullPolicy")
		}
	}
	d.Must(unstructured.SetNestedMap(object.Object, pod, "spec", "template", "spec"), "writing the pod")
	d.Force(string(s.manager), d.text(object.Object))
	return d.live(s)
}

const before = `
serviceAccountName: cloud
env: [{name: DEBUG, value: "1"}, {name: KEEP, value: "1"}]
volumes: [{name: cache, emptyDir: {}}]
volumeMounts: [{name: cache, mountPath: /cache}]
podTemplate: {spec: {volumes: [{name: more, emptyDir: {}}], containers: [{name: sidecar, image: "registry.example.com/sidecar"}]}}
proxy: {podTemplate: {spec: {volumes: [{name: scratch, emptyDir: {}}]}}}
`

const after = `
port: 8081
env: [{name: KEEP, value: "1"}]
volumes: [{name: cache, configMap: {name: settings}}]
volumeMounts: [{name: cache, mountPath: /cache}]
podTemplate: {spec: {volumes: [{name: more, secret: {secretName: settings}}]}}
proxy: {podTemplate: {spec: {volumes: [{name: scratch, configMap: {name: settings}}]}}}
`

// An upgrade changes no pod template: what it states is what the API server had filled in.
func TestWhatAnEarlierReleaseWroteStaysAsItIs(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	for _, s := range d.workloads(before, 1) {
		was := d.asBefore(s)
		d.firmly(apply.Configured, s)
		now := d.live(s)
		if was.GetGeneration() != now.GetGeneration() || !cmp.Equal(podsOf(was), podsOf(now)) {
			t.Errorf("%s: the pods are replaced (-was +now):\n%s", s, cmp.Diff(podsOf(was), podsOf(now)))
		}
		d.firmly(apply.Unchanged, s)
	}
}

// What the API server filled in for an earlier release goes with what it was filled in for.
func TestWhatAnEarlierReleaseLeftBehindGoes(t *testing.T) {
	t.Parallel()
	for name, leaves := range map[string]func(*fixture){
		"what was stated, and goes with the upgrade": func(*fixture) {},
		"an account that was dropped and stayed": func(d *fixture) {
			for _, s := range d.workloads("volumes: [{name: cache, emptyDir: {}}]", 2) {
				stays := podsOf(d.asBefore(s)).Spec.ServiceAccountName
				if _, backend := s.empty.(*appsv1.StatefulSet); backend && stays != "cloud" {
					d.Fatalf("the account is %q: nothing is left behind", stays)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := freehold(t)
			for _, s := range d.workloads(before, 1) {
				d.asBefore(s)
			}
			leaves(d)
			d.becomes(d.workloads(after, 3))
		})
	}
}

// becomes expects that objects come to be as they would have been born.
func (d *fixture) becomes(all []statement) {
	d.Helper()
	for _, s := range all {
		d.firmly(apply.Configured, s)
		now := d.live(s)
		d.applier = d.process()
		d.firmly(apply.Unchanged, s)
		d.Must(d.Client.Delete(d.Ctx, now), "deleting")
		d.AwaitGone(now)
		d.applier = d.process()
		d.put(apply.Created, s.manager, nil, s.ac, s.opts...)
		if diff := cmp.Diff(podsOf(d.live(s)), podsOf(now)); diff != "" {
			d.Errorf("%s (-born +became):\n%s", s, diff)
		}
	}
}

// firmly is put, of what controllers write at the same time.
func (d *fixture) firmly(want apply.Result, s statement) apply.Outcome {
	d.Helper()
	for range 50 {
		got, err := d.applier.As(s.manager).Apply(d.Ctx, d.live(s), s.ac, s.opts...)
		if errors.Is(err, apply.ErrStale) {
			continue
		}
		d.Must(err, "putting")
		if got.Result != want {
			d.Fatalf("%s: the result is %d, want %d", s, got.Result, want)
		}
		return got
	}
	d.Fatalf("%s moves all the time", s)
	return apply.Outcome{}
}

// into are the ways in which others put something into our containers.
var into = map[string]func(d *fixture, live client.Object, container string){
	"an applier": func(d *fixture, live client.Object, container string) {
		d.Force("intruder", fmt.Sprintf(
			`{"apiVersion": "apps/v1", "kind": %q, "metadata": {"name": %q}, "spec": {"template": {"spec": {"containers": [%s]}}}}`,
			d.gvk(live).Kind, live.GetName(), evil(container)))
	},
	"kubectl patch": func(d *fixture, live client.Object, container string) {
		patch := fmt.Sprintf(
			`{"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}, "spec": {"containers": [%s, {"name": "mesh", "image": "mesh:1"}]}}}}`, evil(container))
		d.Must(d.Client.Patch(d.Ctx, live, client.RawPatch("application/strategic-merge-patch+json", []byte(patch)),
			client.FieldOwner("kubectl-patch")), "patching")
	},
}

func evil(container string) string {
	return fmt.Sprintf(
		`{"name": %q, "command": ["evil"], "stdin": true, "env": [{"name": "LD_PRELOAD", "value": "evil.so"}],
		"lifecycle": {"postStart": {"exec": {"command": ["evil"]}}}}`, container)
}

// What others put into our containers is taken off, as what they change there is; their
// sidecars and annotations stay. Who puts it there again and again is a conflict.
func TestWhatOthersPutIntoOurContainersIsTakenOff(t *testing.T) {
	t.Parallel()
	for name, put := range into {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := freehold(t)
			for _, s := range d.workloads(before, 1) {
				d.put(apply.Created, s.manager, nil, s.ac, s.opts...)
				was := podsOf(d.live(s))
				ours := was.Spec.Containers[0].Name
				named := false
				for range 3 {
					put(d, d.live(s), ours)
					done := d.firmly(apply.Configured, s).Repaired
					named = named || done != nil && len(done.Others) == 1 && len(done.Fields) > 0
				}
				if !named {
					t.Errorf("%s: nobody is told who did it", s)
				}
				d.kept(s, was, name)
				put(d, d.live(s), ours)
				if c := cause[*apply.Conflict](d, d.refused(s.manager, d.live(s), s.ac, s.opts...)); c.RequeueAfter == 0 {
					t.Errorf("%s: %v", s, c)
				}
			}
		})
	}
}

// kept expects our container as it was, and beside it what others may add.
func (d *fixture) kept(s statement, was *corev1.PodTemplateSpec, by string) {
	d.Helper()
	now := podsOf(d.live(s))
	if diff := cmp.Diff(was.Spec.Containers[0], now.Spec.Containers[0]); diff != "" {
		d.Errorf("%s: our container (-was +now):\n%s", s, diff)
	}
	sidecars, restarted := len(now.Spec.Containers)-len(was.Spec.Containers),
		now.Annotations["kubectl.kubernetes.io/restartedAt"]
	if by == "kubectl patch" && (sidecars != 1 || restarted == "") {
		d.Errorf("%s: %d sidecars of others, restarted at %q", s, sidecars, restarted)
	}
	d.firmly(apply.Unchanged, s)
}

// Who applies what an object says owns all of it, too. What the spec drops later goes
// all the same, and a port that changes is another one.
func TestWhatAnExportOwnsTooGoesWithTheSpec(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	for _, s := range d.workloads(before, 1) {
		d.put(apply.Created, s.manager, nil, s.ac, s.opts...)
		exported := d.Unstructured(d.live(s))
		exported.SetManagedFields(nil)
		exported.SetUID("")
		exported.SetResourceVersion("")
		d.Force("kubectl", d.text(exported.Object))
	}
	d.becomes(d.workloads(after, 2))
}

// The pull policy that we state is the one that the API server fills in.
func TestPullPolicyIsThatOfTheAPIServer(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	for i, image := range []string{
		"echo", "echo:1", "echo:latest", "Echo", "echo:Latest", "registry.example.com:5000/echo",
		"registry.example.com:5000/echo:latest",
		"Registry.example.com/echo", "registry.example.com/Team/echo", "localhost/echo:latest", "echo@sha256:" + hex64,
		"echo:latest@sha256:" + hex64,
		"echo:1@sha256:" + hex64, hex64, "echo@latest", "echo:", "a/b:c/d", "echo latest", "team_/echo", "echo:latest ",
	} {
		name := fmt.Sprintf("image-%d", i)
		template := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: name}}
		template.Template.Spec.Containers = []corev1.Container{{Name: "server", Image: image}}
		data, err := json.Marshal(template.Template)
		d.Must(err, "encoding")
		ac := &corev1ac.PodTemplateSpecApplyConfiguration{}
		d.Must(json.Unmarshal(data, ac), "decoding")
		if err := d.Client.Create(d.Ctx, template); err != nil {
			continue // no such image can be stated
		}
		want, got := template.Template.Spec.Containers[0].ImagePullPolicy,
			*podtemplate.Stated(ac).Spec.Containers[0].ImagePullPolicy
		if got != want {
			t.Errorf("%q: the policy is %s, and the API server's %s", image, got, want)
		}
	}
}

const hex64 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
