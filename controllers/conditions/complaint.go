package conditions

import (
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/freehold-dev/freehold/apis/printable"
)

// Complaint is what Warning Events say of a pod, of which its status says nothing.
type Complaint struct {
	// Pod and UID are the pod's, Component says of which kind it is, and Container is empty
	// for what is said of the pod as a whole.
	Pod       string
	UID       types.UID
	Component string
	Container string
	Reason    string
	// Words are those of Plain.
	Words string
	// First and Last are since when, and when last, it was said.
	First, Last time.Time
}

// wordsKept is how much is kept of what an Event says, in bytes. The API bounds it for new
// Events only.
const wordsKept = 1 << 10

// changing is what differs from pod to pod, or from attempt to attempt, in the same words: the
// address of a pod, the port at this end of a connection, the uid of a pod in a path, the id of a
// container or sandbox. Each has near in it, which is looked for first: there may be many Events.
var changing = []struct {
	near    string
	what    *regexp.Regexp
	instead string
}{
	{"->", regexp.MustCompile(`\S+->`), ""},
	{"(combined", regexp.MustCompile(`^\(combined from similar events\): `), ""},
	{` service "`, regexp.MustCompile(` service "` + address), ` service ":`},
	{" tcp ", regexp.MustCompile(` tcp ` + address), " tcp :"},
	{"://", regexp.MustCompile(`://` + address), "://:"},
	{"/pods/", regexp.MustCompile(`/pods/[0-9a-f-]{36}/`), "/pods/UID/"},
	{`"`, regexp.MustCompile(`"[0-9a-f]{64}"`), `"ID"`},
}

const address = `(?:\d+(?:\.\d+){3}|\[[0-9a-f:]+\]):`

// Plain is what an Event says, in one line, and in the same words each time.
func Plain(message string) string {
	message = printable.Line(message, wordsKept)
	for _, c := range changing {
		if strings.Contains(message, c.near) {
			message = c.what.ReplaceAllString(message, c.instead)
		}
	}
	return message
}

// ends are Kubernetes' reasons for which kubelet ends a pod, or does not take it: another one
// is made in its place (kubelet's eviction and admission, pkg/kubelet).
var ends = is(
	`Evicted|Preempting|NodeShutdown|UnexpectedAdmissionError|OutOf\w+|NodeAffinity|NodeName|NodePorts|TaintToleration|SysctlForbidden|AppArmor|` +
		`TopologyAffinityError|PodOSNotSupported|PodOSSelectorNodeLabelDoesNotMatch|PodFeatureUnsupported|PodLevelResourcesNotSupported|SupplementalGroupsPolicyNotSupported|InvalidNodeInfo`)

// Lasts reports whether it has been said for so long that it is no longer in passing.
func (c *Complaint) Lasts() bool { return c.Last.Sub(c.First) >= patientFor }

// Ends reports whether a pod of which that is said will run no more.
func (c *Complaint) Ends() bool { return ends.MatchString(c.Reason) }

// Ended says why kubelet ended a pod.
func (c *Complaint) Ended(cures Cures) Finding {
	f, _ := cures.explain(saying{by: ending, reason: c.Reason, words: c.Words, container: c.Container})
	return *f
}

// Means is our reason for what is said of a pod again and again, though it gets ready in between:
// that kubelet ends it, or a container of it; empty for others.
func (c *Complaint) Means(cures Cures) string {
	if c.Ends() {
		return c.Ended(cures).Reason
	}
	if f, _ := cures.explain(c.saying(probing)); f != nil {
		return f.Reason
	}
	return ""
}

// of reports whether a complaint is about a pod.
func (c *Complaint) of(pod string, uid types.UID) bool { return c.Pod == pod && c.UID == uid }

func (c *Complaint) saying(by speaker) saying {
	return saying{by: by, reason: c.Reason, words: c.Words, container: c.Container, lasts: c.Lasts()}
}
