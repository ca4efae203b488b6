package conditions

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// refusals are what the API server says of a pod of a proxy, and what that means.
var refusals = map[string]struct{ message, want string }{
	"Pod Security": {
		`pods %q is forbidden: violates PodSecurity "restricted:latest": privileged`,
		`it is forbidden: violates PodSecurity "restricted:latest": privileged`,
	},
	"of a StatefulSet": {
		`create Pod echo-backend-0 in StatefulSet echo-backend failed error: pods %q is forbidden: no`,
		"it is forbidden: no",
	},
	"a webhook": {"admission webhook said no", "admission webhook said no"},
	"a quota that is used up": {
		`pods %q is forbidden: exceeded quota: q, requested: cpu=1,pods=1, used: cpu=2500m,pods=7, limited: cpu=3,pods=9`,
		"it is forbidden: exceeded quota: q, requested: cpu=1,pods=1, limited: cpu=3,pods=9: lower spec.proxy.resources or " +
			"spec.proxy.replicas, or raise the quota",
	},
	"a quota that wants numbers": {
		`pods %q is forbidden: failed quota: q: must specify cpu for: side; limits.cpu for: proxy; limits.memory for: proxy,side`,
		"it is forbidden: failed quota: q: must specify cpu for: side; limits.cpu for: proxy; limits.memory for: " +
			"proxy,side: " +
			"write spec.proxy.podTemplate.spec.containers[name=side].resources.limits.memory, " +
			"spec.proxy.podTemplate.spec.containers[name=side].resources.requests.cpu, " +
			"spec.proxy.resources.limits.cpu, spec.proxy.resources.limits.memory, or let a LimitRange of the namespace set " +
			"defaults",
	},
	"a LimitRange": {
		`pods %q is forbidden: [maximum cpu usage per Container is 5m, but limit is 10m, minimum memory usage per Pod is 1Gi, but request is 16Mi]`,
		"it is forbidden: [maximum cpu usage per Container is 5m, but limit is 10m, minimum memory usage per Pod is 1Gi, " +
			"but request is 16Mi]: " +
			"that is a LimitRange of the namespace: correct spec.proxy.resources, or the LimitRange",
	},
	"a quota of pods": {
		"pods %q is forbidden: exceeded quota: q, requested: count/pods=1, used: count/pods=1, limited: count/pods=1",
		"it is forbidden: exceeded quota: q, requested: count/pods=1, limited: count/pods=1: lower spec.proxy.replicas, or " +
			"raise the quota",
	},
	"a LimitRange without a limit": {
		"pods %q is forbidden: maximum cpu usage per Pod is 5m.  No limit is specified",
		"it is forbidden: maximum cpu usage per Pod is 5m.  No limit is specified: that is a LimitRange of the namespace: " +
			"correct spec.proxy.resources, or the LimitRange",
	},
	"the ratio of no limit": {
		"pods %q is forbidden: cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0",
		"it is forbidden: cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0: that " +
			"is a LimitRange of the namespace: correct spec.proxy.resources, or the LimitRange",
	},
	"an account": {
		`pods %q is forbidden: error looking up service account ns/absent: serviceaccount "absent" not found`,
		`it is forbidden: error looking up service account ns/absent: serviceaccount "absent" not found: create it, or correct spec.serviceAccountName`,
	},
	"an account of ours": {
		`pods %q is forbidden: error looking up service account ns/echo-runner: serviceaccount "echo-runner" not found`,
		`it is forbidden: error looking up service account ns/echo-runner: serviceaccount "echo-runner" not found`,
	},
	"a RuntimeClass": {
		`pods %q is forbidden: pod rejected: RuntimeClass "absent" not found`,
		`it is forbidden: pod rejected: RuntimeClass "absent" not found: create it, or correct spec.proxy.podTemplate.spec.runtimeClassName`,
	},
	"a PriorityClass": {
		"pods %q is forbidden: no PriorityClass with name absent was found",
		"it is forbidden: no PriorityClass with name absent was found: create it, or correct " +
			"spec.proxy.podTemplate.spec.priorityClassName",
	},
	"the ratio of a LimitRange": {
		`pods %q is forbidden: cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000`,
		"it is forbidden: cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000: that is a " +
			"LimitRange of the namespace: correct spec.proxy.resources, or the LimitRange",
	},
	"the default of a LimitRange": {
		`Pod %q is invalid: spec.containers[0].resources.requests: Invalid value: "10m": must be less than or equal to cpu limit of 5m`,
		`it is invalid: spec.containers[name=proxy].resources.requests: Invalid value: "10m": must be less than or equal to cpu limit of 5m: ` +
			"a LimitRange of the namespace sets that limit where none is written: write spec.proxy.resources.limits.cpu, or " +
			"correct the LimitRange",
	},
	"a place that is not there": {
		`Pod %q is invalid: spec.containers[7].image: Required value`,
		"it is invalid: spec.containers[7].image: Required value",
	},
}

// Each attempt has a pod of another name, and what others use of a quota changes all the time.
func TestRefusals(t *testing.T) {
	proxys := corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "init"}},
		Containers:     []corev1.Container{{Name: "proxy"}, {Name: "side"}},
	}
	for name, tc := range refusals {
		for _, pod := range []string{"echo-proxy-7d9-abc", "echo-proxy-7d9-xyz"} {
			message := tc.message
			if strings.Contains(message, "%q") {
				message = fmt.Sprintf(message, pod)
			}
			if diff := cmp.Diff(False("PodRefused", "the API server refuses the pod: "+tc.want),
				Refusal(message, OfProxy, proxys)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
	claim := Refusal(
		`Create Pod x-0 in StatefulSet x failed error: failed to create PVC v-x-0: persistentvolumeclaims "v-x-0" is forbidden: exceeded quota: q, requested: persistentvolumeclaims=1, `+
			`used: persistentvolumeclaims=0, limited: persistentvolumeclaims=0`, OfBackend, corev1.PodSpec{})
	want := `the API server refuses a claim of the pod: persistentvolumeclaims "v-x-0" is forbidden: exceeded quota: q, ` +
		"requested: persistentvolumeclaims=1, limited: persistentvolumeclaims=0: raise that limit of the namespace; " +
		"spec.volumeClaimTemplates cannot be changed, only be written into a new server"
	if claim.Message != want {
		t.Errorf("of a claim it says %q, want %q", claim.Message, want)
	}
	bridge := Refusal(`pods "x-0" is forbidden: failed quota: q: must specify limits.cpu for: bridge,server`, OfBackend,
		corev1.PodSpec{})
	if want := "write spec.podTemplate.spec.resources.limits.cpu, spec.resources.limits.cpu, or let"; !strings.Contains(
		bridge.Message, want) {
		t.Errorf("of a bridge it says %q, want %q in it", bridge.Message, want)
	}
}
