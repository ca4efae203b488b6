package faults

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

const (
	imageOne = "registry.example.com/echo:1"
	imageTwo = "registry.example.com/echo:2"
)

// The managers beside ours, and what they own of a server and its children.
const (
	git     = "argocd-controller"
	auditor = "auditor"
	scanner = "scanner"

	note    = "example.com/note"
	hold    = "audit.example.com/hold"
	scanned = "Scanned"
)

// life is one server from its creation to its end.
type life struct {
	s    *kit.Env
	name string
	uid  types.UID
	// more is of its spec, as lines of YAML.
	more string
	// strict is that one content has one workload generation.
	strict bool
	// wants is how the server should be now.
	wants wants
}

// wants is the state that a part of a life ends in.
type wants struct {
	image             string
	replicas, proxies int32
	generation        int64
}

func newLife(s *kit.Env, name string) *life { return &life{s: s, name: name, strict: true} }

// part is a part of a life: what is asked for, and that it came true.
type part struct {
	name   string
	change func(*life)
	came   func(*life)
}

// whole are the parts of a whole life, and brief those without a return.
var (
	brief = []part{whole[0], whole[1], whole[2], whole[4]}
	whole = []part{
		{"create", (*life).create, (*life).grown},
		{"update", (*life).update, (*life).converged},
		{"scale", (*life).scale, (*life).converged},
		{"back", (*life).back, (*life).converged},
		{"delete", (*life).remove, (*life).ended},
	}
)

// live tells parts, one after the other.
func (l *life) live(parts []part) {
	GinkgoHelper()
	for _, p := range parts {
		p.change(l)
		p.came(l)
	}
}

func (l *life) create() {
	GinkgoHelper()
	l.wants = wants{imageOne, 1, 1, 1}
	l.insist("creating", func() error { return l.spec() })
	l.insist("taking hold", func() error {
		_, err := l.s.ApplyErr(auditor, l.head()+fmt.Sprintf("  annotations: {%s: kept}\n  finalizers: [%s]\n", note, hold))
		return err
	})
	l.insist("scanning", func() error {
		_, err := l.s.ApplyStatusErr(scanner, l.head()+"spec: {image: "+imageOne+"}\nstatus: {conditions: [{type: "+scanned+
			`, status: "True", reason: Clean, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}`)
		return err
	})
	server := l.server()
	l.insist("reading", func() error { return l.s.Client.Get(l.s.Ctx, client.ObjectKeyFromObject(server), server) })
	l.uid = server.UID
}

// grown is converged, and marks what has grown as somebody else's too.
func (l *life) grown() {
	GinkgoHelper()
	l.converged()
	for _, child := range l.children() {
		gvk, err := l.s.Client.GroupVersionKindFor(child)
		Expect(err).NotTo(HaveOccurred())
		l.insist("taking a note", func() error {
			_, err := l.s.ApplyErr(auditor,
				fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %s, annotations: {%s: kept}}\n",
					gvk.GroupVersion(), gvk.Kind, child.GetName(), note))
			return err
		})
	}
}

func (l *life) update() {
	GinkgoHelper()
	l.wants.image = imageTwo
	l.wants.generation++
	l.insist("updating", l.spec)
}

func (l *life) scale() {
	GinkgoHelper()
	l.wants.replicas, l.wants.proxies = 2, 2
	l.insist("scaling", l.spec)
}

// back is the first content again, which is a content of its own.
func (l *life) back() {
	GinkgoHelper()
	l.wants.image, l.wants.replicas, l.wants.proxies = imageOne, 1, 1
	l.wants.generation++
	l.insist("going back", l.spec)
}

func (l *life) remove() {
	GinkgoHelper()
	l.insist("deleting", func() error { return client.IgnoreNotFound(l.s.Client.Delete(l.s.Ctx, l.server())) })
}

// spec is that of a server whose pods are replaced in place; rollouts_test.go has those that come up beside others.
func (l *life) spec() error {
	_, err := l.s.ApplyErr(git, kit.Server(l.name, l.wants.image, fmt.Sprintf(
		"rollout: {strategy: Replace}\nreplicas: %d\nproxy: {replicas: %d}\n%s",
		l.wants.replicas, l.wants.proxies, l.more)))
	return err
}

// head is the beginning of the server's YAML.
func (l *life) head() string {
	return "apiVersion: freehold.dev/v1alpha1\nkind: MCPServer\nmetadata:\n  name: " + l.name + "\n"
}

func (l *life) server() *v1alpha1.MCPServer {
	return &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: l.name, Namespace: l.s.Namespace}}
}

// insist does until it is done: a person tries again too, and the API server may be away.
func (l *life) insist(doing string, do func() error) {
	GinkgoHelper()
	Eventually(do).Should(Succeed(), doing)
}
