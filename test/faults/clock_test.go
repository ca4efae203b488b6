package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/leaderelection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// off is a clock that is off by an hour or so.
func off(by time.Duration) func() time.Time {
	return func() time.Time { return time.Now().Add(by) }
}

// Clocks of different machines disagree. Nothing rests on what they say.
var _ = Describe("Clocks that disagree", func() {
	DescribeTable("change nothing of a life, with the operator's", func(by time.Duration) {
		s := onStage()
		op := operate(s, func(o *operator) { o.options.Now = off(by) })
		r := s.RunProxies()
		r.Now = off(-by)
		echo := newLife(s, "echo")
		echo.live(brief[:3])
		op.rests()

		// The end of calls is waited for by the operator's own clock.
		release := plane.Kubelet.HoldTermination(func(p *corev1.Pod) bool {
			return p.Namespace == s.Namespace && p.Labels[workload.LabelComponent] == workload.ComponentProxy
		})
		defer release()
		echo.remove()
		server := echo.server()
		s.Await(server, "the server says that it goes", func() error {
			if c := meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionReady); c.Reason != v1alpha1.ReasonDeleting {
				return fmt.Errorf("it says %s", c.Reason)
			}
			return nil
		})
		op.rests()
		backend := &appsv1.StatefulSet{}
		backend.Name = workload.BackendName(echo.name)
		s.Read(backend)
		Expect(backend.DeletionTimestamp).To(BeNil(), "the backend goes while proxies still answer")
		release()
		echo.ended()
		bounded(op.requests, s.Namespace, 2*38)
		bounded(r.Requests, s.Namespace, 2*15)
	},
		Entry("an hour behind", -time.Hour),
		Entry("an hour ahead", time.Hour),
	)

	It("make no lead change hands", func() {
		s := onStage()
		s.Apply("admin", mayLead)
		s.Apply("admin", operatorLeads)
		var terms sync.Map
		behind := elect(s, "behind", -time.Hour, &terms)
		Eventually(func() bool { _, leads := terms.Load("behind"); return leads }, kit.Patience, "20ms").Should(BeTrue())
		ahead := elect(s, "ahead", time.Hour, &terms)
		DeferCleanup(ahead)
		renewals(s, "behind", 5)
		_, both := terms.Load("ahead")
		Expect(both).To(BeFalse(), "the lead was taken from one who renews it")
		behind()
		Eventually(func() bool { _, leads := terms.Load("ahead"); return leads }, kit.Patience, "20ms").Should(BeTrue())
		renewals(s, "ahead", 5)
	})
})

// What the chart gives the operator in its own namespace.
const (
	mayLead = `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: lead}, rules: [
  {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [freehold-operator], verbs: [get, create, patch]}]}`
	operatorLeads = `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: lead},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: lead},
  subjects: [{kind: ServiceAccount, name: freehold-operator, namespace: freehold-system}]}`
)

// elect runs for the lead with a clock that is off.
func elect(s *kit.Stage, id string, by time.Duration, terms *sync.Map) (stop func()) {
	GinkgoHelper()
	config := s.AsServiceAccount(kit.SystemNamespace, ownership.IdentityOperator)
	through(config, func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
		return next.RoundTrip(shifted(req, by))
	})
	direct, err := client.New(config, client.Options{Scheme: s.Scheme, Mapper: s.Client.RESTMapper()})
	Expect(err).NotTo(HaveOccurred())
	lock := apply.NewLeaseLock(controllers.NewApplier(direct, direct).As(ownership.OperatorLease), types.NamespacedName{Namespace: s.Namespace, Name: ownership.LeaseName}, id)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 10 * time.Second, RenewDeadline: 8 * time.Second, RetryPeriod: 200 * time.Millisecond, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { terms.Store(id, true) }, OnStoppedLeading: func() {},
		},
	})
	Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(s.Ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); elector.Run(ctx) }()
	return func() { cancel(); <-ended }
}

// renewals waits until a holder has renewed the lease so often.
func renewals(s *kit.Stage, holder string, n int) {
	GinkgoHelper()
	lease, renewed := &coordinationv1.Lease{}, map[string]bool{}
	lease.Name = ownership.LeaseName
	s.Await(lease, holder+" renews", func() error {
		if h := lease.Spec.HolderIdentity; h == nil || *h != holder {
			return fmt.Errorf("somebody else holds the lease")
		}
		if renewed[lease.ResourceVersion] = true; len(renewed) < n {
			return fmt.Errorf("%d renewals", len(renewed))
		}
		return nil
	})
}

// shifted is a request whose times are those of a clock that is off.
func shifted(req *http.Request, by time.Duration) *http.Request {
	defer GinkgoRecover()
	if req.Body == nil {
		return req
	}
	body := map[string]any{}
	Expect(json.NewDecoder(req.Body).Decode(&body)).To(Succeed())
	if spec, ok := body["spec"].(map[string]any); ok {
		for field, value := range spec {
			text, isText := value.(string)
			at, err := time.Parse(time.RFC3339Nano, text)
			if isText && err == nil && strings.HasSuffix(field, "Time") {
				spec[field] = at.Add(by).Format("2006-01-02T15:04:05.000000Z07:00")
			}
		}
	}
	text, err := json.Marshal(body)
	Expect(err).NotTo(HaveOccurred())
	req = req.Clone(req.Context())
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return req
}
