package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// successor is a server whose backend serves with content of generation 1, and the runner of content of generation 2
// that is to come up beside it.
type successor struct {
	*steps
	incumbent, candidate v1alpha1.BackendContent
}

func newSuccessor(t *testing.T) *successor {
	t.Helper()
	s := newServer(t)
	first := s.claim(1, "echo:1")
	s.steps(first).pass()
	x := &successor{incumbent: contentOf(first, 1)}
	s.store(first, nil)
	next := s.claimBeside(2, "echo:2")
	x.steps, x.candidate = s.steps(next), contentOf(next, 2)
	x.plan(x.incumbent, nil)
	s.grant(x.incumbent)
	return x
}

func contentOf(run runconfig.RunConfig, slot int32) v1alpha1.BackendContent {
	return v1alpha1.BackendContent{
		Slot: slot, Hash: run.Rendering.Backend, Generation: run.Workload.Generation, Port: run.Backend.PodPort(),
		Path: run.Backend.Path, Transport: v1alpha1.Transport(run.Backend.Transport),
	}
}

// claimBeside claims content that is to come up beside what serves.
func (s *server) claimBeside(generation int64, image string) runconfig.RunConfig {
	s.Helper()
	run := s.claim(generation, image)
	s.AsController().ApplyStatus(string(contract.MCPServerWorkload), fmt.Sprintf(
		"apiVersion: freehold.dev/v1alpha1\nkind: MCPServer\nmetadata: {name: echo}\nstatus: {workload: {generation: %d, "+
			"hash: %s, strategy: Successive}}\n", generation, run.Workload.Hash))
	return run
}

// store has history keep the content of a run config.
func (s *server) store(run runconfig.RunConfig, edit func(*appsv1.ControllerRevision)) {
	s.Helper()
	data, err := runconfig.Content{Hash: run.Rendering.Backend, Backend: run.Backend}.Encode()
	s.Must(err, "encoding content")
	record := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: workload.ContentName("echo", run.Rendering.Backend),
			Annotations:     revision.Revision(run.Workload).Annotations(),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(&s.object, contract.MCPServer.GroupVersionKind)},
		},
		Revision: run.Workload.Generation,
	}
	record.Data.Raw = data
	if edit != nil {
		edit(record)
	}
	s.Must(s.Client.Create(s.Ctx, record), "keeping content")
}

// grant lets the runner read what history has of contents, and waits until the API server does.
func (s *server) grant(kept ...v1alpha1.BackendContent) {
	s.Helper()
	s.Must(s.Client.Apply(s.Ctx, workload.Role(workload.OwnerOf(&s.object), kept...), client.FieldOwner("operator")),
		"applying what the runner may do")
	runner, err := client.New(plane.AsServiceAccount(s.Namespace, workload.RunnerName("echo")),
		client.Options{Scheme: s.Scheme, Mapper: s.Client.RESTMapper()})
	s.Must(err, "connecting as the runner")
	for _, content := range kept {
		key := client.ObjectKey{Namespace: s.Namespace, Name: workload.ContentName("echo", content.Hash)}
		for end := time.Now().Add(kit.Patience); ; time.Sleep(5 * time.Millisecond) {
			err := runner.Get(s.Ctx, key, &appsv1.ControllerRevision{})
			if !apierrors.IsForbidden(err) {
				break
			}
			if time.Now().After(end) {
				s.Fatal(err)
			}
		}
	}
}

// plan has the status say what gets the calls, and which rollout there is.
func (s *server) plan(active v1alpha1.BackendContent, rollout *v1alpha1.RolloutStatus) {
	s.Helper()
	status, err := json.Marshal(map[string]any{"status": map[string]any{
		"active": v1alpha1.ActiveBackend{BackendContent: active, Since: metav1.Now()}, "rollout": rollout,
	}})
	s.Must(err, "encoding a plan")
	intent := map[string]any{}
	s.Must(json.Unmarshal(status, &intent), "reading a plan")
	if rollout == nil {
		delete(intent["status"].(map[string]any), "rollout")
	}
	maps.Copy(intent, map[string]any{
		"apiVersion": "freehold.dev/v1alpha1", "kind": "MCPServer", "metadata": map[string]any{"name": "echo"},
	})
	text, err := json.Marshal(intent)
	s.Must(err, "encoding a plan")
	s.AsController().ApplyStatus(string(contract.MCPServerPlan), string(text))
}

