package podtemplate

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/configs/registry"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/runspec"
)

const (
	// ProxyContainer runs the runner's image.
	ProxyContainer = "proxy"
	// PortMCP is the port that speaks MCP, in pods and Services.
	PortMCP = "mcp"
	// PortProbes is the proxy pod's port for probes.
	PortProbes = "probes"
	// PortPeers is where proxies of one server call each other.
	PortPeers = "peers"
	// AnnotationGuards lists the checks that a proxy pod makes, so that the template shows a missing protection.
	AnnotationGuards = "freehold.dev/guards"
	// AnnotationRunConfig has the run config of a proxy pod, if it is short.
	AnnotationRunConfig = "freehold.dev/run-config"

	runVolume     = "run-config"
	sessionVolume = "session-keys"
	stateVolume   = "freehold-state"
	// annotationEvictable has the cluster-autoscaler remove a node all the same: a new pod reads what the volume has
	// (https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md).
	annotationEvictable = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
	// stateDisk is more than the one short file takes.
	stateDisk = "1Mi"
	// startSeconds is how long the proxy may take to answer its first probe.
	startSeconds = 60
)

// Release is what the process says of all pods: its flags. What an object and its configurations say is none of it.
type Release struct {
	// RunnerImage is the image of the proxy container.
	RunnerImage string
	// RunnerPullPolicy of that image; the cluster's default if empty.
	RunnerPullPolicy corev1.PullPolicy
	// RunnerPullSecrets are Secrets for that image's registry, in each owner's namespace.
	RunnerPullSecrets []string
	// ProxyResources are the default of proxies; small ones of our own if nil.
	ProxyResources *v1alpha1.Resources
	// ProxyReplicas are the default of proxies; one if zero.
	ProxyReplicas int32
	// ProxyTemplate is an overlay of all proxies, below those of the specs; nil for none. CheckRelease finds its problems.
	ProxyTemplate []byte
	// RemoteContainers lets the overlays of MCPRemoteProxies add containers.
	RemoteContainers bool
	// Network is the default of spec.network; nil for none.
	Network *v1alpha1.NetworkSpec
	// Objects is the metadata of every server's objects.
	Objects ObjectDefaults
}

// Names identify the owner to a proxy's pods.
type Names struct {
	Labels map[string]string
	// ServiceAccount is the runner's.
	ServiceAccount string
	// RunConfig is a placeholder until AtRevision sets the ConfigMap's name: the hash of the content covers the template.
	RunConfig string
}

// Proxy is the template of a proxy's pods without its revision, merged with the overlays of the release and of
// spec.proxy, or with neither if there are problems.
func Proxy(
	names Names, spec *v1alpha1.ProxyWorkloadSpec, run runconfig.RunConfig,
	release Release,
) (*corev1ac.PodTemplateSpecApplyConfiguration, []Problem) {
	stated := cmp.Or(spec.Proxy, &v1alpha1.ProxySpec{})
	secrets := make([]*corev1ac.LocalObjectReferenceApplyConfiguration, 0, len(release.RunnerPullSecrets))
	for _, name := range release.RunnerPullSecrets {
		secrets = append(secrets, corev1ac.LocalObjectReference().WithName(name))
	}
	template := corev1ac.PodTemplateSpec().
		WithLabels(names.Labels).
		WithAnnotations(guards(run.Proxy)).
		WithSpec(corev1ac.PodSpec().
			WithServiceAccountName(names.ServiceAccount).
			// Into every container; the runner's mounts it itself.
			WithAutomountServiceAccountToken(false).
			// Other Services of the namespace must not reach the environment.
			WithEnableServiceLinks(false).
			WithTerminationGracePeriodSeconds(int64(cmp.Or(run.Proxy.GraceSeconds, runconfig.DefaultGrace))).
			WithSecurityContext(podSecurity()).
			WithImagePullSecrets(secrets...).
			WithContainers(proxyContainer(stated, run.Proxy, release)).
			WithVolumes(
				RunConfig{Name: names.RunConfig}.volume(),
				tokenSource()))
	for _, f := range []files{loginFiles(run.Proxy.Authentication), remoteFiles(run.Remote)} {
		if f.sources == nil {
			continue
		}
		template.Spec.WithVolumes(corev1ac.Volume().WithName(f.volume).WithProjected(f.sources))
		template.Spec.Containers[0].WithVolumeMounts(mount(f.volume, f.path))
	}
	if secret := run.Proxy.SessionSecret; secret != "" {
		template.Spec.WithVolumes(sessionKeys(secret))
		template.Spec.Containers[0].WithVolumeMounts(mount(sessionVolume, runconfig.SessionPath))
	}
	if run.Remote == nil {
		template.WithAnnotations(map[string]string{annotationEvictable: stateVolume})
		template.Spec.WithVolumes(corev1ac.Volume().WithName(stateVolume).
			WithEmptyDir(corev1ac.EmptyDirVolumeSource().WithSizeLimit(resource.MustParse(stateDisk))))
		template.Spec.Containers[0].WithVolumeMounts(
			corev1ac.VolumeMount().WithName(stateVolume).WithMountPath(runconfig.StatePath))
	}
	if run.Remote != nil && run.Remote.Bridged() {
		template.Spec.Containers[0].WithPorts(containerPort(PortPeers, runconfig.PeerPort)).WithEnv(podIP())
	}
	if run.Remote != nil { // else the run config has the time, for the backend
		template.WithAnnotations(restarted(runspec.RestartedAt(spec.RestartedAt)))
	}
	return overlaid(template, stated, run.Remote == nil || release.RemoteContainers, release.ProxyTemplate)
}

