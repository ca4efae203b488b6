package writer

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// services are values of each field that a spec says of a Service.
var services = map[string][]v1alpha1.ProxyService{
	"type":        {{Type: corev1.ServiceTypeNodePort}, {Type: corev1.ServiceTypeLoadBalancer}},
	"labels":      {{Labels: map[string]string{"example.com/team": "red"}}},
	"annotations": {{Annotations: map[string]string{"example.com/team": "red"}}},
}

// As TestWhatATemplateDropsIsGone, for the Service: the other types of a Service have fields
// that the API server fills in.
func TestWhatAServiceDropsIsGone(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	owner := workload.OwnerOf(d.server("echo", ""))
	specs := []*v1alpha1.ProxySpec{{Port: 9000}}
	for field := range reflect.TypeFor[v1alpha1.ProxyService]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if len(services[name]) == 0 {
			t.Errorf("there is no value of %s", name)
		}
		for i := range services[name] {
			specs = append(specs, &v1alpha1.ProxySpec{Service: &services[name][i]})
		}
	}
	bare := d.service(apply.Created, nil, workload.ProxyService(owner, nil))
	for _, with := range specs {
		d.service(apply.Configured, bare, workload.ProxyService(owner, with))
		set := read(d, &corev1.Service{}, bare.Name)
		now := d.service(apply.Configured, set, workload.ProxyService(owner, nil))
		if diff := cmp.Diff(unlike(bare), unlike(now)); diff != "" {
			t.Errorf("%+v dropped (-born without it +now):\n%s", with.Service, diff)
		}
		d.Delete(now)
		born := d.service(apply.Created, nil, workload.ProxyService(owner, with))
		if diff := cmp.Diff(unlike(born), unlike(set)); diff != "" {
			t.Errorf("%+v set later (-born with it +now):\n%s", with.Service, diff)
		}
		d.Delete(born)
		bare = d.service(apply.Created, nil, workload.ProxyService(owner, nil))
	}
}

func (d *fixture) service(
	want apply.Result, live *corev1.Service, ac *corev1ac.ServiceApplyConfiguration,
) *corev1.Service {
	d.Helper()
	d.applier = d.process()
	if live == nil {
		d.put(want, contract.MCPServerChildren, nil, ac)
	} else {
		d.put(want, contract.MCPServerChildren, live, ac)
	}
	return read(d, &corev1.Service{}, *ac.Name)
}

// unlike is a Service without what is each one's own.
func unlike(of *corev1.Service) *corev1.Service {
	out := &corev1.Service{Spec: *of.Spec.DeepCopy()}
	out.Labels, out.Annotations = of.Labels, of.Annotations
	out.Spec.ClusterIP, out.Spec.ClusterIPs = "", nil
	for i := range out.Spec.Ports {
		out.Spec.Ports[i].NodePort = min(out.Spec.Ports[i].NodePort, 1)
	}
	return out
}
