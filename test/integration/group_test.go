package integration

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

func group(name string) string {
	return "apiVersion: freehold.dev/v1alpha1\nkind: MCPGroup\nmetadata: {name: " + name + "}\n"
}

// groupSays waits until a group has a reason for Ready, and these members: KIND/NAME, with a ! behind one that is not
// ready.
func groupSays(s *kit.Env, name, reason string, members ...string) *v1alpha1.MCPGroup {
	GinkgoHelper()
	live := &v1alpha1.MCPGroup{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.Namespace}}
	s.Await(live, fmt.Sprintf("%s says %s of %v", name, reason, members), func() error {
		var listed []string
		up := 0
		for _, m := range live.Status.Members {
			text := m.Kind + "/" + m.Name
			if m.Ready {
				up++
			} else {
				text += "!"
			}
			listed = append(listed, text)
		}
		c := meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionReady)
		if c == nil || c.Reason != reason || c.ObservedGeneration != live.Generation ||
			strings.Join(listed, " ") != strings.Join(members, " ") ||
			int(ptr.Deref(live.Status.MemberCount, -1)) != len(members) || int(ptr.Deref(live.Status.ReadyMembers, -1)) != up {
			return fmt.Errorf("its status is %+v", live.Status)
		}
		return nil
	})
	return live
}

var _ = Describe("A group", func() {
	It("tells who belongs to it and who is ready, restarts nobody, and is held while somebody belongs", func() {
		s := newEnv()
		op := operate(s)
		s.RunProxies()
		s.Apply(git, server("git", ""))
		s.Apply(git, remoteProxy("docs", ""))
		ready(s, "git")
		remoteSaying(s, "docs", v1alpha1.ReasonReady)
		pods := uids(s)

		s.Apply(git, server("git", "groupRef: {name: code}"))
		missing := func(want bool) {
			GinkgoHelper()
			live := serverOf(s, "git")
			s.Await(live, "GroupMissing", func() error {
				c := meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionGroupMissing)
				if (c != nil) != want || !meta.IsStatusConditionTrue(live.Status.Conditions, v1alpha1.ConditionReady) {
					return fmt.Errorf("its conditions are %+v", live.Status.Conditions)
				}
				return nil
			})
		}
		missing(true)
		s.Apply(git, group("code"))
		missing(false)
		s.Apply(git, remoteProxy("docs", "groupRef: {name: code}"))
		live := groupSays(s, "code", v1alpha1.ReasonValid, "MCPRemoteProxy/docs", "MCPServer/git")
		Expect(live.Finalizers).To(Equal([]string{contract.ConfigOf("MCPGroup").Finalizer}))
		s.Owns(live, string(contract.ConfigOf("MCPGroup").StatusManager), "status.members", "status.memberCount",
			"status.readyMembers")

		quiet(op)
		before, mark := s.Versions(), op.requests.Mark()
		op.restart()
		quiet(op)
		s.NothingMoved(before)
		Expect(op.writes(mark)).To(BeEmpty(), op.writes(mark).String())
		Expect(uids(s)).To(ConsistOf(pods), "joining replaced a pod\n%s", s.Surroundings())

		s.Apply(git, server("git", "groupRef: {name: code}\nsuspend: true"))
		groupSays(s, "code", v1alpha1.ReasonValid, "MCPRemoteProxy/docs", "MCPServer/git!")
		s.Apply(git, remoteProxy("docs", ""))
		s.Delete(live)
		groupSays(s, "code", v1alpha1.ReasonDeleting, "MCPServer/git!")
		Expect(remoteSaying(s, "docs", v1alpha1.ReasonReady).Status.Workload.Generation).To(Equal(int64(1)))
		s.Apply(git, server("git", "suspend: true"))
		s.AwaitGone(live)
	})
})