// rolls is the rollout to the candidate, up to a step.
func (x *successor) rolls(step string) *v1alpha1.RolloutStatus {
	rollout, state := &v1alpha1.RolloutStatus{ID: "1", Target: x.candidate, From: &x.incumbent}, v1alpha1.StepDone
	for _, name := range []string{"Proxies", "Candidate", "Check", "Acknowledge", "Drain", "Teardown"} {
		s := v1alpha1.RolloutStep{Name: name, State: state}
		if name == step {
			s.State, state = v1alpha1.StepActive, v1alpha1.StepWaiting
		}
		rollout.Steps = append(rollout.Steps, s)
	}
	return rollout
}

// reads are the reads of history by the runner.
func (x *successor) reads(mark kit.Mark) int {
	return len(x.sent.Since(mark).Of("controllerrevisions"))
}

func set(name string) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// stands reads the StatefulSet of a slot.
func (s *server) stands(slot workload.Slot) *appsv1.StatefulSet {
	s.Helper()
	live := set(slot.Name("echo"))
	s.Read(live)
	return live
}

// fare has pods of an image fare so, and waits until the StatefulSet of a slot says that so many of it are ready.
func (s *server) fare(slot workload.Slot, image string, fate kit.Fate, ready int32) {
	s.Helper()
	s.Kubelet.Image(image, fate)
	live := set(slot.Name("echo"))
	s.Await(live, "its pods fare otherwise", func() error {
		if live.Status.ReadyReplicas != ready || live.Status.UpdatedReplicas != 1 {
			return fmt.Errorf("%+v", live.Status)
		}
		return nil
	})
}

// template is the pod template of a slot, as the API server has it.
func (s *server) template(slot workload.Slot) string {
	s.Helper()
	data, err := json.Marshal(s.stands(slot).Spec.Template)
	s.Must(err, "encoding a pod template")
	return string(data)
}

func TestTheIncumbentIsKeptUntilItsSuccessorHasItsTurn(t *testing.T) {
	x := newSuccessor(t)
	pods, before := x.template(1), x.stands(1)
	if report := x.pass(); !strings.Contains(report.Waiting, "no rollout is to this one") {
		t.Errorf("it waits for %q", report.Waiting)
	}
	for name, stray := range map[string]string{
		"StatefulSet": theirSet, "Service": theirService,
		"image": "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: echo-backend}\nspec: {template: {spec: " +
			"{containers: [{name: " + podtemplate.ServerContainer + ", image: 'evil:1'}]}}}\n",
	} {
		x.Force("intruder", stray)
		x.pass()
		// Who stated an item of a list keeps its name.
		if name != "image" && (x.taken(statefulSet()) || x.taken(service("echo-backend"))) || x.template(1) != pods {
			t.Errorf("%s: it is not repaired", name)
		}
	}
	for _, gone := range []client.Object{service("echo-backend"), service("echo-backend-headless")} {
		x.Delete(gone)
		x.pass()
		if !x.Exists(gone) || x.stands(1).UID != before.UID {
			t.Errorf("%s is not made again", gone.GetName())
		}
	}
	x.Delete(statefulSet())
	x.pass()
	after := x.stands(1)
	if diff := cmp.Diff(pods, x.template(1)); diff != "" || after.UID == before.UID {
		t.Errorf("other pods are made (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(before.Annotations, after.Annotations); diff != "" {
		t.Errorf("it has another revision (-before +after):\n%s", diff)
	}
	if n := x.reads(0); n != 1 {
		t.Errorf("history was read %d times", n)
	}
	mark := x.sent.Mark()
	x.pass()
	if sent := x.sent.Since(mark); len(sent.Writes()) != 0 || x.reads(mark) != 0 {
		t.Errorf("at rest it sends %s", sent)
	}
	live := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: "echo"}}
	x.Read(live)
	if live.Status.Runtime.Generation != 1 || x.Exists(set("echo-slot2")) {
		t.Errorf("it has done more: %v", live.Status.Runtime)
	}
}

