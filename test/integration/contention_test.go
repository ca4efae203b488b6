package integration

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

const (
	contenders = 4
	contested  = 20
	// mostWrites are the pointer of the first content, the plan, its steps, its end, and one for another reason.
	mostWrites = 8
)

// Several processes that all believe they lead decide about the same servers at the same time, each on what its cache
// shows. A rollout begins once all the same: whoever writes at a version that is no longer the latest has decided
// nothing, and equal decisions have equal ids.
var _ = Describe("Four operators over twenty servers", func() {
	It("make one plan and one candidate for each content of each", func() {
		s := newEnv()
		var operators []*operator
		for range contenders {
			op := &operator{env: s, requests: &kit.Requests{}}
			op.start(controllers.Options{})
			DeferCleanup(func() { op.stop() })
			operators = append(operators, op)
		}
		s.RunProxies()
		for i := range contested {
			s.Apply(git, server(nameOf(i), successive))
		}
		for i := range contested {
			atRest(s, nameOf(i))
		}
		servers, sets := s.RecordAll(&v1alpha1.MCPServer{}), s.RecordAll(&appsv1.StatefulSet{})
		for i := range contested {
			s.Apply(git, server(nameOf(i), successive+"\nargs: [two]"))
		}
		var all v1alpha1.MCPServerList
		s.AwaitAll(&all, "all rollouts have ended", func() error {
			for i := range all.Items {
				status := all.Items[i].Status
				if status.Rollout != nil || status.LastRollout == nil || status.Active.Slot != 2 {
					return fmt.Errorf("%s: rollout %+v, last %+v", all.Items[i].Name, status.Rollout, status.LastRollout)
				}
			}
			return nil
		})
		planned := onePlanEach(servers)
		oneCandidateEach(sets, planned)
		written, lost := 0, 0
		for _, op := range operators {
			for _, request := range op.writes(0) {
				switch {
				case request.Manager != string(contract.MCPServerPlan):
				case request.Code == 409:
					lost++
				default:
					written++
				}
			}
		}
		GinkgoWriter.Printf("%d plans written, %d lost against another operator\n", written, lost)
		Expect(lost).NotTo(BeZero(), "the operators met")
		Expect(written).To(BeNumerically("<=", mostWrites*contested), "each step is written by one of them")
	})
})

func nameOf(i int) string { return fmt.Sprintf("echo-%d", i) }

// onePlanEach holds that each server has one rollout for each content, and returns when each was first read.
func onePlanEach(servers *kit.Recording) map[string]kit.State {
	GinkgoHelper()
	ids, first := map[string]string{}, map[string]kit.State{}
	servers.Check(func(f kit.State) error {
		seen := &v1alpha1.MCPServer{}
		if err := decode(f.Object, seen); err != nil || seen.Status.Rollout == nil {
			return err
		}
		rollout := seen.Status.Rollout
		key := fmt.Sprintf("%s/%d", seen.Name, rollout.Target.Generation)
		switch id := ids[key]; id {
		case rollout.ID:
		case "":
			ids[key], first[seen.Name] = rollout.ID, f
		default:
			return fmt.Errorf("%s has the plans %s and %s", key, id, rollout.ID)
		}
		return nil
	})
	Expect(ids).To(HaveLen(contested), "a plan for each server")
	return first
}

// oneCandidateEach holds that one StatefulSet was made in the second slot of each server, after its plan was stored.
func oneCandidateEach(sets *kit.Recording, planned map[string]kit.State) {
	GinkgoHelper()
	made := map[string]string{}
	sets.Check(func(f kit.State) error {
		if f.Object.GetLabels()[workload.LabelComponent] != workload.Slot2.Component() {
			return nil
		}
		name, uid := f.Object.GetLabels()[workload.LabelServer], string(f.Object.GetUID())
		switch had := made[name]; {
		case had == uid:
		case had != "":
			return fmt.Errorf("%s has the candidates %s and %s", name, had, uid)
		case !kit.Before(planned[name], f):
			return fmt.Errorf("%s has a candidate before its plan is stored", name)
		}
		made[name] = uid
		return nil
	})
	Expect(made).To(HaveLen(contested), "a candidate for each server")
}
