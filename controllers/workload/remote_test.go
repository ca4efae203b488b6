package workload

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/test/golden"
)

func TestWhatARemoteProxyIsBuiltOf(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "remote.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	object := &v1alpha1.MCPRemoteProxy{}
	if err := yaml.UnmarshalStrict(data, object); err != nil {
		t.Fatal(err)
	}
	rendered := render(object, options)
	if len(rendered.Problems) > 0 {
		t.Fatal(rendered.Problems)
	}
	proxy, err := rendered.Proxy(7)
	if err != nil {
		t.Fatal(err)
	}
	config, err := rendered.ConfigMap(7)
	if err != nil {
		t.Fatal(err)
	}
	if run, err := runconfig.Decode([]byte(config.Data[runconfig.FileName])); err != nil || run.Verify() != nil {
		t.Errorf("its run config cannot be read: %v, %v", err, run.Verify())
	}
	if policy := BackendNetworkPolicy(object, options.Release); policy != nil {
		t.Error("it has a policy for a backend")
	}
	owner := OwnerOf(object)
	for kind, ac := range map[string]any{
		"serviceaccount": ServiceAccount(owner), "role": Role(owner), "rolebinding": RoleBinding(owner),
		"run-config": config, "proxy": proxy, "proxy-service": ProxyService(owner, object.Spec.Proxy),
	} {
		got, err := yaml.Marshal(ac)
		if err != nil {
			t.Fatal(err)
		}
		golden.File(t, filepath.Join("testdata", "remote", kind+".yaml"), string(got))
	}
}

// Proxies with a bridge to the server call each other.
func TestTheProxiesOfARemoteServerOfEventsFindEachOther(t *testing.T) {
	for transport, want := range map[v1alpha1.RemoteTransport]bool{"sse": true, "streamable-http": false} {
		object := &v1alpha1.MCPRemoteProxy{
			Spec: v1alpha1.MCPRemoteProxySpec{URL: "https://mcp.example.com/sse", Transport: transport},
		}
		object.Name, object.Namespace, object.UID = "far", "team", "1111"
		rendered := render(object, options)
		proxy, err := rendered.Proxy(1)
		if err != nil || len(rendered.Problems) > 0 || len(rendered.Content.NotEnforced) > 0 {
			t.Fatal(rendered.Problems, rendered.Content.NotEnforced, err)
		}
		container := proxy.Spec.Template.Spec.Containers[0]
		port := slices.ContainsFunc(container.Ports,
			func(p corev1ac.ContainerPortApplyConfiguration) bool { return *p.ContainerPort == runconfig.PeerPort })
		address := slices.ContainsFunc(container.Env,
			func(e corev1ac.EnvVarApplyConfiguration) bool { return *e.Name == runconfig.EnvPodIP })
		if port != want || address != want {
			t.Errorf("%s: port %t, address %t", transport, port, address)
		}
	}
}

// A time in another zone is the same time.
func TestARemoteProxyRestartsWithAnotherTime(t *testing.T) {
	at := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	render := func(at *metav1.Time) (Rendered, string) {
		object := &v1alpha1.MCPRemoteProxy{
			Spec: v1alpha1.MCPRemoteProxySpec{
				URL:               "https://mcp.example.com/mcp",
				ProxyWorkloadSpec: v1alpha1.ProxyWorkloadSpec{RestartedAt: at},
			},
		}
		object.Name, object.Namespace, object.UID = "far", "team", "1111"
		rendered := render(object, options)
		proxy, err := rendered.Proxy(1)
		if err != nil || len(rendered.Problems) > 0 {
			t.Fatal(rendered.Problems, err)
		}
		return rendered, proxy.Spec.Template.Annotations[podtemplate.AnnotationRestartedAt]
	}
	never, none := render(nil)
	once, annotation := render(&metav1.Time{Time: at})
	if none != "" || annotation != "2026-05-06T07:08:09Z" {
		t.Errorf("without a time the pods say %q, with one %q", none, annotation)
	}
	if elsewhere, _ := render(&metav1.Time{Time: at.In(time.FixedZone("", 7200))}); elsewhere.Hash != once.Hash {
		t.Error("another zone restarts it")
	}
	if again, _ := render(&metav1.Time{Time: at.Add(time.Second)}); again.Hash == once.Hash || once.Hash == never.Hash {
		t.Error("another time restarts nothing")
	}
}
