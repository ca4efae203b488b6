package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/configs/authz"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/configs/store"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/reconcile"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/rollout"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// lagging is a cache that holds a large MCPAuthzConfig in part, and perhaps an older one than the API server has.
type lagging struct {
	*stored
	shows *v1alpha1.MCPAuthzConfig
}

func (l *lagging) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	into, is := obj.(*v1alpha1.MCPAuthzConfig)
	if !is {
		return l.stored.Get(ctx, key, obj, opts...)
	}
	if key.Name != l.shows.Name {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	*into = v1alpha1.MCPAuthzConfig{ObjectMeta: *l.shows.ObjectMeta.DeepCopy()}
	digest, _ := store.Digest(l.shows)
	reconcile.Cut(into, digest)
	return nil
}

func (l *lagging) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if servers, is := list.(*v1alpha1.MCPServerList); is {
		servers.Items = []v1alpha1.MCPServer{*read(l.stored)}
		return nil
	}
	return l.stored.List(ctx, list, opts...)
}

// silent is an API server that answers nobody who reads a configuration.
type silent struct{ *stored }

func (s silent) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if _, is := obj.(*v1alpha1.MCPAuthzConfig); is {
		return errors.New("no answer")
	}
	return s.stored.Get(ctx, key, obj, opts...)
}

// largeConfig is a large MCPAuthzConfig that permits who.
func largeConfig(name, who string, generation int64) *v1alpha1.MCPAuthzConfig {
	config := &v1alpha1.MCPAuthzConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "c", Generation: generation},
	}
	config.Spec.Policies = []v1alpha1.AuthzPolicy{
		{Name: "who", Policy: `permit (principal == User::"` + who + `", action, resource);`},
	}
	for _, filler := range []string{"a", "b", "c"} {
		config.Spec.Policies = append(config.Spec.Policies, v1alpha1.AuthzPolicy{
			Name: filler, Policy: `forbid (principal == User::"` + name + strings.Repeat(filler, 12<<10) + `", action, resource);`,
		})
	}
	return config
}

// follower is a server that follows a large configuration, of which alice is permitted.
type follower struct {
	*stored
	r          *Reconciler
	cache      *lagging
	applier    *apply.Applier
	generation int64
}

func newFollower(t *testing.T) *follower {
	t.Helper()
	s := newStored(t)
	server := echoInPlace()
	server.Spec.AuthzConfigRef = &v1alpha1.LocalReference{Name: "team"}
	s.create(server)
	_, own := schemas()
	f := &follower{stored: s, applier: apply.New(s, s, apply.NewConverter(s.Scheme(), own), contract.Freehold())}
	f.cache = &lagging{stored: s}
	f.restart()
	f.permit("alice")
	f.catchUp()
	f.settle(t)
	if !meta.IsStatusConditionTrue(read(s).Status.Conditions, v1alpha1.ConditionReady) {
		t.Fatalf("the server is not Ready: %+v", read(s).Status.Conditions)
	}
	return f
}

// restart starts the operator anew.
func (f *follower) restart() {
	f.r = New(snapshot.NewReader(kinds.Servers(), f.cache, f.stored), f.applier, &events.FakeRecorder{}, options)
}

// permit changes the configuration at the API server, and catchUp lets the cache show that.
func (f *follower) permit(who string) {
	f.generation++
	f.put(largeConfig("team", who, f.generation))
}

func (f *follower) catchUp() {
	f.cache.shows = f.objects[storedKey{"MCPAuthzConfig", "team"}].(*v1alpha1.MCPAuthzConfig).DeepCopy()
}

// crowd has the process do so much for others that it forgets contents, and what it rendered of them. What it found out
// about them it knows by their digests.
func (f *follower) crowd() {
	for _, name := range []string{"x", "y"} {
		f.r.reader.Configs.Read(authz.Kind{}, largeConfig(name, name, 1))
	}
	for i := range 40 {
		other := echo()
		other.Name, other.Spec.Args = fmt.Sprint("other", i), []string{"x"}
		f.r.renderer.Digests(snapshot.Of(other, world{}, noon))
	}
}

// settle passes until nothing is left to do, and plays those who bring pods up.
func (f *follower) settle(t *testing.T) {
	t.Helper()
	for range 3 {
		rest(t, f.r, f.stored)
		delete(f.objects, storedKey{"StatefulSet", "echo-backend"})
		f.come(f.applier)
	}
	rest(t, f.r, f.stored)
}

// runs is what the proxy that stands is given; false where none stands.
func (f *follower) runs() (rev revision.Revision, text string, stands bool) {
	proxy, stands := f.objects[storedKey{"Deployment", "echo-proxy"}].(*appsv1.Deployment)
	if !stands {
		return rev, "", false
	}
	rev, _ = revision.Of(proxy.Annotations)
	if config, is := f.objects[storedKey{"ConfigMap", workload.RunConfigName("echo", rev)}].(*corev1.ConfigMap); is {
		text = config.Data[runconfig.FileName]
	}
	return rev, text, true
}