// sessionKeys is the volume with the keys of session ids, mounted without subPath, so that kubelet updates it.
// Without the Secret the proxy serves what needs no session.
func sessionKeys(secret string) *corev1ac.VolumeApplyConfiguration {
	const readable = 0o644
	return corev1ac.Volume().WithName(sessionVolume).WithSecret(corev1ac.SecretVolumeSource().
		WithSecretName(secret).WithDefaultMode(readable).WithOptional(true))
}

func proxyContainer(
	spec *v1alpha1.ProxySpec, run runconfig.Proxy, release Release,
) *corev1ac.ContainerApplyConfiguration {
	container := corev1ac.Container().
		WithName(ProxyContainer).
		WithImage(release.RunnerImage).
		WithEnv(
			fromAnnotation(runconfig.EnvGeneration, revision.AnnotationGeneration),
			fromAnnotation(runconfig.EnvHash, revision.AnnotationHash),
			memoryLimit()).
		WithPorts(
			containerPort(PortMCP, run.Port),
			containerPort(PortProbes, runconfig.ProbePort)).
		WithStartupProbe(probe("/livez").WithPeriodSeconds(1).WithFailureThreshold(startSeconds)).
		WithLivenessProbe(probe("/livez").WithTimeoutSeconds(5)).
		WithReadinessProbe(probe("/readyz").WithPeriodSeconds(2)).
		WithResources(proxyResources(spec.Resources, release.ProxyResources)).
		// The last words of a container are in its log, not in a file.
		WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError).
		WithSecurityContext(runnerSecurity()).
		WithVolumeMounts(mount(runVolume, runconfig.MountPath), mount(tokenVolume, tokenPath))
	if release.RunnerPullPolicy != "" {
		container.WithImagePullPolicy(release.RunnerPullPolicy)
	}
	return container
}

// proxyMemory is a proxy's default memory limit. A test of the runner's program measures that a hostile backend
// cannot exceed it.
const proxyMemory = "256Mi"

// proxyResources are the first stated ones as a whole, or small requests and a limit of memory. CPU has no default
// limit: a throttled proxy slows every call.
func proxyResources(stated ...*v1alpha1.Resources) *corev1ac.ResourceRequirementsApplyConfiguration {
	for _, s := range stated {
		if s != nil && len(s.Limits)+len(s.Requests) > 0 {
			return resources(s.Limits, s.Requests)
		}
	}
	return resources(corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(proxyMemory)}, corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("10m"),
		corev1.ResourceMemory: resource.MustParse("32Mi"),
	})
}

func mount(volume, path string) *corev1ac.VolumeMountApplyConfiguration {
	return corev1ac.VolumeMount().WithName(volume).WithMountPath(path).WithReadOnly(true)
}

// fromAnnotation states apiVersion, because fieldRef is atomic: without it every apply would remove the server's
// default.
func fromAnnotation(name, key string) *corev1ac.EnvVarApplyConfiguration {
	return corev1ac.EnvVar().
		WithName(name).
		WithValueFrom(corev1ac.EnvVarSource().
			WithFieldRef(annotation(key)))
}

func annotation(key string) *corev1ac.ObjectFieldSelectorApplyConfiguration {
	return corev1ac.ObjectFieldSelector().WithAPIVersion("v1").WithFieldPath("metadata.annotations['" + key + "']")
}

