package podtemplate

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

// The runner's token can write the backend beyond what an overlay may state, and the author of a server need not have
// that right. So kubelet mounts the token only in the runner's container, and an overlay adds nothing there that
// could leak it.

const (
	tokenVolume = "runner-token"
	// tokenPath is where client-go looks.
	tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"
	// RunnerSuffix ends the names of all runners' ServiceAccounts, and of no other account that a backend may have.
	RunnerSuffix = "-runner"
)

// tokenSource is the API server's default token volume, except for the lifetime:
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/plugin/pkg/admission/serviceaccount/admission.go#L485. That
// is an hour, because for 3607 s the API server issues a token of up to a year; the runner reads a new one in time.
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

// proxyToken are the fields, anywhere in a proxy's template, that give the runner's identity to other containers.
var proxyToken = map[string]string{
	"automountServiceAccountToken": "every container would have the runner's token: remove it",
	"shareProcessNamespace":        "other containers would see the runner's files and its token: remove it",
	"serviceAccountToken": "this is the runner's identity: remove it, and use a pod of your own for what calls " +
		"the API server",
	"podCertificate": "this is the runner's identity: remove it, and use a pod of your own for what calls the API server",
}

// noToken are the same for a backend without an account of its own: it would be the account "default" of the namespace.
var noToken = map[string]string{
	"serviceAccountToken": "without spec.serviceAccountName a backend has no token: set that, or remove this",
	"podCertificate":      "without spec.serviceAccountName a backend has no identity: set that, or remove this",
}

// readsToken finds the fields of a template that bring an identity into the pod.
func readsToken(field string, template *corev1.PodTemplateSpec, refused map[string]string) []Problem {
	var problems []Problem
	walk(field, reflect.ValueOf(template), func(at spot) {
		value := reflect.Indirect(at.value)
		isFalse := value.Kind() == reflect.Bool && !value.Bool()
		if message, ok := refused[at.name]; ok && !isFalse {
			problems = append(problems, Problem{at.path, message})
		}
	})
	return problems
}

// runnerTakes are the fields of the runner's container that an overlay may extend. A foreign program, kubeconfig or
// certificate would get the token.
var runnerTakes = []string{
	"args", "env", "image", "imagePullPolicy", "lifecycle", "livenessProbe", "name", "ports", "readinessProbe",
	"resizePolicy", "resources", "securityContext", "startupProbe", "terminationMessagePolicy", "volumeMounts",
}

// runnerEnv are variables that make the token be sent elsewhere, or logged.
var runnerEnv = []string{"GODEBUG", "KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"}

// reachesToken finds what would leak a token.
func (o overlay) reachesToken(template *corev1.PodTemplateSpec) []Problem {
	problems := readsToken(o.field, template, o.noToken)
	if !o.holdsToken {
		return problems
	}
	walk(o.field, reflect.ValueOf(template), func(at spot) {
		switch v := at.value.Interface().(type) {
		case corev1.VolumeMount:
			if v.Name == tokenVolume {
				problems = append(problems, Problem{
					at.path + ".name",
					"the runner's token is for the container " + ProxyContainer + " only: choose another volume",
				})
			}
		case corev1.Container:
			if v.Name == ProxyContainer {
				problems = append(problems, intoRunner(at)...)
			}
		}
	})
	return problems
}

// intoRunner finds what would run, or be read, in the runner's container beside the runner.
func intoRunner(container spot) []Problem {
	fields, err := toFields(container.value.Interface())
	if err != nil {
		return []Problem{{container.path, err.Error()}}
	}
	var problems []Problem
	refuse := func(path, message string) { problems = append(problems, Problem{path, message}) }
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch {
		case name == "args":
			stated, _ := reflect.Indirect(container.value).Interface().(corev1.Container)
			if arg, refused := refusedArgs(stated.Args); refused {
				refuse(join(container.path, name),
					fmt.Sprintf("the runner takes %q from nobody: write --log-level or --log-format, each with one of its words, or "+
						"nothing", arg))
			}
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

// quiet are annotations of a proxy's pod that add no container, no volume and no image, by their domain or, after a
// slash, by their whole key. Keys without a domain are the user's own: those who act on annotations give theirs one
// (https://kubernetes.io/docs/concepts/overview/working-with-objects/annotations/#syntax-and-character-set).
var quiet = []string{
	"checksum/", "cluster-autoscaler.kubernetes.io/", "container.apparmor.security.beta.kubernetes.io/", "karpenter.sh/",
	"kubectl.kubernetes.io/",
	"prometheus.io/", "controller.kubernetes.io/pod-deletion-cost", "linkerd.io/inject", "sidecar.istio.io/inject",
}

// bringVolumes are annotations by which injectors mount any volume, host paths included, in any pod.
var bringVolumes = []string{
	"consul.hashicorp.com/consul-sidecar-user-volume", "consul.hashicorp.com/consul-sidecar-user-volume-mount",
	"sidecar.istio.io/userVolume", "sidecar.istio.io/userVolumeMount",
}

// injected finds annotations that make others, who change pods at creation, do what an overlay may not. A proxy's pod
// has a list of allowed annotations, because an injector could mount the token's volume, copy the runner's mounts, or
// choose the image that reads them, each by its own keys.
func (o overlay) injected(annotations map[string]string) []Problem {
	var problems []Problem
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		at := fmt.Sprintf("%s.metadata.annotations[%q]", o.field, key)
		switch {
		case slices.Contains(bringVolumes, key):
			problems = append(problems, Problem{at, "an injector would mount what this names: remove it, and use volumes"})
		case o.holdsToken && !Reserved(key) && !isQuiet(key):
			problems = append(problems, Problem{
				at,
				"an injector that acts on it could read the runner's token: write a label, or a key without a domain; " +
					"or have who may write Deployments apply it to the proxy's under a field manager of their own",
			})
		}
	}
	return problems
}

func isQuiet(key string) bool {
	return !strings.Contains(key, "/") || slices.ContainsFunc(quiet, func(q string) bool {
		return key == q || strings.HasSuffix(q, "/") && strings.HasPrefix(key, q)
	})
}

// runnersAccount refuses runners' accounts as identity of a backend.
func runnersAccount(b runconfig.Backend) []Problem {
	if !strings.HasSuffix(b.ServiceAccountName, RunnerSuffix) {
		return nil
	}
	return []Problem{{
		"spec.serviceAccountName",
		fmt.Sprintf("accounts that end in %s are those of Freehold's runners: choose another", RunnerSuffix),
	}}
}
