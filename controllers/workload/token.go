package workload

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

// The runner's token writes the backend beyond what an overlay may say. Who may
// write a server need not be allowed that, so that the token stays with the
// runner: kubelet mounts it in no container but the runner's, and an overlay
// brings nothing into that one that could hand it on.

const (
	tokenVolume = "runner-token"
	// tokenPath is where client-go looks.
	tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"
	// runnerSuffix ends the names of all runners' ServiceAccounts, and of no
	// other account that a backend may have.
	runnerSuffix = "-runner"
)

// tokenSource is what the API server mounts in every container of a pod that
// leaves this to it, but for the token's life:
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/plugin/pkg/admission/serviceaccount/admission.go#L485.
// That is an hour, and not 3607 s, for which the API server would give a token of
// up to a year; the runner reads a new one before the old one ends.
func tokenSource() *corev1ac.VolumeApplyConfiguration {
	const readable, seconds = 0o644, 3600
	return corev1ac.Volume().
		WithName(tokenVolume).
		WithProjected(corev1ac.ProjectedVolumeSource().
			WithDefaultMode(readable).
			WithSources(
				corev1ac.VolumeProjection().WithServiceAccountToken(corev1ac.ServiceAccountTokenProjection().
					WithPath("token").WithExpirationSeconds(seconds)),
				corev1ac.VolumeProjection().WithConfigMap(corev1ac.ConfigMapProjection().
					WithName("kube-root-ca.crt").WithItems(corev1ac.KeyToPath().WithKey("ca.crt").WithPath("ca.crt"))),
				corev1ac.VolumeProjection().WithDownwardAPI(corev1ac.DownwardAPIProjection().
					WithItems(corev1ac.DownwardAPIVolumeFile().WithPath("namespace").WithFieldRef(
						corev1ac.ObjectFieldSelector().WithAPIVersion("v1").WithFieldPath("metadata.namespace"))))))
}

// tokenFields hand the pod's identity to other containers, under these names
// anywhere in the template of a proxy.
var tokenFields = map[string]string{
	"automountServiceAccountToken": "every container would have the runner's token: remove it",
	"shareProcessNamespace":        "other containers would see the runner's files and its token: remove it",
	"serviceAccountToken":          "this is the runner's identity: remove it, and use a pod of your own for what calls the API server",
	"podCertificate":               "this is the runner's identity: remove it, and use a pod of your own for what calls the API server",
}

// runnerTakes are the fields of the runner's container that an overlay may add
// to, as far as the rest lets it. With a program, a kubeconfig or a certificate
// of others the token would be theirs.
var runnerTakes = []string{
	"args", "env", "image", "imagePullPolicy", "lifecycle", "livenessProbe", "name", "ports", "readinessProbe",
	"resizePolicy", "resources", "securityContext", "startupProbe", "terminationMessagePolicy", "volumeMounts",
}

// runnerEnv are variables that have the token sent elsewhere, or logged.
var runnerEnv = []string{"GODEBUG", "KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"}

// reachesToken finds what would give the token of a proxy pod to others.
func (o overlay) reachesToken(template *corev1.PodTemplateSpec) []Problem {
	if !o.holdsToken {
		return nil
	}
	var problems []Problem
	walk(o.field, reflect.ValueOf(template), func(at spot) {
		if message, ok := tokenFields[at.name]; ok && opensHost(at.value) {
			problems = append(problems, Problem{at.path, message})
		}
		switch v := at.value.Interface().(type) {
		case corev1.VolumeMount:
			if v.Name == tokenVolume {
				problems = append(problems, Problem{at.path + ".name", "the runner's token is for the container " + ProxyContainer + " only: choose another volume"})
			}
		case corev1.Container:
			if v.Name == ProxyContainer {
				problems = append(problems, intoRunner(at)...)
			}
		}
	})
	return problems
}

// intoRunner finds what would run, or be read, in the runner's container beside
// the runner.
func intoRunner(container spot) []Problem {
	fields, err := toFields(container.value.Interface())
	if err != nil {
		return []Problem{{container.path, err.Error()}}
	}
	var problems []Problem
	refuse := func(path, message string) { problems = append(problems, Problem{path, message}) }
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch {
		case name == "envFrom":
			refuse(join(container.path, name), "the runner takes no variables unseen: write each in env")
		case !slices.Contains(runnerTakes, name):
			refuse(join(container.path, name), "the runner runs as it is: remove it")
		}
	}
	walk(container.path, container.value, func(at spot) {
		switch v := at.value.Interface().(type) {
		case corev1.VolumeMount:
			refuse(at.path, "nothing is mounted in the runner: remove it, or use a container of your own")
		case corev1.EnvVar:
			if slices.Contains(runnerEnv, v.Name) {
				refuse(at.path, "this variable would give the runner's token away: remove it")
			}
		case *corev1.ExecAction:
			refuse(at.path, "nothing else runs in the runner's container: remove it")
		}
	})
	return problems
}

// runnersAccount refuses accounts of runners as identity of a backend.
func runnersAccount(b runconfig.Backend) []Problem {
	if !strings.HasSuffix(b.ServiceAccountName, runnerSuffix) {
		return nil
	}
	return []Problem{{"spec.serviceAccountName", fmt.Sprintf("accounts that end in %s are those of Freehold's runners: choose another", runnerSuffix)}}
}
