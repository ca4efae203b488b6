package model

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/test/kit"
)

// elector takes the lease of leaders, or renews it, each time it is its turn, as
// long as anything happens: it never comes to rest. That of an operator that
// does not know it has lost does not ask whose the lease is.
func elector(process *process) func(context.Context) (time.Duration, error) {
	p := process.play
	applier := controllers.NewApplier(process.client, process.client)
	lock := apply.NewLeaseLock(applier.As(ownership.OperatorLease), types.NamespacedName{Namespace: kit.SystemNamespace, Name: ownership.LeaseName}, process.name)
	return func(ctx context.Context) (time.Duration, error) {
		if !p.disorder {
			return 0, nil
		}
		now := metav1.NewTime(p.clock)
		record := resourcelock.LeaderElectionRecord{HolderIdentity: process.name, LeaseDurationSeconds: 15, AcquireTime: now, RenewTime: now}
		_, _, err := lock.Get(ctx)
		switch {
		case apierrors.IsNotFound(err):
			err = lock.Create(ctx, record)
		case err == nil:
			err = lock.Update(ctx, record)
		}
		return 10 * time.Second, err
	}
}

// noLease removes the lease of the run before: there is one name for all.
func (p *play) noLease() {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: kit.SystemNamespace, Name: ownership.LeaseName}}
	if err := plane.Client.Delete(p.t.Context(), lease); client.IgnoreNotFound(err) != nil {
		p.broke(err)
	}
}
