package workload

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/revision"
)

const (
	// drainSeconds covers the 28 seconds in which the runner ends its calls, and
	// what kubelet needs around them.
	drainSeconds = 40
	// oldRevisions are enough to look back one step; the way back is the spec
	// of the MCPServer.
	oldRevisions = 2
	// startSeconds is how long the proxy may take to answer its first probe.
	startSeconds = 60
)

// Proxy is the Deployment of the proxy, under a workload generation. The error is *Refused, with all problems.
func (r Rendered) Proxy(generation int64) (*appsv1ac.DeploymentApplyConfiguration, error) {
	if err := refused(r.Problems); err != nil {
		return nil, err
	}
	unavailable := intstr.FromInt32(0)
	if len(r.Content.NotEnforced) > 0 {
		unavailable = intstr.FromString("100%")
	}
	owner, rev := r.owner, revision.Revision{Generation: generation, Hash: r.Hash}
	return appsv1ac.Deployment(ProxyName(owner.Key()), owner.Namespace).
		WithLabels(Labels(owner.Key(), ComponentProxy)).
		WithAnnotations(rev.Annotations()).
		WithOwnerReferences(owner.reference()).
		WithSpec(appsv1ac.DeploymentSpec().
			WithReplicas(r.replicas).
			WithRevisionHistoryLimit(oldRevisions).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(Selector(owner.Key(), ComponentProxy))).
			// One more, none less: a single proxy is replaced without a gap.
			// But what serves without a protection that is now asked for stops
			// before its successor starts.
			WithStrategy(appsv1ac.DeploymentStrategy().
				WithType(appsv1.RollingUpdateDeploymentStrategyType).
				WithRollingUpdate(appsv1ac.RollingUpdateDeployment().
					WithMaxSurge(intstr.FromInt32(1)).
					WithMaxUnavailable(unavailable))).
			WithTemplate(r.revisedProxy(rev))), nil
}

// revisedProxy is the proxy's pod template with its revision, and the run config of
// that. The template itself stays as it is.
func (r Rendered) revisedProxy(rev revision.Revision) *corev1ac.PodTemplateSpecApplyConfiguration {
	spec := *r.proxy.Spec
	spec.Volumes = slices.Clone(spec.Volumes)
	for i, volume := range spec.Volumes {
		if *volume.Name == runVolume {
			spec.Volumes[i].ConfigMap = corev1ac.ConfigMapVolumeSource().WithName(RunConfigName(r.owner.Key(), rev))
		}
	}
	template := corev1ac.PodTemplateSpec().WithSpec(&spec)
	if meta := r.proxy.ObjectMetaApplyConfiguration; meta != nil {
		template.WithLabels(meta.Labels).WithAnnotations(meta.Annotations)
	}
	return template.WithAnnotations(rev.Annotations())
}

// ProxyReplicas is spec.proxy.replicas, 1 where it is unset, and 0 for a server
// that is suspended or being deleted, or whose backend is scaled to zero: a proxy
// is ready once it has reached a backend.
func ProxyReplicas(server *v1alpha1.MCPServer) int32 {
	none := server.Spec.Replicas != nil && *server.Spec.Replicas == 0
	if server.Spec.Suspend || none || server.DeletionTimestamp != nil {
		return 0
	}
	if server.Spec.Proxy == nil || server.Spec.Proxy.Replicas == nil {
		return 1
	}
	return *server.Spec.Proxy.Replicas
}

// ScaledProxy states what the manager owns of the live Deployment, with other
// replicas. It is for a server whose spec cannot be rendered and yet has to be
// stopped. The live object must be unmodified, with its managedFields; where
// the manager owns no pod template in it, that is an error, because applying
// the little that is left would take the rest away.
func ScaledProxy(live *appsv1.Deployment, manager string, replicas int32) (*appsv1ac.DeploymentApplyConfiguration, error) {
	proxy, err := appsv1ac.ExtractDeploymentFrom(live, manager, "")
	if err != nil {
		return nil, fmt.Errorf("extracting what %s owns of Deployment %s: %w", manager, live.Name, err)
	}
	if proxy.Spec == nil || proxy.Spec.Template == nil {
		return nil, fmt.Errorf("extracting what %s owns of Deployment %s: no pod template", manager, live.Name)
	}
	proxy.Spec.WithReplicas(replicas)
	return proxy, nil
}

// guards are what calls are held against, as an annotation; none for nothing.
func guards(proxy runconfig.Proxy) map[string]string {
	if proxy.Authorization == nil {
		return nil
	}
	return map[string]string{AnnotationGuards: "authorization"}
}