func TestContentComesUpBesideWhatServesAndKeepsItUntilItsSessionsEnded(t *testing.T) {
	x := newSuccessor(t)
	pods, before := x.template(1), x.stands(1)
	x.plan(x.incumbent, x.rolls("Proxies"))
	if report := x.pass(); report.Waiting == "" || x.Exists(set("echo-slot2")) {
		t.Errorf("it waits for %q", report.Waiting)
	}
	for _, step := range []string{"Candidate", "Check"} {
		x.plan(x.incumbent, x.rolls(step))
		if report := x.pass(); report.Finding.Reason != v1alpha1.ReasonApplied {
			t.Errorf("%s: it says %v", step, report.Finding)
		}
		if image := x.stands(2).Spec.Template.Spec.Containers[0].Image; image != "echo:2" {
			t.Errorf("%s: slot 2 has %s", step, image)
		}
	}
	x.plan(x.incumbent, x.rolls("Proxies")) // a rollout goes back to what stands, with sessions
	x.Delete(service("echo-slot2"))
	if report := x.pass(); report.Waiting == "" && report.Finding.Reason != v1alpha1.ReasonStandingBack ||
		!x.Exists(service("echo-slot2")) {
		t.Errorf("what it goes back to lost its Service: %+v", report)
	}
	if after := x.stands(1); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the incumbent was written: %v", after.ManagedFields)
	}
	x.plan(x.candidate, x.rolls("Drain"))
	x.pass()
	for _, gone := range []client.Object{service("echo-backend"), statefulSet()} {
		x.Delete(gone)
		x.pass()
		if !x.Exists(gone) || x.template(1) != pods {
			t.Errorf("what has sessions lost %T", gone)
		}
	}
	if n := x.reads(0); n != 1 {
		t.Errorf("history was read %d times", n)
	}
	x.plan(x.candidate, nil)
	x.grant()
	x.Delete(statefulSet())
	mark := x.sent.Mark()
	x.Delete(service("echo-slot2"))
	if x.pass(); x.Exists(statefulSet()) || !x.Exists(service("echo-slot2")) || x.reads(mark) != 0 {
		t.Error("it goes on to keep what the status does not name")
	}
	mark = x.sent.Mark()
	if x.pass(); len(x.sent.Since(mark).Writes()) != 0 {
		t.Errorf("at rest it writes %s", x.sent.Since(mark).Writes())
	}
}

