package workload

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
)

// claimed is a server whose status says what was rendered of it.
func claimed(t *testing.T, name string) (*v1alpha1.MCPServer, Rendered) {
	t.Helper()
	server := read(t, name)
	rendered := sound(t, server, options)
	server.Status.Workload = &v1alpha1.WorkloadStatus{
		Generation: 7, Hash: rendered.Hash,
		BackendHash: rendered.Content.Rendering.Backend, SessionSecret: rendered.Content.Proxy.SessionSecret,
	}
	if bridge := rendered.Content.Backend.Bridge; bridge != nil {
		server.Status.Workload.BridgeImage = bridge.Image
	}
	return server, rendered
}

// A release brings another runner image; the bridge of a backend that runs is kept
// until its pods are replaced for another reason.
func TestAReleaseReplacesNoBackendThatHasABridge(t *testing.T) {
	release := options
	release.RunnerImage = "freehold.dev/runner:next"
	for name, tc := range map[string]struct {
		edit  func(*v1alpha1.MCPServer)
		image string
	}{
		"a release alone": {func(*v1alpha1.MCPServer) {}, options.RunnerImage},
		"the proxy changes, too": {func(s *v1alpha1.MCPServer) {
			s.Spec.Proxy = &v1alpha1.ProxySpec{PublicURL: "https://mcp.example.com"}
		}, options.RunnerImage},
		"the backend changes, too": {func(s *v1alpha1.MCPServer) { s.Spec.Image += "x" }, release.RunnerImage},
		"it is another bridge": {
			func(s *v1alpha1.MCPServer) { s.Status.Workload.BackendHash = "of version 0" },
			release.RunnerImage,
		},
		"the status was lost": {func(s *v1alpha1.MCPServer) { s.Status.Workload = nil }, release.RunnerImage},
		"an older operator's status": {func(s *v1alpha1.MCPServer) {
			s.Status.Workload.BridgeImage, s.Status.Workload.BackendHash = "", ""
		}, release.RunnerImage},
	} {
		for _, transport := range []string{"stdio", "sse"} {
			t.Run(name+"/"+transport, func(t *testing.T) {
				server, before := claimed(t, transport)
				tc.edit(server)
				after := sound(t, server, release)
				if got := after.Content.Backend.Bridge.Image; got != tc.image {
					t.Errorf("the bridge is of image %s, want %s", got, tc.image)
				}
				same := cmp.Equal(backendTemplate(t, after, 8), backendTemplate(t, before, 7))
				if kept := tc.image == options.RunnerImage; same != kept {
					t.Errorf("the backend's pods stay: %v, want %v", same, kept)
				}
				if after.Hash == before.Hash {
					t.Error("the proxy's pods do not take the release")
				}
			})
		}
	}
}

// What the spec says may not meet what the bridge needs.
func TestNothingOfASpecReplacesTheBridge(t *testing.T) {
	const ours = "is Freehold's bridge, which runs as it is: "
	for spec, want := range map[string]string{
		`volumes: [{name: freehold-bridge, emptyDir: {}}]`:                                                                        "spec.volumes[name=freehold-bridge].name: " + ours + "choose another name",
		`volumeMounts: [{name: freehold-bridge, mountPath: /x}]`:                                                                  "spec.volumeMounts[mountPath=/x]: " + ours + "mount another volume elsewhere",
		`{volumes: [{name: a, emptyDir: {}}], volumeMounts: [{name: a, mountPath: /freehold-bridge/}]}`:                           "spec.volumeMounts[mountPath=/freehold-bridge/]: " + ours + "mount another volume elsewhere",
		`podTemplate: {spec: {initContainers: [{name: bridge, image: mine}]}}`:                                                    "spec.podTemplate.spec.initContainers[name=bridge]: " + ours + "choose another name; resources of the pod as a whole are in spec.podTemplate.spec.resources",
		`podTemplate: {spec: {initContainers: [{name: a, image: mine, volumeMounts: [{name: freehold-bridge, mountPath: /b}]}]}}`: "spec.podTemplate.spec.initContainers[name=a].volumeMounts[mountPath=/b]: " + ours + "mount another volume elsewhere",
		`podTemplate: {spec: {containers: [{name: server, command: [/mine]}]}}`:                                                   "spec.podTemplate.spec.containers[name=server].command: comes from spec.command: set that instead",
		`podTemplate: {spec: {volumes: [{name: freehold-bridge, configMap: {name: mine}}]}}`:                                      "spec.podTemplate.spec.volumes[name=freehold-bridge]: comes from spec.volumes: set that instead",
		`podTemplate: {metadata: {annotations: {freehold.dev/bridge: "2"}}}`:                                                      `spec.podTemplate.metadata.annotations["freehold.dev/bridge"]: only Freehold writes freehold.dev/ and app.kubernetes.io/ here: choose another prefix`,
	} {
		server := serverWith(t, spec)
		server.Spec.Transport, server.Spec.Command = v1alpha1.TransportStdio, []string{"/server"}
		if got := Render(Input{Object: server}, podtemplate.Release{RunnerImage: "r"}).
			Problems.Error(); !strings.HasPrefix(got, want) {
			t.Errorf("%s:\n got %s\nwant %s", spec, got, want)
		}
	}
}

