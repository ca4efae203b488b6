package runner

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	freehold "github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/backend"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// steps is a runner whose passes the test makes, by the test's clock.
type steps struct {
	*server
	runner *backend.Runner
	clock  time.Time
	sent   kit.Requests
	// refuse, where it is set, answers a request in the API server's place if it
	// returns a text.
	refuse func(*http.Request) string
}

func (s *server) steps(run runconfig.RunConfig) *steps {
	s.Helper()
	p := &steps{server: s, clock: time.Now()}
	config := p.sent.Wrap(plane.AsServiceAccount(s.Namespace, workload.RunnerName("echo")))
	kit.Through(config, p.carry)
	direct, err := client.New(config, client.Options{Scheme: s.Scheme, Mapper: s.Client.RESTMapper()})
	s.Must(err, "connecting as the runner")
	now := func() time.Time { return p.clock }
	p.runner = &backend.Runner{
		Reader: direct, Live: direct, Applier: freehold.NewApplier(direct, direct), Run: run,
		Now: now,
	}
	p.runner.Applier.Now = now
	p.runner.Env = revision.Revision{Generation: run.Workload.Generation, Hash: run.Workload.Hash}
	return p
}

func (p *steps) carry(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	if p.refuse != nil && req.Method != http.MethodGet {
		if text := p.refuse(req); text != "" {
			return kit.Refusal(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, text).Carry(req, next)
		}
	}
	return next.RoundTrip(req)
}

// pass makes a pass that returns no error.
func (p *steps) pass() backend.Report {
	p.Helper()
	report, err := p.runner.Pass(p.Ctx)
	p.Must(err, "making a pass")
	return report
}

// applied is BackendApplied as it stands.
func (s *server) applied() metav1.Condition {
	s.Helper()
	live := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: "echo"}}
	s.Read(live)
	if c := meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionBackendApplied); c != nil {
		return *c
	}
	return metav1.Condition{}
}

const (
	theirService = "apiVersion: v1\nkind: Service\nmetadata: {name: echo-backend, labels: {app.kubernetes.io/name: " +
		"them}}\n"
	theirSet = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: echo-backend}\nspec: {revisionHistoryLimit: 7}\n"
)

// taken reports whether the intruder holds fields of an object.
func (s *server) taken(object client.Object) bool {
	s.Helper()
	s.Read(object)
	return slices.ContainsFunc(object.GetManagedFields(),
		func(e metav1.ManagedFieldsEntry) bool { return e.Manager == "intruder" })
}

func TestAConflictIsToldAndEachFieldIsRepairedWhenItMayBe(t *testing.T) {
	for name, tc := range map[string]struct {
		theirs string
		object client.Object
	}{
		"Service":     {theirService, service("echo-backend")},
		"StatefulSet": {theirSet, statefulSet()},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			p := s.steps(s.claim(1, "echo:1"))
			p.pass()
			for i := range 3 {
				s.Force("intruder", tc.theirs)
				report := p.pass()
				if len(report.Written) != 1 || !slices.Equal(report.Written[0].Repaired.Others, []string{"intruder"}) ||
					s.taken(tc.object) {
					t.Errorf("after change %d: %v", i+1, report.Written)
				}
				if report.Finding.Reason != v1alpha1.ReasonApplied {
					t.Errorf("after change %d it says %v", i+1, report.Finding)
				}
			}
			p.clock = p.clock.Add(30 * time.Second)
			s.Force("intruder", tc.theirs)
			s.Delete(service("echo-backend-headless"))
			report := p.pass()
			if report.Again <= 0 || report.Again > 31*time.Second || len(report.Written) != 0 || !s.taken(tc.object) {
				t.Fatalf("the next pass is due in %s, %v", report.Again, report.Written)
			}
			if c := s.applied(); c.Reason != v1alpha1.ReasonFieldConflict ||
				!strings.Contains(c.Message, "of "+name+" echo-backend") {
				t.Errorf("it says %v", c)
			}
			if !s.Exists(service("echo-backend-headless")) {
				t.Error("the conflict kept another object away")
			}
			p.clock = p.clock.Add(report.Again)
			if report = p.pass(); len(report.Written) != 1 || s.taken(tc.object) || report.Again != 0 ||
				s.applied().Reason != v1alpha1.ReasonApplied {
				t.Errorf("it was not repaired: %v, and %v", report, s.applied())
			}
		})
	}
}

