package workload

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/runspec"
)

// appProtocol is for meshes and gateways
// (https://kubernetes.io/docs/concepts/services-networking/service/#application-protocol).
const appProtocol = "http"

// ProxyService is where clients call. Its type is always stated: only its spec decides whether a proxy is reachable
// from outside the cluster. Labels and annotations under Freehold's prefixes are left out; Render reports them.
func ProxyService(owner Owner, spec *v1alpha1.ProxySpec) *corev1ac.ServiceApplyConfiguration {
	service := child(corev1ac.Service(ProxyName(owner.Key()), owner.Namespace), owner, ComponentProxy)
	serviceType := corev1.ServiceTypeClusterIP
	if spec != nil && spec.Service != nil {
		service.WithLabels(unreserved(spec.Service.Labels)).WithAnnotations(unreserved(spec.Service.Annotations))
		serviceType = cmp.Or(spec.Service.Type, serviceType)
	}
	return service.
		WithSpec(corev1ac.ServiceSpec().
			WithType(serviceType).
			WithSelector(Selector(owner.Key(), ComponentProxy)).
			WithPorts(mcpPort(runspec.ProxyPort(spec))))
}

// portCalls is the port of the backend's Service that proxies call.
const portCalls = "calls"

// BackendService is where the proxy calls. It carries the revision, because its port is content that an older runner
// must not set back. Proxies call CallPort, which never changes; those of earlier releases call spec.port. That port
// keeps its name: kube-proxy identifies a port by its name, and would briefly send calls to a renamed one nowhere.
func BackendService(run runconfig.RunConfig, slot Slot) *corev1ac.ServiceApplyConfiguration {
	spec := corev1ac.ServiceSpec().
		WithType(corev1.ServiceTypeClusterIP).
		WithSelector(Selector(run.Server.Name, slot.Component())).
		WithPorts(mcpPort(runconfig.CallPort).WithName(portCalls))
	if run.Backend.Port != runconfig.CallPort {
		spec.WithPorts(mcpPort(run.Backend.Port))
	}
	return backendService(run, slot, slot.Name(run.Server.Name)).WithSpec(spec)
}

// HeadlessService names each backend pod, for the StatefulSet's serviceName, and the port on which each listens. It
// publishes only ready addresses: servers need not find each other to become ready, and a name that resolves should
// answer.
func HeadlessService(run runconfig.RunConfig, slot Slot) *corev1ac.ServiceApplyConfiguration {
	return backendService(run, slot, slot.HeadlessName(run.Server.Name)).
		WithSpec(corev1ac.ServiceSpec().
			WithType(corev1.ServiceTypeClusterIP).
			WithClusterIP(corev1.ClusterIPNone).
			WithSelector(Selector(run.Server.Name, slot.Component())).
			WithPorts(mcpPort(run.Backend.PodPort())))
}

func backendService(run runconfig.RunConfig, slot Slot, name string) *corev1ac.ServiceApplyConfiguration {
	return child(corev1ac.Service(name, run.Server.Namespace), OwnerIn(run.Server), slot.Component()).
		WithAnnotations(revision.Revision(run.Workload).Annotations())
}

// mcpPort states the protocol, because it is half of the key of a Service's port.
func mcpPort(port int32) *corev1ac.ServicePortApplyConfiguration {
	return corev1ac.ServicePort().
		WithName(podtemplate.PortMCP).
		WithPort(port).
		WithProtocol(corev1.ProtocolTCP).
		WithTargetPort(intstr.FromString(podtemplate.PortMCP)).
		WithAppProtocol(appProtocol)
}