// podIP is the runner's own address, which other proxies call. It states apiVersion as fromAnnotation does.
func podIP() *corev1ac.EnvVarApplyConfiguration {
	return corev1ac.EnvVar().
		WithName(runconfig.EnvPodIP).
		WithValueFrom(corev1ac.EnvVarSource().
			WithFieldRef(corev1ac.ObjectFieldSelector().WithAPIVersion("v1").WithFieldPath("status.podIP")))
}

// memoryLimit passes the container's limit to the Go runtime, which then collects garbage in time. Without a limit it
// is the node's capacity. It states the divisor, as fromAnnotation does apiVersion.
func memoryLimit() *corev1ac.EnvVarApplyConfiguration {
	return corev1ac.EnvVar().
		WithName("GOMEMLIMIT").
		WithValueFrom(corev1ac.EnvVarSource().
			WithResourceFieldRef(corev1ac.ResourceFieldSelector().WithResource("limits.memory").
				WithDivisor(resource.MustParse("1"))))
}

// containerPort states the protocol, because it is half of the port's key.
func containerPort(name string, port int32) *corev1ac.ContainerPortApplyConfiguration {
	return corev1ac.ContainerPort().
		WithName(name).
		WithContainerPort(port).
		WithProtocol(corev1.ProtocolTCP)
}

func probe(path string) *corev1ac.ProbeApplyConfiguration {
	return corev1ac.Probe().
		WithHTTPGet(corev1ac.HTTPGetAction().WithPath(path).WithPort(intstr.FromString(PortProbes)))
}

// RunConfig is where a proxy's pods find the run config of their revision: in Text, which is in the pod template, or
// if that is empty in the ConfigMap of this Name.
type RunConfig struct{ Name, Text string }

// AtRevision adds a revision and its run config to a copy of a proxy's pod template.
func AtRevision(
	proxy *corev1ac.PodTemplateSpecApplyConfiguration, config RunConfig,
	rev revision.Revision,
) *corev1ac.PodTemplateSpecApplyConfiguration {
	spec := *proxy.Spec
	spec.Volumes = slices.Clone(spec.Volumes)
	for i := range spec.Volumes {
		if *spec.Volumes[i].Name == runVolume {
			spec.Volumes[i] = *config.volume()
		}
	}
	template := Stated(corev1ac.PodTemplateSpec().WithSpec(&spec))
	if meta := proxy.ObjectMetaApplyConfiguration; meta != nil {
		template.WithLabels(meta.Labels).WithAnnotations(meta.Annotations)
	}
	if config.Text != "" {
		template.WithAnnotations(map[string]string{AnnotationRunConfig: config.Text})
	}
	return template.WithAnnotations(rev.Annotations())
}

// volume has the run config as a file. It states what the API server would add to an atomic part.
func (c RunConfig) volume() *corev1ac.VolumeApplyConfiguration {
	volume := corev1ac.Volume().WithName(runVolume)
	if c.Text == "" {
		return volume.WithConfigMap(corev1ac.ConfigMapVolumeSource().WithName(c.Name))
	}
	return volume.WithDownwardAPI(corev1ac.DownwardAPIVolumeSource().WithItems(corev1ac.DownwardAPIVolumeFile().
		WithPath(runconfig.FileName).WithFieldRef(annotation(AnnotationRunConfig))))
}

// Carried is the run config in a pod template, empty where pods mount a ConfigMap: an annotation that somebody else
// holds may be of earlier content.
func Carried(template *corev1.PodTemplateSpec) string {
	for i := range template.Spec.Volumes {
		if v := &template.Spec.Volumes[i]; v.Name == runVolume && v.DownwardAPI != nil {
			return template.Annotations[AnnotationRunConfig]
		}
	}
	return ""
}

// guards are the proxy's access checks as an annotation; none without any.
func guards(proxy runconfig.Proxy) map[string]string {
	names := Guards(proxy)
	if names == "" {
		return nil
	}
	return map[string]string{AnnotationGuards: names}
}

// Guards names the access checks of a proxy, whatever its policies are.
func Guards(proxy runconfig.Proxy) string { return strings.Join(registry.AccessChecks(proxy), ",") }

// HasGuards reports whether a proxy pod with these annotations makes all checks that Guards named.
func HasGuards(annotations map[string]string, guards string) bool {
	has := strings.Split(annotations[AnnotationGuards], ",")
	for guard := range strings.SplitSeq(guards, ",") {
		if guard != "" && !slices.Contains(has, guard) {
			return false
		}
	}
	return true
}