// What two replicas say of a conflict follows from what stands there, so that they
// do not say it in turns.
func TestReplicasSayTheSameOfAConflict(t *testing.T) {
	s := newServer(t)
	run := s.claim(1, "echo:1")
	one, other := s.steps(run), s.steps(run)
	one.pass()
	other.pass()
	for _, each := range []*steps{one, other} {
		for range 3 {
			s.Force("intruder", theirService)
			each.pass()
		}
	}
	s.Force("intruder", theirService)
	one.pass()
	marks := []kit.Mark{one.sent.Mark(), other.sent.Mark()}
	for range 10 {
		other.pass()
		one.pass()
	}
	if n := len(one.sent.Since(marks[0]).Writes()) + len(other.sent.Since(marks[1]).Writes()); n != 0 ||
		s.applied().Reason != v1alpha1.ReasonFieldConflict {
		t.Errorf("they wrote %d times, and say %v", n, s.applied())
	}
	other.clock = other.clock.Add(other.pass().Again)
	for range 10 {
		other.pass()
		one.pass()
	}
	// The repair, and the report of its end.
	if n := len(one.sent.Since(marks[0]).Writes()) + len(other.sent.Since(marks[1]).Writes()); n != 2 ||
		s.applied().Reason != v1alpha1.ReasonApplied {
		t.Errorf("they wrote %d times, and say %v", n, s.applied())
	}
}

func TestAConflictOverTheReportIsNoErrorAndHoldsNothingUp(t *testing.T) {
	s := newServer(t)
	p := s.steps(s.claim(1, "echo:1"))
	p.pass()
	var report backend.Report
	for i := 0; i < 8 && s.applied().Reason != "Theirs"; i++ {
		theirs := s.Intent(fmt.Sprintf("apiVersion: freehold.dev/v1alpha1\nkind: MCPServer\nmetadata: {name: echo}\n"+
			"status: {conditions: "+
			"[{type: BackendApplied, status: 'False', reason: Theirs, message: theirs, lastTransitionTime: %q}]}\n",
			p.clock.Format(time.RFC3339)))
		s.Must(s.Client.Status().Apply(s.Ctx, client.ApplyConfigurationFromUnstructured(theirs),
			client.FieldOwner("intruder"), client.ForceOwnership),
			"forcing a condition")
		s.Delete(service("echo-backend"))
		report = p.pass()
		if !s.Exists(service("echo-backend")) {
			t.Error("the conflict kept an object away")
		}
	}
	if c := s.applied(); c.Reason != "Theirs" || report.Again <= 0 || report.Again > time.Minute {
		t.Fatalf("after eight times it says %v, and passes again in %s", c, report.Again)
	}
	p.clock = p.clock.Add(report.Again)
	p.pass()
	if c := s.applied(); c.Reason != v1alpha1.ReasonApplied {
		t.Errorf("a minute later it says %v", c)
	}
}

func TestWhatWasHandedOverIsTold(t *testing.T) {
	s := newServer(t)
	run := s.claim(1, "echo:1")
	s.Must(s.Client.Create(s.Ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: "echo-backend",
			Annotations: map[string]string{contract.AdoptAnnotation: "true"},
		},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "theirs", Port: 1}}},
	}, client.FieldOwner("by-hand")), "making a Service by hand")
	report := s.steps(run).pass()
	if len(report.Written) != 1 || report.Written[0].TakenOver.String() != "Service echo-backend from by-hand" {
		t.Errorf("it told %v", report.Written)
	}
}

// Each change of the report would wake the pass that is refused again.
func TestARefusalInOtherWordsEachTimeIsWrittenNowAndThen(t *testing.T) {
	s := newServer(t)
	p := s.steps(s.claim(1, "echo:1"))
	tries := 0
	p.refuse = func(r *http.Request) string {
		if !strings.Contains(r.URL.Path, "/statefulsets/") {
			return ""
		}
		tries++
		return fmt.Sprintf("request %d is refused", tries)
	}
	says := func(number int) {
		t.Helper()
		if c := s.applied(); c.Reason != v1alpha1.ReasonApplyFailed ||
			!strings.HasSuffix(c.Message, fmt.Sprintf("request %d is refused", number)) {
			t.Errorf("it says %v", c)
		}
	}
	refused := func(times int) (writes int) {
		t.Helper()
		mark := p.sent.Mark()
		for range times {
			if _, err := p.runner.Pass(p.Ctx); err == nil {
				t.Error("nothing is tried again")
			}
		}
		return len(p.sent.Since(mark).Writes().Of("mcpservers/status"))
	}
	if n := refused(10); n != 2 { // it announces itself, and says why
		t.Errorf("%d reports", n)
	}
	says(1)
	p.clock = p.clock.Add(time.Minute)
	if n := refused(10); n != 1 {
		t.Errorf("%d reports a minute later", n)
	}
	says(11)
	p.refuse = nil
	p.pass()
	if c := s.applied(); c.Reason != v1alpha1.ReasonApplied {
		t.Errorf("it says %v", c)
	}
}