// How long a session lasts is told to the bridge only where the spec says so: the pods of other servers stay as they
// are.
func TestHowLongASessionLastsIsToldToTheBridge(t *testing.T) {
	for _, process := range []v1alpha1.StdioProcess{v1alpha1.StdioPerSession, v1alpha1.StdioShared} {
		for seconds, want := range map[int32]string{0: "", 120: "-idle 120s"} {
			server := read(t, "stdio")
			server.Spec.Stdio = &v1alpha1.StdioSpec{Process: process, SessionIdleSeconds: seconds}
			set, err := Backend(sound(t, server, options).Claimed(1), Slot1)
			if err != nil {
				t.Fatal(err)
			}
			args, _, _ := strings.Cut(strings.Join(set.Spec.Template.Spec.Containers[0].Args, " "), " -- ")
			if got := strings.Contains(args, "-idle"); got != (want != "") || !strings.Contains(args, want) {
				t.Errorf("%s, %d: %s", process, seconds, args)
			}
		}
	}
}

// The bridge's image is pulled in the server's namespace, with credentials of its own.
func TestTheBridgeIsPulledWithTheRunnersSecrets(t *testing.T) {
	opts := options
	opts.RunnerPullSecrets = []string{"ours", "mine"}
	set, err := Backend(sound(t, read(t, "stdio"), opts).Claimed(1), Slot1)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, secret := range set.Spec.Template.Spec.ImagePullSecrets {
		names = append(names, *secret.Name)
	}
	if diff := cmp.Diff([]string{"mine", "ours"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A name of a pod leads to the pod itself, past the port of the Service in front.
func TestPodsTakeCallsAtTheBridgesPort(t *testing.T) {
	for name, want := range map[string]int32{"sse": 9441, "stdio": 8080, "minimal": 8080} {
		run := sound(t, read(t, name), options).Content
		if got := run.Backend.PodPort(); got != want {
			t.Errorf("%s: pods at port %d, want %d", name, got, want)
		}
		if got := *HeadlessService(run, Slot1).Spec.Ports[0].Port; got != want {
			t.Errorf("%s: the headless Service has port %d, want %d", name, got, want)
		}
	}
}

// Proxies of the content before still call while that of a new port, or transport, is rolled out,
// and those of a release that called at spec.port while this one is: what they call stays, under
// its name, for kube-proxy knows it by that.
func TestTheServiceKeepsThePortsThatOlderProxiesCall(t *testing.T) {
	ports := func(name string, port int32) map[int32]string {
		server := read(t, name)
		server.Spec.Port = port
		names := map[int32]string{}
		for _, p := range BackendService(sound(t, server, options).Content, Slot1).Spec.Ports {
			if *p.TargetPort != intstr.FromString("mcp") {
				t.Errorf("port %d leads to %s", *p.Port, p.TargetPort)
			}
			names[*p.Port] = *p.Name
		}
		return names
	}
	for _, transport := range []string{"minimal", "sse", "stdio"} {
		for _, port := range []int32{80, 3001, 8080, 9443} {
			got := ports(transport, port)
			if got[runconfig.CallPort] != "calls" {
				t.Errorf("%s at %d: proxies cannot call: %v", transport, port, got)
			}
			if port != runconfig.CallPort && got[port] != "mcp" {
				t.Errorf("%s at %d: proxies of releases before cannot call: %v", transport, port, got)
			}
		}
	}
}