func TestAMissingRecordIsSaidWhereSomethingIsToBeRepaired(t *testing.T) {
	first, record := runconfig.RunConfig{}, (*appsv1.ControllerRevision)(nil)
	for name, tc := range map[string]struct {
		edit func(*appsv1.ControllerRevision)
		says string
	}{
		"missing": {nil, "is missing"},
		"other content": {func(r *appsv1.ControllerRevision) {
			r.Data.Raw = []byte(strings.Replace(string(r.Data.Raw), "echo:1", "evil:1", 1))
		}, "has hash"},
		"another content's": {func(r *appsv1.ControllerRevision) { r.Data = record.Data }, "has other content"},
		"not controlled":    {func(r *appsv1.ControllerRevision) { r.OwnerReferences[0].Controller = nil }, "this server's"},
		"nobody's":          {func(r *appsv1.ControllerRevision) { r.OwnerReferences = nil }, "is not this server's"},
		"of no number":      {func(r *appsv1.ControllerRevision) { r.Annotations = nil }, "which was not claimed"},
		"of a number to come": {func(r *appsv1.ControllerRevision) {
			r.Annotations[revision.AnnotationGeneration] = "9"
		}, "generation 9"},
		"of the number of the keeper's own": {func(r *appsv1.ControllerRevision) {
			r.Annotations[revision.AnnotationGeneration] = "2"
		}, "generation 2"},
	} {
		t.Run(name, func(t *testing.T) {
			x := newSuccessor(t)
			first = x.runner.Run
			x.store(first, nil)
			record = &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
				Name: workload.ContentName("echo", first.Rendering.Backend),
			}}
			x.Read(record)
			kept := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
				Name: workload.ContentName("echo", x.incumbent.Hash),
			}}
			x.Read(kept)
			x.Delete(kept)
			again := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
				Name: kept.Name, Namespace: kept.Namespace, Annotations: kept.Annotations, OwnerReferences: kept.OwnerReferences,
			}, Data: kept.Data, Revision: kept.Revision}
			good := again.DeepCopy()
			if tc.edit != nil {
				tc.edit(again)
				x.Must(x.Client.Create(x.Ctx, again), "making a record")
			}
			mark := x.sent.Mark()
			if report := x.pass(); report.Waiting == "" || len(x.sent.Since(mark).Writes()) != 0 {
				t.Errorf("while all stands it says %v", report.Finding)
			}
			x.Delete(statefulSet())
			// While proxies roll those of the incumbent make it again: they would stand back from a report.
			x.plan(x.incumbent, x.rolls("Proxies"))
			report := x.pass()
			if c := x.applied(); report.Waiting == "" || report.Again != time.Minute || c.Reason != v1alpha1.ReasonApplied {
				t.Errorf("before the candidate it says %v", c)
			}
			x.plan(x.incumbent, nil)
			report = x.pass()
			if c := x.applied(); c.Reason != v1alpha1.ReasonStandingBack || !strings.Contains(c.Message, tc.says) ||
				x.Exists(statefulSet()) || report.Again != time.Minute {
				t.Errorf("it says %v, and looks again in %s", c, report.Again)
			}
			// It holds nothing up.
			x.plan(x.incumbent, x.rolls("Candidate"))
			x.pass()
			if c := x.applied(); c.Reason != v1alpha1.ReasonApplied || !strings.Contains(c.Message, tc.says) ||
				!x.Exists(set("echo-slot2")) {
				t.Errorf("of the candidate it says %v", c)
			}
			if tc.edit != nil {
				x.Delete(again)
			}
			x.Must(x.Client.Create(x.Ctx, good), "making the record")
			x.plan(x.incumbent, nil)
			if x.pass(); !x.Exists(statefulSet()) || x.applied().Reason != v1alpha1.ReasonStandingBack ||
				strings.Contains(x.applied().Message, "kept") {
				t.Errorf("it says %v", x.applied())
			}
		})
	}
}

// A refusal has other words each time, and each report would wake the pass that is refused again.
func TestWhatTheAPIServerRefusesOfAnIncumbentIsReportedOnce(t *testing.T) {
	x := newSuccessor(t)
	x.Delete(statefulSet())
	tries := 0
	x.refuse = func(r *http.Request) string {
		if !strings.Contains(r.URL.Path, "/statefulsets/echo-backend") {
			return ""
		}
		tries++
		return fmt.Sprintf("request %d is refused", tries)
	}
	mark := x.sent.Mark()
	for range 5 {
		if _, err := x.runner.Pass(x.Ctx); err == nil {
			t.Error("nothing is tried again")
		}
	}
	if n := len(x.sent.Since(mark).Writes().Of("mcpservers/status")); n != 1 ||
		!strings.Contains(x.applied().Message, "the API server refuses that") {
		t.Errorf("%d reports, of which the last says %v", n, x.applied())
	}
}

// stale is a cache that stopped at a server.
type stale struct {
	client.Reader
	server v1alpha1.MCPServer
}

