package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/reconcile"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// overlay is one of the proxy's pods with n variables.
func overlay(n int, value string) *runtime.RawExtension {
	var env []map[string]string
	for i := range n {
		env = append(env, map[string]string{"name": fmt.Sprintf("VARIABLE_%04d", i), "value": value})
	}
	data, err := json.Marshal(map[string]any{
		"spec": map[string]any{"containers": []any{map[string]any{"name": "sidecar", "image": "s", "env": env}}},
	})
	if err != nil {
		panic(err)
	}
	return &runtime.RawExtension{Raw: data}
}

// A server with a large overlay wakes as others do: whenever a label of it
// changes, or a pod. What came of its spec is known then.
func TestALargeSpecIsRenderedOnce(t *testing.T) {
	r, s := settledWith(t, func(server *v1alpha1.MCPServer) { server.Spec.Proxy.PodTemplate = overlay(1500, "v") })
	pass := func() {
		result, err := r.Reconcile(t.Context(), theServer)
		if err != nil || result.RequeueAfter != 0 {
			t.Fatal(result, err)
		}
	}
	before, wakes := s.applies, 0
	allocations := testing.AllocsPerRun(3, func() {
		wakes++
		s.objects[storedKey{"MCPServer", "echo"}].SetLabels(map[string]string{"note": fmt.Sprint(wakes)})
		pass()
	})
	if rendering := testing.AllocsPerRun(1,
		func() { workload.Render(workload.Input{Object: read(s)}, options) }); allocations > rendering/2 {
		t.Errorf("a pass takes %.0f allocations, and rendering the spec alone %.0f", allocations, rendering)
	}
	if s.applies != before {
		t.Errorf("it wrote %d times", s.applies-before)
	}
	// Where the cache holds a part of it, all passes take turns, and read it live.
	r.reader.Cache = cutting{r.reader.Cache}
	pass()
	if r.Large.Take("elsewhere", "other", r.Now()) != 0 {
		t.Fatal("the turn is taken")
	}
	if result, err := r.Reconcile(t.Context(), theServer); err != nil || result.RequeueAfter == 0 {
		t.Errorf("out of its turn: %v, %v", result, err)
	}
	if s.applies != before {
		t.Errorf("it wrote %d times", s.applies-before)
	}
}

// cutting is a cache that holds no server whole.
type cutting struct{ client.Reader }

func (c cutting) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	err := c.Reader.Get(ctx, key, obj, opts...)
	if server, ok := obj.(*v1alpha1.MCPServer); ok && err == nil {
		server.Spec = v1alpha1.MCPServerSpec{}
		reconcile.Cut(server, "")
	}
	return err
}

// panicking is a cache whose answers about Deployments are a defect.
type panicking struct{ client.Reader }

func (p panicking) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if _, is := obj.(*appsv1.Deployment); is {
		panic("a defect")
	}
	return p.Reader.Get(ctx, key, obj, opts...)
}

// A panic ends one pass, which is tried again, and holds up no other server.
func TestAPanicGivesTheTurnBack(t *testing.T) {
	r, _ := settledWith(t, func(server *v1alpha1.MCPServer) {
		server.Spec.Proxy.PodTemplate = overlay(1, "v")
	})
	r.reader.Cache = cutting{r.reader.Cache}
	r.reader.Cache = panicking{r.reader.Cache}
	func() {
		defer func() {
			if recover() == nil {
				t.Fatal("nothing panics")
			}
		}()
		_, _ = r.Reconcile(t.Context(), theServer)
	}()
	if r.Large.Take("elsewhere", "other", r.Now()) != 0 {
		t.Error("the turn is still taken")
	}
}

// What is known of a spec is not what another would come to.
func TestAChangedSpecIsRenderedAnew(t *testing.T) {
	r, s := settled(t)
	stored := s.objects[storedKey{"MCPServer", "echo"}].(*v1alpha1.MCPServer)
	hash := stored.Status.Workload.Hash
	stored.Spec.Args = []string{"--changed"}
	stored.Generation++
	rest(t, r, s)
	changed := read(s).Status.Workload.Hash
	if changed == hash {
		t.Fatal("the change was not claimed")
	}
	stored = s.objects[storedKey{"MCPServer", "echo"}].(*v1alpha1.MCPServer)
	stored.Spec.Proxy.PodTemplate = &runtime.RawExtension{Raw: []byte(`{"spec":{"hostNetwork":true}}`)}
	stored.Generation++
	rest(t, r, s)
	said := func() string {
		data, err := json.Marshal(read(s).Status.Conditions)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	first := said()
	before := s.applies
	r.Now = func() time.Time { return noon.Add(time.Hour) }
	if _, err := r.Reconcile(t.Context(), theServer); err != nil || s.applies != before || said() != first {
		t.Errorf("a spec that cannot be rendered is told as %s (%d writes, %v), was told as %s", said(), s.applies-before,
			err, first)
	}
	stored = s.objects[storedKey{"MCPServer", "echo"}].(*v1alpha1.MCPServer)
	stored.Spec.Proxy.PodTemplate = nil
	stored.Generation++
	rest(t, r, s)
	if got := read(s).Status.Workload.Hash; got != changed {
		t.Errorf("the hash is %s, want %s again", got, changed)
	}
}

// That what stands lets every call through is known also of a spec that cannot be rendered.
func TestAProxyWithoutPoliciesStaysStopped(t *testing.T) {
	r, s := settled(t)
	stored := s.objects[storedKey{"MCPServer", "echo"}].(*v1alpha1.MCPServer)
	stored.Spec.AuthzConfig = &v1alpha1.AuthzConfig{Policies: []v1alpha1.AuthzPolicy{{Name: "p", Policy: "permit"}}}
	stored.Generation++
	rest(t, r, s)
	proxy := s.objects[storedKey{"Deployment", "echo-proxy"}].(*appsv1.Deployment)
	if n := *proxy.Spec.Replicas; n != 0 {
		t.Errorf("the proxy has %d replicas", n)
	}
}
