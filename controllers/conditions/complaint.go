package conditions

import (
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/freehold-dev/freehold/apis/printable"
)

// Complaint is a Warning Event, repeated or not, about a pod whose status does not show the problem.
type Complaint struct {
	// Component is the pod's role; Container is empty for an Event about the whole pod.
	Pod       string
	UID       types.UID
	Component string
	Container string
	Reason    string
	// Words are the message, as Plain returns it.
	Words       string
	First, Last time.Time
}

// wordsKept bounds the message in bytes. The API bounds only new Events.
const wordsKept = 1 << 10

// changing matches what differs between pods or attempts: the address of a pod, a local port, the uid of a pod in a
// path, the id of a container or sandbox. near is a substring of each match, tested first because there may be many
// Events.
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

// Plain returns the message of an Event in one line that stays the same while the problem does.
func Plain(message string) string {
	message = printable.Line(message, wordsKept)
	for _, c := range changing {
		if strings.Contains(message, c.near) {
			message = c.what.ReplaceAllString(message, c.instead)
		}
	}
	return message
}

// ends are the reasons for which kubelet ends or rejects a pod, so that another replaces it (pkg/kubelet: eviction
// and admission).
var ends = is(
	`Evicted|Preempting|NodeShutdown|UnexpectedAdmissionError|OutOf\w+|NodeAffinity|NodeName|NodePorts|TaintToleration|SysctlForbidden|AppArmor|` +
		`TopologyAffinityError|PodOSNotSupported|PodOSSelectorNodeLabelDoesNotMatch|PodFeatureUnsupported|PodLevelResourcesNotSupported|SupplementalGroupsPolicyNotSupported|InvalidNodeInfo`)

// Lasts reports whether the complaint has lasted for Patience.
func (c *Complaint) Lasts() bool { return c.Last.Sub(c.First) >= Patience }

// Ends reports whether kubelet ended or rejected the pod.
func (c *Complaint) Ends() bool { return ends.MatchString(c.Reason) }

// Ended explains why kubelet ended a pod.
func (c *Complaint) Ended(cures Cures) Finding {
	f, _ := cures.explain(saying{by: ending, reason: c.Reason, words: c.Words, container: c.Container})
	return *f
}

// Means returns our reason for a recurring complaint about a pod that is ready in between: kubelet ends the pod or a
// container. Empty for others.
func (c *Complaint) Means(cures Cures) string {
	if c.Ends() {
		return c.Ended(cures).Reason
	}
	if f, _ := cures.explain(c.saying(probing)); f != nil {
		return f.Reason
	}
	return ""
}

func (c *Complaint) of(pod string, uid types.UID) bool { return c.Pod == pod && c.UID == uid }

func (c *Complaint) saying(by speaker) saying {
	return saying{by: by, reason: c.Reason, words: c.Words, container: c.Container, lasts: c.Lasts()}
}