// Guarded reports whether a proxy that stands holds calls against all that the
// content asks for, whatever its policies are. One that is absent lets no call
// through.
func Guarded(live *appsv1.Deployment, content runconfig.RunConfig) bool {
	want := guards(content.Proxy)[AnnotationGuards]
	return live == nil || want == "" || live.Spec.Template.Annotations[AnnotationGuards] == want
}

// proxyPod is the proxy's pod template without its revision, merged with the
// overlay. Where there are problems the overlay is not in it.
func proxyPod(owner Owner, spec *v1alpha1.ProxySpec, run runconfig.Proxy, opts Options) (*corev1ac.PodTemplateSpecApplyConfiguration, []Problem) {
	secrets := make([]*corev1ac.LocalObjectReferenceApplyConfiguration, 0, len(opts.RunnerPullSecrets))
	for _, name := range opts.RunnerPullSecrets {
		secrets = append(secrets, corev1ac.LocalObjectReference().WithName(name))
	}
	template := corev1ac.PodTemplateSpec().
		WithLabels(Labels(owner.Key(), ComponentProxy)).
		WithAnnotations(guards(run)).
		WithSpec(corev1ac.PodSpec().
			WithServiceAccountName(RunnerName(owner.Key())).
			// Into every container; the runner's mounts it itself.
			WithAutomountServiceAccountToken(false).
			// What else runs in the namespace must not reach the environment.
			WithEnableServiceLinks(false).
			WithTerminationGracePeriodSeconds(drainSeconds).
			WithSecurityContext(podSecurity()).
			WithImagePullSecrets(secrets...).
			WithContainers(proxyContainer(spec, run, opts)).
			WithVolumes(
				corev1ac.Volume().
					WithName(runVolume).
					// The name is that of no run config until the revision is known.
					WithConfigMap(corev1ac.ConfigMapVolumeSource().WithName(RunConfigName(owner.Key(), revision.Revision{}))),
				tokenSource()))
	overlay := proxyOverlay(spec)
	merged, problems := overlay.merge(template)
	if len(problems) > 0 {
		return template, problems
	}
	if problems := incomplete(overlay.field, merged, nil); len(problems) > 0 {
		return template, problems
	}
	return merged, nil
}

func proxyContainer(spec *v1alpha1.ProxySpec, run runconfig.Proxy, opts Options) *corev1ac.ContainerApplyConfiguration {
	container := corev1ac.Container().
		WithName(ProxyContainer).
		WithImage(opts.RunnerImage).
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
		WithResources(proxyResources(spec.Resources)).
		// The last words of a container that ends are its log, not a file.
		WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError).
		WithSecurityContext(runnerSecurity()).
		WithVolumeMounts(mount(runVolume, runconfig.MountPath), mount(tokenVolume, tokenPath))
	if opts.RunnerPullPolicy != "" {
		container.WithImagePullPolicy(opts.RunnerPullPolicy)
	}
	return container
}

// proxyMemory is the default limit of a proxy's memory. What a hostile backend can
// make of what is read of it fits in, as a test of the runner's program measures.
const proxyMemory = "256Mi"

// proxyResources are those of the spec, as a whole, or small requests and a limit
// of memory. There is none of CPU by default: a proxy that is throttled slows
// every call.
func proxyResources(stated *v1alpha1.Resources) *corev1ac.ResourceRequirementsApplyConfiguration {
	if stated != nil && len(stated.Limits)+len(stated.Requests) > 0 {
		return resources(stated.Limits, stated.Requests)
	}
	return resources(corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(proxyMemory)}, corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("10m"),
		corev1.ResourceMemory: resource.MustParse("32Mi"),
	})
}

func mount(volume, path string) *corev1ac.VolumeMountApplyConfiguration {
	return corev1ac.VolumeMount().WithName(volume).WithMountPath(path).WithReadOnly(true)
}

// fromAnnotation states apiVersion, because fieldRef is atomic: without it every
// apply would take away the server's default.
func fromAnnotation(name, annotation string) *corev1ac.EnvVarApplyConfiguration {
	return corev1ac.EnvVar().
		WithName(name).
		WithValueFrom(corev1ac.EnvVarSource().
			WithFieldRef(corev1ac.ObjectFieldSelector().WithAPIVersion("v1").WithFieldPath("metadata.annotations['" + annotation + "']")))
}

// memoryLimit tells the Go runtime the container's limit, so that it collects
// garbage before it is reached. Without a limit it is what the node can give. It
// states the divisor, as fromAnnotation does apiVersion.
func memoryLimit() *corev1ac.EnvVarApplyConfiguration {
	return corev1ac.EnvVar().
		WithName("GOMEMLIMIT").
		WithValueFrom(corev1ac.EnvVarSource().
			WithResourceFieldRef(corev1ac.ResourceFieldSelector().WithResource("limits.memory").WithDivisor(resource.MustParse("1"))))
}

// containerPort states the protocol because it is half of the port's key.
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
