package registry_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/configs/registry"
	"github.com/freehold-dev/freehold/controllers/configs/store"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/rollout"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/library/toy"
)

// A third kind of configuration is one package and a line of the registry: servers that refer
// to it are rendered, refused, compared and rolled out with it as with any other.
func TestAThirdKindIsOnePackageAndALine(t *testing.T) {
	server := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "echo"}}
	server.Spec.Image, server.Spec.ToolConfigRef = "i", &v1alpha1.LocalReference{Name: "few"}
	render := func(configs ...frame.Object) workload.Rendered {
		return workload.Render(workload.Input{Object: server, Configs: registry.Read(configs...)},
			podtemplate.Release{RunnerImage: "r"})
	}
	if got := render(); len(got.Content.NotEnforced) != 1 || workload.Guarded(&server.Spec) {
		t.Fatalf("without the kind it is %+v", got.Content)
	}
	open := render().Content.Proxy
	registry.Add(t, toy.Kind{})
	going := toy.Saying("https://a.example.com")
	going.DeletionTimestamp = &metav1.Time{}
	for name, tc := range map[string]struct {
		configs      []frame.Object
		reason, says string
	}{
		"missing": {nil, v1alpha1.ReasonConfigNotFound, `spec.toolConfigRef: MCPToolConfig "few" does not exist`},
		"invalid": {[]frame.Object{toy.Saying()}, v1alpha1.ReasonConfigInvalid, `MCPToolConfig "few": spec.origins is empty`},
		"to go":   {[]frame.Object{going}, v1alpha1.ReasonConfigDeleting, `MCPToolConfig "few" is being deleted`},
	} {
		got := render(tc.configs...)
		if podtemplate.HasGuards(nil, podtemplate.Guards(got.Content.Proxy)) {
			t.Errorf("%s: a proxy without the check may go on", name)
		}
		if got.Reason != tc.reason || !strings.Contains(got.Problems.Error(), tc.says) || got.Content.NotEnforced != nil {
			t.Errorf("%s: %s because of %s", name, got.Problems, got.Reason)
		}
	}

	first, other := render(toy.Saying("https://a.example.com")), render(toy.Saying("https://b.example.com"))
	if len(first.Problems) > 0 || first.Content.Proxy.AllowedOrigins[0] != "https://a.example.com" ||
		!workload.Guarded(&server.Spec) || podtemplate.Guards(first.Content.Proxy) != "origins" ||
		podtemplate.Guards(open) != "" {
		t.Errorf("it is rendered as %+v, with %v", first.Content.Proxy, first.Problems)
	}
	if first.Hash == other.Hash || first.OwnHash != other.OwnHash || first.OwnHash == "" {
		t.Errorf("what the configuration says is not told from what the server says: %+v, %+v", first, other)
	}

	known := store.New()
	verdict, _ := known.Verdict(toy.Kind{}, toy.Saying("https://a.example.com"))
	set := registry.Bind(server, registry.Read(toy.Saying("https://b.example.com")))
	before, told := set.Before("MCPToolConfig", &first.Content.Proxy, verdict.Hash)
	again := workload.Render(workload.Input{Object: server, Configs: before}, podtemplate.Release{RunnerImage: "r"})
	if !told || again.Hash != first.Hash {
		t.Error("what it said before cannot be rendered again")
	}

	server.Status.Workload = &v1alpha1.WorkloadStatus{
		Generation: 1, Configs: []v1alpha1.WorkloadConfig{{Kind: "MCPToolConfig", Name: "few", Hash: verdict.Hash}},
	}
	server.Status.ServedGeneration = 1
	if m := rollout.Of(server).Member("MCPToolConfig", "few", verdict.Hash); m.Phase != rollout.Done {
		t.Errorf("with it a server is %s", m.Phase)
	}
}

// telling is a kind by which no call is refused.
type telling struct{ toy.Kind }

func (telling) AccessCheck() string { return "" }

// A kind says itself whether it is an access check: no proxy stops for the want of another one, and none makes the
// backend one that only proxies reach.
func TestAKindThatIsNoAccessCheckGuardsNothing(t *testing.T) {
	registry.Add(t, telling{})
	server := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "echo"}}
	server.Spec.Image, server.Spec.ToolConfigRef = "i", &v1alpha1.LocalReference{Name: "few"}
	for _, configs := range [][]frame.Object{nil, {toy.Saying("https://a.example.com")}} {
		got := workload.Render(workload.Input{Object: server, Configs: registry.Read(configs...)},
			podtemplate.Release{RunnerImage: "r"})
		if podtemplate.Guards(got.Content.Proxy) != "" || workload.Guarded(&server.Spec) {
			t.Errorf("with %d configurations it guards %+v", len(configs), got.Content.Proxy)
		}
	}
}

// What states that no call passes is seen as the check that a proxy has to make.
func TestTheGuardOfEachKindIsItsAccessCheck(t *testing.T) {
	spec := &v1alpha1.ProxyWorkloadSpec{OIDCConfigRef: &v1alpha1.OIDCConfigReference{}}
	registry.Add(t, toy.Kind{})
	for _, each := range registry.All() {
		kind, is := each.(frame.Content)
		if !is {
			continue
		}
		var proxy runconfig.Proxy
		kind.Guard(&proxy, frame.Referrer{Spec: spec, URL: "http://echo/mcp"})
		if got := podtemplate.Guards(proxy); got == "" || got != kind.AccessCheck() {
			t.Errorf("the guard of %s makes the checks %q", kind.Row().Object.Kind, got)
		}
	}
}
