package workload

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/runspec"
)

const (
	runInfix  = "-run-"
	hashChars = 10
)

// The names of an owner's children are made of its Key. An MCPServer's name has at most 44 characters, so the
// StatefulSet's has at most 52, which leaves room for the hash that the StatefulSet controller appends in a label,
// and every Service's has at most 63.

// RunnerName is the ServiceAccount, Role and RoleBinding of the runner.
func RunnerName(key string) string { return key + podtemplate.RunnerSuffix }

// SessionName is the Secret with the keys of session ids. It contains the start of the owner's uid, so that no
// earlier owner of the name shares it.
func SessionName(key string, uid types.UID) string {
	id, _, _ := strings.Cut(string(uid), "-")
	return olderSessionName(key) + "-" + id
}

// olderSessionName is that of content claimed before the status recorded the name: another name would end its sessions.
func olderSessionName(key string) string { return key + "-session" }

func sessionSecret(object kinds.Object) string {
	key := kinds.Key(object)
	if claimed := object.GetProxyStatus().Workload; claimed != nil &&
		(claimed.SessionSecret == "" || claimed.SessionSecret == olderSessionName(key)) {
		return olderSessionName(key)
	}
	return SessionName(key, object.GetUID())
}

// ProxyName is the proxy's Deployment and Service.
func ProxyName(key string) string { return dnsLabel(key, "-proxy") }

// BackendName is that of Slot1, and the NetworkPolicy before the pods of both slots.
func BackendName(key string) string { return Slot1.Name(key) }

// HeadlessName is that of Slot1.
func HeadlessName(key string) string { return Slot1.HeadlessName(key) }

// dnsLabel is NAME-PART, or NAME-PART-SUFFIX, for names without a dot, as of Services and hosts. The suffix is last,
// because NAME-SUFFIX may be an MCPServer.
func dnsLabel(key, part string) string {
	name, suffix := kinds.SplitKey(key)
	if suffix != "" {
		suffix = "-" + suffix
	}
	return name + part + suffix
}

// RunConfigName is the ConfigMap of one workload generation. It has number and hash, so that a pod cannot mount the
// content of another revision.
func RunConfigName(key string, rev revision.Revision) string {
	return key + runInfix + strconv.FormatInt(rev.Generation, 10) + "-" + shortHash(rev.Hash)
}

// IsRunConfigName reports whether name is a run config of the owner with this key. Number and hash have no dash, so
// the owner is unique: echo-run-run-1-abc is of echo-run alone.
func IsRunConfigName(key, name string) bool {
	rev, found := strings.CutPrefix(name, key+runInfix)
	number, hash, _ := strings.Cut(rev, "-")
	_, err := revision.Parse(number, hash)
	return found && err == nil && !strings.Contains(hash, "-")
}

// IsChildName reports whether name is that of a child of the owner with this key, of the kinds that are read.
func IsChildName(key, name string) bool {
	return name == RunnerName(key) || name == ProxyName(key) || IsBackendName(key, name) || IsRunConfigName(key, name) ||
		IsContentName(key, name)
}

// IsBackendName reports whether name is that of an object of the owner's backend.
func IsBackendName(key, name string) bool {
	return slices.ContainsFunc(Slots[:], func(s Slot) bool { return name == s.Name(key) || name == s.HeadlessName(key) })
}

// OfPod returns the owner's key and the component of a pod by its name; empty if no pod of ours has such a name.
// Others may use one, too. The hash of a ReplicaSet has no vowels, so no suffix is one.
func OfPod(pod string) (key, component string) {
	const ofProxy = "-proxy-"
	if at := strings.LastIndex(pod, "-"); at > 0 {
		if _, err := strconv.Atoi(pod[at+1:]); err == nil {
			for _, slot := range Slots {
				if key, is := strings.CutSuffix(pod[:at], slot.Name("")); is && key != "" {
					return key, slot.Component()
				}
			}
		}
	}
	at := strings.LastIndex(pod, ofProxy)
	if at <= 0 {
		return "", ""
	}
	key = pod[:at]
	if suffix, _, more := strings.Cut(pod[at+len(ofProxy):], "-"); more && suffix != "" &&
		slices.ContainsFunc(kinds.All(), func(k kinds.Kind) bool { return k.Suffix == suffix }) {
		key += "." + suffix
	}
	return key, ComponentProxy
}

// URL is where clients in the cluster call a proxy: spec is the owner's spec.proxy, path its spec.path. The host is
// NAME.NAMESPACE.svc, which resolves under every cluster domain.
func URL(owner Owner, spec *v1alpha1.ProxySpec, path string) string {
	return fmt.Sprintf("http://%s.%s.svc:%d%s", ProxyName(owner.Key()), owner.Namespace, runspec.ProxyPort(spec),
		runspec.Path(path))
}

// PublicURL is where clients outside the cluster call a proxy, empty where it has no such URL. An Ingress or Gateway
// removes what is before spec.path.
func PublicURL(spec *v1alpha1.ProxyWorkloadSpec) string {
	if spec.Proxy == nil {
		return ""
	}
	public := runspec.PublicURL(spec.Proxy)
	if public == "" {
		return ""
	}
	return strings.TrimSuffix(public, "/") + runspec.Path(spec.Path)
}