func TestARefusedReportIsTriedAgain(t *testing.T) {
	s := newServer(t)
	run := s.claim(1, "echo:1")
	p := s.steps(run)
	reports := func(r *http.Request) string {
		if strings.HasSuffix(r.URL.Path, "/status") {
			return "an old policy"
		}
		return ""
	}
	p.refuse = reports
	if report, err := p.runner.Pass(p.Ctx); err == nil || report.Waiting == "" || s.Exists(statefulSet()) {
		t.Errorf("its first report was refused: %v, %v", report, err)
	}
	p.refuse = nil
	p.pass()
	s.carries(1, "echo:1")

	p.runner.Learn(backend.Facts{Tools: new(int32(2))})
	p.refuse = reports
	if _, err := p.runner.Pass(p.Ctx); err == nil {
		t.Error("a refused report of what was learned is left at that")
	}
	p.refuse = nil
	p.pass()

	// A newer runner has reported: the refusal is the rule's, and ends by itself.
	newer := s.steps(s.claim(2, "echo:2"))
	newer.pass()
	if report := p.pass(); !strings.Contains(report.Waiting, "workload generation 2 has reported") {
		t.Errorf("it waits for %q", report.Waiting)
	}
}

// serviceCarries is the revision of a Service of the backend.
func (s *server) serviceCarries(name string) int64 {
	s.Helper()
	live := service(name)
	s.Read(live)
	rev, err := revision.Of(live.Annotations)
	s.Must(err, "reading the revision of a Service")
	return rev.Generation
}

// A change of the proxy alone is one report, and the revision on the StatefulSet. The
// Services keep theirs until they become different.
func TestAChangeOfTheProxyAloneIsTwoWrites(t *testing.T) {
	s := newServer(t)
	answers := backend.Facts{Answers: kit.Answers, Tools: new(int32(2))}
	pass := func(generation int64, image string) kit.Log {
		t.Helper()
		p := s.steps(s.claim(generation, image))
		p.runner.Learn(answers)
		p.pass()
		mark := p.sent.Mark()
		if p.pass(); len(p.sent.Since(mark).Writes()) != 0 {
			t.Errorf("generation %d does not come to rest: %s", generation, p.sent.Since(mark).Writes())
		}
		return p.sent.Since(0).Writes()
	}
	carry := func(service, headless int64) {
		t.Helper()
		if a, b := s.serviceCarries("echo-backend"), s.serviceCarries("echo-backend-headless"); a != service ||
			b != headless {
			t.Errorf("the Services carry %d and %d, want %d and %d", a, b, service, headless)
		}
	}
	pass(1, "echo:1")
	carry(1, 1)

	s.object.Spec.Proxy = &v1alpha1.ProxySpec{Port: 8000, AllowedOrigins: []string{"https://a.example.com"}}
	writes := pass(2, "echo:1")
	if len(writes) != 2 || len(writes.Of("mcpservers/status")) != 1 || len(writes.Of("statefulsets")) != 1 {
		t.Errorf("a change of the proxy: %s", writes)
	}
	s.carries(2, "echo:1")
	carry(1, 1)

	// What another manager changed is set back under the present revision.
	s.Force("intruder", theirService)
	s.object.Spec.Proxy.AllowedOrigins = nil
	if writes = pass(3, "echo:1"); len(writes) != 3 || len(writes.Of("services")) != 1 {
		t.Errorf("a change of the proxy, and a Service that is different: %s", writes)
	}
	carry(3, 1)

	// Other content of the backend behind the same ports is no other Service.
	if writes = pass(4, "echo:2"); len(writes.Of("services")) != 0 {
		t.Errorf("another image: %s", writes)
	}
	carry(3, 1)
	s.object.Spec.Port = 9000
	if writes = pass(5, "echo:2"); len(writes.Of("services")) != 2 {
		t.Errorf("another port: %s", writes)
	}
	carry(5, 5)
}
