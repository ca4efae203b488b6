package writer

import (
	"context"
	"errors"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/apply"
)

// The object moves between the two writes by which something is taken off that another manager
// put there: the next write still names that manager.
func TestAConflictIsNamedAlsoWhereTheObjectMovedMeanwhile(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	meddles := false
	meddled := interceptor.NewClient(plane.Client, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
			opts ...client.PatchOption,
		) error {
			err := c.Patch(ctx, object, patch, opts...)
			if meddles {
				meddles = false
				d.Patch(read(d, &appsv1.Deployment{}, object.GetName()), "kubectl-label",
					`{"metadata":{"labels":{"example.com/team":"red"}}}`)
			}
			return err
		},
	})
	d.applier = apply.New(meddled, plane.Client, controllers.NewConverter(plane.Scheme), d.contract)
	proxy := d.workloads(before, 1)[0]
	d.put(apply.Created, proxy.manager, nil, proxy.ac, proxy.opts...)
	into["kubectl patch"](d, d.live(proxy), podsOf(d.live(proxy)).Spec.Containers[0].Name)
	for meddles = true; meddles; { // the Deployment controller may move it before
		_, err := d.applier.As(proxy.manager).Apply(d.Ctx, d.live(proxy), proxy.ac, proxy.opts...)
		if !errors.Is(err, apply.ErrStale) {
			t.Fatalf("the object moved, and the error is %v", err)
		}
	}
	done := d.firmly(apply.Configured, proxy)
	if done.Repaired == nil || !slices.Equal(done.Repaired.Others, []string{"kubectl-patch"}) ||
		len(done.Repaired.Fields) == 0 {
		t.Errorf("it says %v", done.Repaired)
	}
}
