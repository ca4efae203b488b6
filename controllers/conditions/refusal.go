package conditions

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

var (
	podName  = regexp.MustCompile(`(?:pods|Pod) "[^"]*" is`)
	used     = regexp.MustCompile(`, used: .*, limited: `)
	position = regexp.MustCompile(`spec\.(initContainers|containers)\[(\d+)\]`)
)

// IsQuota reports whether a ResourceQuota that is used up refused a pod: others may give back what they have of it.
func IsQuota(message string) bool { return strings.Contains(message, "is forbidden: exceeded quota: ") }

// Refusal explains why the API server refused to create a pod of a template. It omits the pod's name and the used
// quota, which differ each time. message is that of a ReplicaSet's condition, or of a StatefulSet's Event, which
// first says what was tried.
func Refusal(message string, cures Cures, pod corev1.PodSpec) Finding {
	if _, why, tried := strings.Cut(message, " failed error: "); tried {
		message = why
	}
	words := used.ReplaceAllString(podName.ReplaceAllString(strings.TrimSpace(message), "it is"), ", limited: ")
	words = position.ReplaceAllStringFunc(words, func(at string) string {
		parts := position.FindStringSubmatch(at)
		of := map[string][]corev1.Container{"initContainers": pod.InitContainers, "containers": pod.Containers}[parts[1]]
		if i, err := strconv.Atoi(parts[2]); err == nil && i < len(of) {
			return fmt.Sprintf("spec.%s[name=%s]", parts[1], of[i].Name)
		}
		return at
	})
	f, _ := cures.explain(saying{by: apiServer, words: words})
	return *f
}

// ProxiesUnreachable is of proxies of which none answers the operator.
func ProxiesUnreachable() Finding {
	return False(v1alpha1.ReasonProxiesUnreachable, fmt.Sprintf("no proxy answers the operator at port %d, so sessions "+
		"of the content before count as open until their deadline: allow that port in the NetworkPolicies of the namespace",
		runconfig.ProbePort))
}
