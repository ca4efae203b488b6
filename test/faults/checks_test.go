package faults

import (
	"fmt"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// converged waits until all is as it is wanted, and says so; nothing is there
// twice or left over, and nothing of anybody else's is missing.
func (l *life) converged() {
	GinkgoHelper()
	server := l.server()
	l.s.Await(server, l.name+" says that it is as wanted", func() error { return l.says(server) })
	if !l.strict {
		l.wants.generation = server.Status.Workload.Generation
	}
	l.carried()
	l.counted()
	l.s.Owns(server, auditor, "metadata.annotations["+strconv.Quote(note)+"]", `metadata.finalizers[="`+hold+`"]`)
	l.s.Owns(server, scanner, "status.conditions[type="+scanned+"]")
}

func (l *life) says(server *v1alpha1.MCPServer) error {
	ready, s := meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionReady), server.Status
	switch {
	case ready == nil || ready.ObservedGeneration != server.Generation || ready.Status != metav1.ConditionTrue:
		return fmt.Errorf("of spec %d it says %+v", server.Generation, ready)
	case s.Workload == nil || s.Runtime == nil || s.Workload.Generation != s.Runtime.Generation:
		return fmt.Errorf("claimed is %+v, reported %+v", s.Workload, s.Runtime)
	case l.strict && s.Workload.Generation != l.wants.generation:
		return fmt.Errorf("the workload generation is %d, and %d contents were wanted", s.Workload.Generation,
			l.wants.generation)
	case s.ReadyReplicas == nil || *s.ReadyReplicas != l.wants.replicas || *s.Replicas != l.wants.replicas:
		return fmt.Errorf("the counts are not %d", l.wants.replicas)
	case s.Runtime.ServerUID != string(l.uid) || server.UID != l.uid:
		return fmt.Errorf("it is another server")
	case !meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionBackendApplied):
		return fmt.Errorf("the backend is not applied")
	}
	return nil
}

// carried waits until proxy and backend carry the wanted content.
func (l *life) carried() {
	GinkgoHelper()
	proxy, backend := &appsv1.Deployment{}, &appsv1.StatefulSet{}
	proxy.Name, backend.Name = workload.ProxyName(l.name), workload.BackendName(l.name)
	l.s.Await(proxy, "the proxy is as wanted", func() error {
		return l.carries(proxy, *proxy.Spec.Replicas, l.wants.proxies)
	})
	l.s.Await(backend, "the backend is as wanted", func() error {
		if image := backend.Spec.Template.Spec.Containers[0].Image; image != l.wants.image {
			return fmt.Errorf("it runs %s", image)
		}
		return l.carries(backend, *backend.Spec.Replicas, l.wants.replicas)
	})
}

func (l *life) carries(object client.Object, replicas, want int32) error {
	rev, err := revision.Of(object.GetAnnotations())
	if err == nil && (rev.Generation != l.wants.generation || replicas != want) {
		err = fmt.Errorf("it carries generation %d with %d replicas, not %d with %d", rev.Generation, replicas,
			l.wants.generation, want)
	}
	return err
}

// counted waits until the server has just the objects that it needs.
func (l *life) counted() {
	GinkgoHelper()
	configs := 0
	if l.more != "" {
		configs = 1
	}
	for list, want := range map[client.ObjectList]int{
		&appsv1.DeploymentList{}: 1, &appsv1.StatefulSetList{}: 1, &corev1.ServiceList{}: 3, &corev1.ConfigMapList{}: configs,
		&corev1.ServiceAccountList{}: 1, &rbacv1.RoleList{}: 1, &rbacv1.RoleBindingList{}: 1,
		&corev1.PodList{}: int(l.wants.replicas + l.wants.proxies),
	} {
		l.s.AwaitAll(list, fmt.Sprintf("of %T there are %d", list, want), func() error {
			if n := meta.LenList(list); n != want {
				return fmt.Errorf("there are %d", n)
			}
			return nil
		}, client.MatchingLabels{workload.LabelServer: l.name})
	}
}

// children are the objects of a server that live as long as it does.
func (l *life) children() []client.Object {
	called := func(object client.Object, name string) client.Object {
		object.SetNamespace(l.s.Namespace)
		object.SetName(name)
		return object
	}
	return []client.Object{
		called(&appsv1.Deployment{}, workload.ProxyName(l.name)), called(&appsv1.StatefulSet{}, workload.BackendName(l.name)),
		called(&corev1.Service{}, workload.ProxyName(l.name)), called(&corev1.Service{}, workload.BackendName(l.name)),
		called(&corev1.Service{}, workload.HeadlessName(l.name)),
		called(&corev1.ServiceAccount{}, workload.RunnerName(l.name)),
		called(&rbacv1.Role{}, workload.RunnerName(l.name)), called(&rbacv1.RoleBinding{}, workload.RunnerName(l.name)),
	}
}

// ended waits until only the auditor holds the server, lets it go, and sees
// that nothing is left. Then the observer is asked.
func (l *life) ended() {
	GinkgoHelper()
	server := l.server()
	l.s.Await(server, l.name+" is let go", func() error {
		if len(server.Finalizers) != 1 || server.Finalizers[0] != hold {
			return fmt.Errorf("the finalizers are %q", server.Finalizers)
		}
		return nil
	})
	l.s.Owns(server, scanner, "status.conditions[type="+scanned+"]")
	l.s.OwnsNothing(server, string(contract.MCPServerFinalizer))
	l.insist("letting go", func() error {
		_, err := l.s.ApplyErr(auditor, l.head())
		return client.IgnoreNotFound(err)
	})
	l.s.AwaitGone(server)
	for _, list := range []client.ObjectList{
		&appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{},
		&corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &corev1.PodList{},
	} {
		l.s.AwaitAll(list, fmt.Sprintf("%T is empty", list), func() error {
			if n := meta.LenList(list); n > 0 {
				return fmt.Errorf("%d are left", n)
			}
			return nil
		}, client.MatchingLabels{workload.LabelServer: l.name})
	}
	Expect(seen.saw(l.s.Namespace, l.uid)).To(BeEmpty(), "on the way")
}

// bounded holds that a process sent no more writes than a life needs and each thing that went wrong explains.
func bounded(requests *kit.Requests, namespace string, explained int) {
	GinkgoHelper()
	writes := requests.Since(0).In(namespace).Writes()
	Expect(len(writes)).To(BeNumerically("<=", explained), "%s", writes)
}
