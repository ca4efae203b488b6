package integration

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

// orphans is how many objects are deleted at each point of their life; FREEHOLD_ORPHANS sets it.
func orphans() int {
	if n, err := strconv.Atoi(os.Getenv("FREEHOLD_ORPHANS")); err == nil {
		return n
	}
	return 2
}

// point is where in its life an object is deleted.
type point struct {
	name string
	// made is its manifest, and reached brings it to the point.
	made    func(name string) string
	reached func(s *kit.Env, name string)
	remote  bool
}

func (p point) object(s *kit.Env, name string) client.Object {
	if p.remote {
		return &v1alpha1.MCPRemoteProxy{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.Namespace}}
	}
	return serverOf(s, name)
}

func (p point) key(name string) string {
	if p.remote {
		return name + ".remote"
	}
	return name
}

var guarded = func(name string) string { return server(name, "network: {egress: []}") }

var points = []point{
	{name: "ready", made: guarded, reached: func(s *kit.Env, name string) { ready(s, name) }},
	{
		name: "young", made: guarded,
		reached: func(s *kit.Env, name string) { s.Await(proxyOf(s, name), "it is there", func() error { return nil }) },
	},
	{name: "rolling", made: guarded, reached: func(s *kit.Env, name string) {
		ready(s, name)
		s.Apply(git, kit.Server(name, imageTwo, "network: {egress: []}\nproxy: {port: 8001}"))
	}},
	{name: "suspended", made: guarded, reached: func(s *kit.Env, name string) {
		ready(s, name)
		s.Apply(git, server(name, "network: {egress: []}\nsuspend: true"))
		stopped(s, name, v1alpha1.ReasonSuspended)
	}},
	{
		name: "remote", remote: true, made: func(name string) string { return remoteProxy(name, "") },
		reached: func(s *kit.Env, name string) { remoteSaying(s, name, v1alpha1.ReasonReady) },
	},
}

var _ = Describe("An object that is deleted with --cascade=orphan", func() {
	It("keeps all of its children, without their owner, at each point of its life", func() {
		s := newEnv()
		operate(s)
		s.RunProxies()
		at := map[string]point{}
		for _, p := range points {
			for i := range orphans() {
				name := fmt.Sprintf("%s-%d", p.name, i)
				at[name] = p
				s.Apply(git, p.made(name))
			}
		}
		kept := map[string][]metav1.PartialObjectMetadata{}
		for name, p := range at {
			p.reached(s, name)
			kept[name] = childrenOf(s, p.key(name))
			s.Delete(p.object(s, name), client.PropagationPolicy(metav1.DeletePropagationOrphan))
		}
		for name, p := range at {
			s.AwaitGone(p.object(s, name))
		}
		Consistently(func() error { // what is lost once stays so
			var lost []error
			for name, p := range at {
				lost = append(lost, orphaned(s, p.key(name), kept[name]))
			}
			return errors.Join(lost...)
		}).WithTimeout(settling).WithPolling(settling / 6).Should(Succeed())
		for name, p := range at {
			proxy := proxyOf(s, name)
			if p.remote {
				proxy.Name += "-remote"
			}
			s.Read(proxy)
			wanted := BeNumerically(">", 0)
			if p.name == "suspended" {
				wanted = BeZero()
			}
			Expect(*proxy.Spec.Replicas).To(wanted, "the replicas of the proxy of %s", name)
		}
	})
})

// settling is how long the garbage collector may take for what it was left.
const settling = 3 * time.Second

// orphaned says what of the children that there were is gone or going, or has an owner.
func orphaned(s *kit.Env, key string, were []metav1.PartialObjectMetadata) error {
	now := map[types.UID]metav1.PartialObjectMetadata{}
	for _, child := range childrenOf(s, key) {
		now[child.UID] = child
	}
	var wrong []error
	for _, was := range were {
		child, stays := now[was.UID]
		switch {
		case !stays:
			wrong = append(wrong, fmt.Errorf("%s %s is gone", was.Kind, was.Name))
		case child.DeletionTimestamp != nil:
			wrong = append(wrong, fmt.Errorf("%s %s is being deleted", was.Kind, was.Name))
		case len(child.OwnerReferences) > 0:
			wrong = append(wrong, fmt.Errorf("%s %s is owned by %s", was.Kind, was.Name, child.OwnerReferences[0].Name))
		}
	}
	return errors.Join(wrong...)
}
