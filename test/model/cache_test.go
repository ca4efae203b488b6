package model

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/references"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// lagging is the cache of a process: it shows what it was last told.
type lagging struct {
	process *process
	// labelled says that it holds only children with our label, as the operator's does.
	labelled bool
	shown    map[key]*unstructured.Unstructured
}

// sees is what the cache shows of an object, nil for nothing.
func (l *lagging) sees(k key) *unstructured.Unstructured {
	o := l.shown[k]
	if o == nil || !l.labelled || o.GroupVersionKind().Group == contract.MCPServer.Group {
		return o
	}
	// Run configs are listed by the server's name, the others read by their own.
	label := o.GetLabels()[workload.LabelServer]
	if label == "" || k.kind == contract.ConfigMap.Kind && label != l.process.scenario.name {
		return nil
	}
	return o
}

// Get reads from the cache.
func (l *lagging) Get(_ context.Context, name client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	k := key{reflect.TypeOf(obj).Elem().Name(), name.Name}
	shown := l.sees(k)
	if shown == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: k.kind}, k.name)
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(shown.DeepCopy().Object, obj)
}

// List reads what the operator lists: run configs and contents by label, servers by what they
// refer to, and pods, their events and remote proxies, of which there are none.
func (l *lagging) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	configs, ok := list.(*metav1.PartialObjectMetadataList)
	if !ok {
		switch list := list.(type) {
		case *corev1.PodList, *corev1.EventList, *v1alpha1.MCPRemoteProxyList:
			return nil
		case *v1alpha1.MCPServerList:
			return l.referrers(list, options)
		}
		return fmt.Errorf("nobody lists %T", list)
	}
	if options.LabelSelector == nil {
		return errors.New("all of a kind in a namespace are listed")
	}
	for _, k := range l.process.scenario.world.order {
		o := l.sees(k)
		if k.kind+"List" != configs.Kind || o == nil || !options.LabelSelector.Matches(labelsOf(o)) {
			continue
		}
		config := metav1.PartialObjectMetadata{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.DeepCopy().Object, &config); err != nil {
			return err
		}
		configs.Items = append(configs.Items, config)
	}
	return nil
}

// referrers are the servers that refer to a configuration.
func (l *lagging) referrers(list *v1alpha1.MCPServerList, options *client.ListOptions) error {
	if options.FieldSelector == nil || len(options.FieldSelector.Requirements()) != 1 {
		return errors.New("all servers of a namespace are listed")
	}
	if l.process.scenario.plant.blind {
		return nil
	}
	name := options.FieldSelector.Requirements()[0].Value
	for _, k := range l.process.scenario.world.order {
		o := l.sees(k)
		if k.kind != contract.MCPServer.Kind || o == nil {
			continue
		}
		server := v1alpha1.MCPServer{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.DeepCopy().Object, &server); err != nil {
			return err
		}
		if references.From(&server, l.process.scenario.shared().Object.Kind) == name {
			list.Items = append(list.Items, server)
		}
	}
	return nil
}

// seeing reads as a runner does, past what is planted before its eyes.
type seeing struct {
	client.Reader
	process *process
}

// Get reads.
func (s seeing) Get(ctx context.Context, name client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	err := s.Reader.Get(ctx, name, obj, opts...)
	if eyes := s.process.scenario.plant.eyes; err == nil && eyes != nil {
		eyes(s.process, obj)
	}
	return err
}

// hears brings the cache up to date with what stands, each object with a chance
// of one in n. It reports whether there was news.
func (l *lagging) hears(n int) bool {
	scenario, news := l.process.scenario, false
	for _, k := range scenario.world.order {
		stands := scenario.world.stands[k]
		if versionOf(l.shown[k]) == versionOf(stands) || scenario.random.IntN(n) != 0 {
			continue
		}
		l.shown[k] = stands
		news = true
	}
	return news
}