// wrong is what of the proxy that stands was not claimed, or is not of the content that the claim names.
func (f *follower) wrong() error {
	rev, text, stands := f.runs()
	claim := read(f.stored).Status.Workload
	if !stands || claim == nil {
		return nil
	}
	if rev.Hash != claim.Hash || rev.Generation != claim.Generation {
		return fmt.Errorf("the proxy carries %v, and %d/%s is claimed", rev, claim.Generation, claim.Hash)
	}
	run, err := runconfig.Decode([]byte(text))
	if err != nil {
		return fmt.Errorf("its pods mount a ConfigMap that there is not: %w", err)
	}
	if hash := frame.HashOf(run.Proxy.Authorization); hash != claim.Configs[0].Hash {
		return fmt.Errorf("it runs policies %s, and the claim says %s", hash, claim.Configs[0].Hash)
	}
	return nil
}

// Whatever the cache shows of a large configuration, and whatever the process forgets, a proxy runs what was claimed,
// and in the end what the API server has.
func TestWhatRunsOfALargeConfigurationIsWhatWasClaimed(t *testing.T) {
	for seed := range uint64(3) {
		f, random := newFollower(t), rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // which steps are taken is no secret
		var taken []string
		for range 30 {
			steps := []struct {
				name string
				do   func()
			}{
				{"a policy permits mallory", func() { f.permit("mallory") }},
				{"a policy permits alice alone", func() { f.permit("alice") }},
				{"the cache shows that", f.catchUp},
				{"the server is edited", func() {
					edited(f.stored, func(m *v1alpha1.MCPServer) { m.Spec.Args = []string{fmt.Sprint(random.IntN(3))} })
				}},
				{"the proxy is deleted", func() { delete(f.objects, storedKey{"Deployment", "echo-proxy"}) }},
				{"the operator starts anew", f.restart},
				{"much is done for others", f.crowd},
				{"pods come up", func() {
					if _, _, stands := f.runs(); stands {
						delete(f.objects, storedKey{"StatefulSet", "echo-backend"})
						f.come(f.applier)
					}
				}},
			}
			step := steps[random.IntN(len(steps))]
			taken = append(taken, step.name)
			step.do()
			if _, err := f.r.Reconcile(t.Context(), theServer); err != nil {
				t.Fatalf("%d: after %s: %v", seed, strings.Join(taken, ", "), err)
			}
			if err := f.wrong(); err != nil {
				t.Fatalf("%d: after %s: %v", seed, strings.Join(taken, ", "), err)
			}
		}
		f.permit("alice")
		f.catchUp()
		f.settle(t)
		if _, text, _ := f.runs(); strings.Contains(text, "mallory") || !strings.Contains(text, "alice") {
			t.Errorf("%d: after %s the proxy runs policies that were withdrawn", seed, strings.Join(taken, ", "))
		}
	}
}

// That a large configuration cannot be read, or not yet, is no refusal of a write, and no server of a rollout has
// failed with it: nothing is said, and nothing is claimed.
func TestAConfigurationThatCannotBeReadIsNoVerdict(t *testing.T) {
	edits := map[string]func(*follower){
		"the server is edited": func(f *follower) {
			edited(f.stored, func(m *v1alpha1.MCPServer) { m.Spec.Args = []string{"x"} })
		},
		"the configuration changes": func(f *follower) {
			f.permit("mallory")
			f.catchUp()
		},
	}
	obstacles := map[string]func(*follower){
		"the API server does not answer": func(f *follower) { f.r.reader.Live = silent{f.stored} },
		"another one is read":            func(f *follower) { f.r.Large.Take("elsewhere", "other", f.r.Now()) },
	}
	for edit, change := range edits {
		for obstacle, prevent := range obstacles {
			f := newFollower(t)
			change(f)
			if _, err := f.r.Reconcile(t.Context(), theServer); err != nil { // Ready goes down
				t.Fatal(err)
			}
			f.crowd()
			prevent(f)
			said, claim := saying(t, f), read(f.stored).Status.Workload.Generation
			result, err := f.r.Reconcile(t.Context(), theServer)
			if again := result.RequeueAfter > 0 || err != nil && strings.Contains(err.Error(), "no answer"); !again {
				t.Errorf("%s, and %s: the pass ends with %v, %v", edit, obstacle, result, err)
			}
			server := read(f.stored)
			if now := saying(t, f); now != said || server.Status.Workload.Generation != claim {
				t.Errorf("%s, and %s: it says %s of %d, and said %s", edit, obstacle, now, claim, said)
			}
			verdict := f.r.reader.Configs.Read(authz.Kind{}, f.cache.shows)
			member := rollout.Of(server).Member("MCPAuthzConfig", "team", verdict.Hash)
			if member.Phase == rollout.Failed || member.Phase == rollout.Blocked {
				t.Errorf("%s, and %s: in the rollout of the configuration it is %s", edit, obstacle, member.Phase)
			}
		}
	}
}

// A pass that writes nothing which is rendered reads no large configuration, whatever the process has forgotten of it.
func TestALargeConfigurationIsReadToBeRenderedAlone(t *testing.T) {
	f := newFollower(t)
	f.crowd()
	f.r.reader.Live = silent{f.stored}
	service := storedKey{"Service", "echo-proxy"}
	delete(f.objects, service)
	rest(t, f.r, f.stored)
	if f.objects[service] == nil {
		t.Error("the Service is not made again")
	}
}

func saying(t *testing.T, f *follower) string {
	t.Helper()
	data, err := json.Marshal(read(f.stored).Status.Conditions)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
