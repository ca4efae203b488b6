package snapshot

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
)

// proxies is a cluster in which only pods are listed.
type proxies struct {
	client.Reader
	pods []corev1.Pod
	err  error
}

func (p proxies) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if bound := (&client.ListOptions{}).ApplyOptions(opts); bound.Limit == 0 {
		return errors.New("listed without a limit")
	}
	list.(*corev1.PodList).Items = p.pods
	return p.err
}

// Whoever dials no address dials itself.
func TestAProxyWithoutAnAddressIsNotAsked(t *testing.T) {
	if _, err := NewAskProxy()(t.Context(), &corev1.Pod{}); !errors.Is(err, errNoAddress) {
		t.Errorf("it says %v", err)
	}
}

// What a proxy does not tell is not known, and none is asked before a rollout waits for that.
func TestWhatProxiesTell(t *testing.T) {
	pod := func(name string, phase corev1.PodPhase) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PodStatus{Phase: phase}}
	}
	all := []corev1.Pod{
		pod("tells", corev1.PodRunning), pod("silent", corev1.PodRunning), pod("another's", corev1.PodRunning),
		pod("tells too", corev1.PodRunning), pod("starts", corev1.PodPending), pod("ended", corev1.PodSucceeded),
	}
	at := func(step string) *v1alpha1.RolloutStatus {
		return &v1alpha1.RolloutStatus{Steps: []v1alpha1.RolloutStep{{Name: step, State: v1alpha1.StepActive}}}
	}
	for name, tc := range map[string]struct {
		rollout       *v1alpha1.RolloutStatus
		cluster       proxies
		told, unknown int
	}{
		"no rollout":             {nil, proxies{pods: all}, 0, 0},
		"a step that needs none": {at(v1alpha1.StepCandidate), proxies{pods: all}, 0, 0},
		"Acknowledge":            {at(v1alpha1.StepAcknowledge), proxies{pods: all}, 2, 2},
		"Drain":                  {at(v1alpha1.StepDrain), proxies{pods: all}, 2, 2},
		"the pods are not known": {at(v1alpha1.StepDrain), proxies{err: errors.New("no")}, 0, 1},
	} {
		server := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: "echo", Namespace: "ns", UID: "uid"}}
		server.Status.Rollout = tc.rollout
		r := NewReader(kinds.Servers(), nil, tc.cluster)
		r.AskProxy = func(ctx context.Context, pod *corev1.Pod) (runconfig.Routing, error) {
			if _, bound := ctx.Deadline(); !bound {
				t.Error("it asks for ever")
			}
			switch pod.Name {
			case "tells", "tells too":
				return runconfig.Routing{ServerUID: "uid", Since: time.Now()}, nil
			case "another's":
				return runconfig.Routing{ServerUID: "other", Since: time.Now()}, nil
			}
			return runconfig.Routing{}, errors.New("refused")
		}
		if got := r.routing(t.Context(), Of(server, Objects{}, time.Now())); len(got.Told) != tc.told ||
			got.Unknown != tc.unknown {
			t.Errorf("%s: %d told, %d unknown; want %d and %d", name, len(got.Told), got.Unknown, tc.told, tc.unknown)
		}
	}
}

// Proxies that nobody reaches cost no pass its time, however long they are silent.
func TestSilentProxiesAreAskedRarely(t *testing.T) {
	server := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: "echo", Namespace: "ns", UID: "uid"}}
	server.Status.Rollout = &v1alpha1.RolloutStatus{
		Steps: []v1alpha1.RolloutStep{{Name: v1alpha1.StepDrain, State: v1alpha1.StepActive}},
	}
	asked, answers := 0, false
	r := NewReader(kinds.Servers(), nil, proxies{pods: []corev1.Pod{{Status: corev1.PodStatus{Phase: corev1.PodRunning}}}})
	r.AskProxy = func(context.Context, *corev1.Pod) (runconfig.Routing, error) {
		if asked++; answers {
			return runconfig.Routing{ServerUID: "uid"}, nil
		}
		return runconfig.Routing{}, errors.New("refused")
	}
	var lines []string
	ctx := logf.IntoContext(t.Context(),
		funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
	now := time.Now()
	ask := func(after time.Duration) Routing {
		now = now.Add(after)
		return r.routing(ctx, Of(server, Objects{}, now))
	}
	for range 3600 {
		if got := ask(time.Second); got.Unknown != 1 {
			t.Fatalf("%+v", got)
		}
	}
	if asked > 10 {
		t.Errorf("asked %d times in an hour", asked)
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "refused") {
		t.Errorf("it logs %q", lines)
	}
	answers, asked = true, 0
	ask(10 * time.Minute)
	if got := ask(time.Second); asked != 2 || len(got.Told) != 1 {
		t.Errorf("after an answer it is asked %d times, and tells %+v", asked, got)
	}

	// Sessions that go on for long are asked for rarely, unless a rollout is decided by that, or is another one.
	server.Status.Rollout.Steps[0].StartedAt = new(metav1.NewTime(now))
	asked = 0
	for range 3600 {
		if got := ask(time.Second); len(got.Told) != 1 {
			t.Fatalf("%+v", got)
		}
	}
	if asked < 10 || asked > 50 {
		t.Errorf("asked %d times in an hour of sessions", asked)
	}
	ask(0)
	asked, r.decides = 0, true
	if ask(0); asked != 1 {
		t.Error("a rollout is decided by old answers")
	}
	asked, r.decides, server.Status.Rollout.ID = 0, false, "other"
	if ask(0); asked != 1 {
		t.Error("a rollout has the answers of the one before")
	}
}