func (c *stale) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if into, is := obj.(*v1alpha1.MCPServer); is {
		c.server.DeepCopyInto(into)
		return nil
	}
	return c.Reader.Get(ctx, key, obj, opts...)
}

// A runner that was about to make the candidate wakes when that was given up and is gone.
func TestARunnerThatWakesAfterTheTeardownMakesNothing(t *testing.T) {
	x := newSuccessor(t)
	x.plan(x.incumbent, x.rolls("Candidate"))
	x.Read(&x.object)
	x.runner.Reader = &stale{Reader: x.runner.Reader, server: x.object}
	x.plan(x.incumbent, nil)
	if report := x.pass(); x.Exists(set("echo-slot2")) || x.Exists(service("echo-slot2")) {
		t.Errorf("it made the candidate: %v", report)
	}
}

// What is being deleted of an earlier candidate goes before anything is made in its slot.
func TestNothingIsAppliedToACandidateThatIsGoing(t *testing.T) {
	x := newSuccessor(t)
	x.plan(x.incumbent, x.rolls("Candidate"))
	x.pass()
	first := x.stands(2)
	x.Patch(first, "user", `{"metadata":{"finalizers":["example.com/wait"]}}`)
	x.Delete(set("echo-slot2"))
	x.Delete(service("echo-slot2"))
	x.Delete(service("echo-backend"))
	mark := x.sent.Mark()
	x.pass()
	if written := x.sent.Since(mark).Writes(); len(written) != 1 || written[0].Name != "echo-backend" ||
		!x.Exists(service("echo-backend")) {
		t.Errorf("it wrote %s", written)
	}
	x.Patch(x.stands(2), "user", `{"metadata":{"finalizers":null}}`)
	x.AwaitGone(set("echo-slot2"))
	x.pass()
	if again := x.stands(2); again.UID == first.UID || !x.Exists(service("echo-slot2")) {
		t.Error("it is not made again")
	}
}

// Each slot is closed to older content, whichever it is in.
func TestAnOlderRunnerWritesOverNothingNewerInEitherSlot(t *testing.T) {
	x := newSuccessor(t)
	x.plan(x.incumbent, x.rolls("Candidate"))
	x.Read(&x.object)
	x.runner.Reader = &stale{Reader: x.runner.Reader, server: x.object}
	x.pass()
	third := x.claimBeside(3, "echo:3")
	newer := x.server.steps(third)
	candidate := contentOf(third, 2)
	rollout := x.rolls("Candidate")
	rollout.Target = candidate
	x.plan(x.incumbent, rollout)
	newer.pass()
	before := x.stands(2)
	if before.Spec.Template.Spec.Containers[0].Image != "echo:3" {
		t.Fatalf("slot 2 has %v", before.Spec.Template.Spec.Containers[0])
	}
	mark := x.sent.Mark()
	report, err := x.runner.Pass(x.Ctx)
	if n := len(x.sent.Since(mark).Writes().Of("statefulsets", "services")); n != 0 {
		t.Errorf("it wrote %d times: %v, %v", n, report, err)
	}
	// Nor does it put back what later content has replaced in its place.
	rollout.Target, rollout.From = contentOf(third, 1), nil
	x.plan(contentOf(third, 1), nil)
	x.AsController().ApplyStatus(string(contract.MCPServerWorkload), fmt.Sprintf(
		"apiVersion: freehold.dev/v1alpha1\nkind: MCPServer\nmetadata: {name: echo}\nstatus: {workload: {generation: 3, "+
			"hash: %s}}\n", third.Workload.Hash))
	newer.pass()
	mark = x.sent.Mark()
	report, err = x.runner.Pass(x.Ctx)
	if n := len(x.sent.Since(mark).Writes().Of("statefulsets", "services")); n != 0 ||
		x.stands(1).Spec.Template.Spec.Containers[0].Image != "echo:3" {
		t.Errorf("it wrote %d times to what it kept: %v, %v", n, report, err)
	}
}
