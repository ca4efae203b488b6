package workload

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/golden"
)

// later is a release that renders otherwise than this one.
var later = append(slices.Clone(released),
	func(template *corev1ac.PodTemplateSpecApplyConfiguration, _ runconfig.Backend) {
		template.Spec.WithHostIPC(false)
	})

// active is a server whose backend runs what was rendered of it.
func active(t *testing.T, name string) (*v1alpha1.MCPServer, Rendered) {
	t.Helper()
	server, rendered := claimed(t, name)
	run := rendered.Content
	server.Status.Active = &v1alpha1.ActiveBackend{BackendContent: v1alpha1.BackendContent{
		Slot: 1, Hash: run.Rendering.Backend, Generation: 7, Port: run.Backend.PodPort(), Path: run.Backend.Path,
		Transport: server.Spec.Transport,
	}}
	return server, rendered
}

// A release that renders the same spec otherwise replaces no pods: it compares what a spec means with what there is.
// What it brings is for content that is new.
func TestAReleaseThatRendersOtherwiseReplacesNoBackend(t *testing.T) {
	for _, name := range []string{"minimal", "full", "stdio", "sse"} {
		server, before := active(t, name)
		data := kept(t, server, before)
		render := func(server *v1alpha1.MCPServer) Rendered {
			rendered := later.render(Input{server, options.Configs, ContentsOf(server)}, options.Release)
			if len(rendered.Problems) > 0 {
				t.Fatalf("%s: %v", name, rendered.Problems)
			}
			return rendered
		}
		if after := render(server); after.Hash != before.Hash {
			t.Errorf("%s: the spec is claimed anew", name)
		}
		set, err := later.backend(before.Claimed(7), Slot1)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(backendTemplate(t, before, 7), set.Spec.Template); diff != "" {
			t.Errorf("%s: a runner of the later release replaces the pods:\n%s", name, diff)
		}
		run, err := later.readContent(before.Content.Server, data)
		if err == nil {
			err = later.asksFor(server, run)
		}
		if err != nil {
			t.Errorf("%s: what history has of it: %v", name, err)
		}

		server.Spec.RestartedAt = &metav1.Time{Time: time.Unix(1, 0)}
		restarted := render(server)
		if set, err = later.backend(restarted.Claimed(8), Slot1); err != nil {
			t.Fatal(err)
		}
		if set.Spec.Template.Spec.HostIPC == nil {
			t.Errorf("%s: new content is not rendered as the release has it", name)
		}
		_, err = ReadContent(before.Content.Server, kept(t, server, restarted))
		if err == nil || !strings.Contains(err.Error(), "use the release that wrote it") {
			t.Errorf("%s: a release before reads what it cannot render: %v", name, err)
		}
	}
}

// What serves is found by its own bridge, where the claim is of other content with another one. History reads the same
// of it: who undoes to it asks for that.
func TestWhatServesIsFoundByItsOwnBridge(t *testing.T) {
	release := options
	release.RunnerImage = "freehold.dev/runner:next"
	for _, name := range []string{"stdio", "sse"} {
		server, before := active(t, name)
		data := kept(t, server, before)
		server.Status.Workload = &v1alpha1.WorkloadStatus{
			Generation: 8, Hash: "other", BackendHash: "other", BridgeImage: release.RunnerImage,
			SessionSecret: server.Status.Workload.SessionSecret,
			BridgeImages: map[string]string{
				server.Status.Active.Hash: options.RunnerImage, "third": "freehold.dev/runner:third",
			},
		}
		after := sound(t, server, release)
		if diff := cmp.Diff(backendTemplate(t, before, 7), backendTemplate(t, after, 9)); diff != "" {
			t.Errorf("%s: its pods are replaced:\n%s", name, diff)
		}
		run, err := ReadContent(before.Content.Server, data)
		if err == nil {
			err = AsksFor(server, run)
		}
		if err != nil || run.Rendering.Backend != after.Content.Rendering.Backend {
			t.Errorf("%s: undo asks for %s, and what comes of it is %s: %v", name, run.Rendering.Backend,
				after.Content.Rendering.Backend, err)
		}
	}
}

// leftBehind is what a release has in the cluster of a server and its backend.
type leftBehind struct {
	Server             *v1alpha1.MCPServer
	StatefulSet        *appsv1ac.StatefulSetApplyConfiguration
	ControllerRevision *appsv1ac.ControllerRevisionApplyConfiguration
}

// Each file is what releases have written that render with so many changes. None is ever edited: it is in clusters.
func TestWhatReleasesHaveWrittenStaysAsItIs(t *testing.T) {
	for _, name := range []string{"minimal", "full", "odd", "stdio", "sse"} {
		for number := range len(released) + 1 {
			path := filepath.Join("testdata/released", name+"-"+strconv.Itoa(number)+".yaml")
			if _, err := os.Stat(path); err != nil && number == len(released) && golden.Updates() {
				leave(t, path, name)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatalf("%v: go test -update writes it, once a new entry of renderings is whole", err)
			}
			var left leftBehind
			if err := yaml.UnmarshalStrict(data, &left); err != nil {
				t.Fatal(err)
			}
			if diff := left.differs(t); diff != "" {
				t.Errorf("%s: this release renders a backend otherwise than those that wrote this: an upgrade would replace the "+
					"pods, and what history has could not be read. Let podtemplate render as before, add what is new to "+
					"renderings (rendering.go), and have go test -update write the files of the new number (-was +is):\n%s",
					path, diff)
			}
		}
	}
}

func leave(t *testing.T, path, name string) {
	t.Helper()
	server, rendered := active(t, name)
	record, err := rendered.StoredContent(server, 7)
	if err != nil {
		t.Fatal(err)
	}
	set, err := Backend(rendered.Claimed(7), Slot1)
	if err != nil {
		t.Fatal(err)
	}
	data, err := yaml.Marshal(leftBehind{server, set, record})
	if err != nil {
		t.Fatal(err)
	}
	golden.File(t, path, string(data))
}

// differs is what an upgrade would change of a backend.
func (l leftBehind) differs(t *testing.T) string {
	t.Helper()
	release := options
	release.RunnerImage = "freehold.dev/runner:next"
	now := sound(t, l.Server, release)
	set, err := Backend(now.Claimed(7), Slot1)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(text(t, l.StatefulSet.Spec), text(t, set.Spec)); diff != "" {
		return diff
	}
	run, err := ReadContent(now.Content.Server, l.ControllerRevision.Data.Raw)
	if err == nil {
		err = AsksFor(l.Server, run)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}
