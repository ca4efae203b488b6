package gate

import (
	"fmt"
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

const namespace = "default"

// keys are the objects of a server that a runner reads.
func (p *scenario) keys() []string {
	return []string{
		"MCPServer/" + p.name,
		"StatefulSet/" + workload.BackendName(p.name),
		"Service/" + workload.BackendName(p.name),
		"Service/" + workload.HeadlessName(p.name),
	}
}

// look reads what stands under a name now, and shows it to the checker.
func (p *scenario) look(kind, name string) {
	key := kind + "/" + name
	o := map[string]client.Object{"MCPServer": &v1alpha1.MCPServer{}, "StatefulSet": &appsv1.StatefulSet{}, "Service": &corev1.Service{}}[kind]
	err := admin.Get(p.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o)
	switch {
	case apierrors.IsNotFound(err):
		p.stands[key] = nil
	case err != nil:
		p.t.Fatal(err)
	default:
		p.stands[key] = o
	}
	p.checker.sees(key, p.stands[key])
}

func (p *scenario) statefulSet() *appsv1.StatefulSet {
	s, _ := p.stands["StatefulSet/"+workload.BackendName(p.name)].(*appsv1.StatefulSet)
	return s
}

func (p *scenario) service(name string) *corev1.Service {
	s, _ := p.stands["Service/"+name].(*corev1.Service)
	return s
}

func (p *scenario) status() v1alpha1.MCPServerStatus {
	return p.stands["MCPServer/"+p.name].(*v1alpha1.MCPServer).Status
}

// create makes the server that the run is about.
func (p *scenario) create() {
	p.server = &v1alpha1.MCPServer{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: p.name},
		Spec:       v1alpha1.MCPServerSpec{Image: "server"},
	}
	if err := admin.Create(p.t.Context(), p.server); err != nil {
		p.t.Fatal(err)
	}
	p.look("MCPServer", p.name)
}

// claim is what the operator does before it starts a pod of new content.
func (p *scenario) claim(run runconfig.RunConfig) {
	if claimed := p.status().Workload; claimed != nil && claimed.Generation >= run.Workload.Generation {
		return
	}
	p.note("operator: claims %d", run.Workload.Generation)
	p.apply(contract.MCPServerWorkload, v1alpha1ac.MCPServer(p.name, namespace).WithStatus(v1alpha1ac.MCPServerStatus().
		WithWorkload(v1alpha1ac.WorkloadStatus().WithGeneration(run.Workload.Generation).WithHash(run.Workload.Hash))))
	p.look("MCPServer", p.name)
}

// remove deletes one of the backend's objects, the StatefulSet more often.
func (p *scenario) remove() {
	key, o := "StatefulSet", client.Object(&appsv1.StatefulSet{})
	name := workload.BackendName(p.name)
	switch p.random.IntN(4) {
	case 0:
		key, o = "Service", &corev1.Service{}
	case 1:
		key, o, name = "Service", &corev1.Service{}, workload.HeadlessName(p.name)
	}
	o.SetNamespace(namespace)
	o.SetName(name)
	p.note("somebody: deletes %s %s", key, name)
	if err := client.IgnoreNotFound(admin.Delete(p.t.Context(), o)); err != nil {
		p.t.Fatal(err)
	}
	p.look(key, name)
}

// strip takes the revision from one of the backend's objects.
func (p *scenario) strip() {
	keys := p.keys()[1:]
	key := keys[p.random.IntN(len(keys))]
	o := p.stands[key]
	if o == nil {
		return
	}
	p.note("somebody: strips the revision of %s", key)
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:null,%q:null}}}`, revision.AnnotationGeneration, revision.AnnotationHash)
	o = o.DeepCopyObject().(client.Object)
	if err := admin.Patch(p.t.Context(), o, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		p.t.Fatal(err)
	}
	kind, name, _ := strings.Cut(key, "/")
	p.look(kind, name)
}

// tamper takes a field of the backend from its manager.
func (p *scenario) tamper() {
	s := p.statefulSet()
	if s == nil {
		return
	}
	p.note("somebody: tampers with the backend")
	labels := map[string]string{workload.LabelName: fmt.Sprint("tampered-", p.random.IntN(100))}
	intent := appsv1ac.StatefulSet(s.Name, namespace).WithUID(s.UID).WithLabels(labels)
	intent.WithSpec(appsv1ac.StatefulSetSpec().WithTemplate(corev1ac.PodTemplateSpec().WithSpec(corev1ac.PodSpec().
		WithContainers(corev1ac.Container().WithName(podtemplate.ServerContainer).WithArgs("tampered")))))
	p.apply("intruder", intent)
	p.look("StatefulSet", s.Name)
	if service := p.service(workload.BackendName(p.name)); service != nil {
		p.apply("intruder", corev1ac.Service(service.Name, namespace).WithUID(service.UID).WithLabels(labels))
		p.look("Service", service.Name)
	}
}

func (p *scenario) apply(manager ownership.Manager, ac runtime.ApplyConfiguration) {
	options := client.ApplyOptions{FieldManager: string(manager), Force: new(true)}
	var err error
	if manager == contract.MCPServerWorkload {
		err = admin.SubResource("status").Apply(p.t.Context(), ac, &client.SubResourceApplyOptions{ApplyOptions: options})
	} else {
		err = admin.Apply(p.t.Context(), ac, &options)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

func kindOf(o client.Object) string {
	return reflect.TypeOf(o).Elem().Name()
}

func notFound(kind, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name)
}

// convert copies one object into another of the same type.
func convert(from, to client.Object) error {
	if reflect.TypeOf(from) != reflect.TypeOf(to) {
		return fmt.Errorf("a %T is no %T", from, to)
	}
	reflect.ValueOf(to).Elem().Set(reflect.ValueOf(from.DeepCopyObject()).Elem())
	return nil
}
