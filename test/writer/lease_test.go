package writer

import (
	"context"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationv1ac "k8s.io/client-go/applyconfigurations/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/test/kit"
)

// lease is the statement of a holder.
func (d *desk) lease(holder string) statement {
	ac := coordinationv1ac.Lease(ownership.LeaseName, d.Namespace).WithSpec(coordinationv1ac.LeaseSpec().
		WithHolderIdentity(holder).WithRenewTime(metav1.NewMicroTime(time.Unix(1_800_000_000, 123_000))))
	return statement{ownership.OperatorLease, &coordinationv1.Lease{}, ac, atVersion}
}

// lock is the lock of a process.
func (d *desk) lock(id string) *apply.LeaseLock {
	return apply.NewLeaseLock(d.process().As(ownership.OperatorLease), types.NamespacedName{Namespace: d.Namespace, Name: ownership.LeaseName}, id)
}

func record(holder string) resourcelock.LeaderElectionRecord {
	now := metav1.NewTime(time.Now())
	return resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaseDurationSeconds: 15, AcquireTime: now, RenewTime: now}
}

func TestOfTwoTakersOneGetsTheLease(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	a, b := d.lock("a"), d.lock("b")
	for _, lock := range []*apply.LeaseLock{a, b} {
		if _, _, err := lock.Get(d.Ctx); !apierrors.IsNotFound(err) {
			t.Fatalf("reading no lease: %v, want NotFound", err)
		}
	}
	_ = d.sent()
	d.Must(a.Create(d.Ctx, record("a")), "taking the lease")
	err := b.Create(d.Ctx, record("b"))
	d.is(err, apply.ErrExists)
	if n := len(d.sent().Answered(409)); n != 1 || !apierrors.IsConflict(err) {
		t.Errorf("%d requests were answered 409, and the error is %v", n, err)
	}
	d.held("a")

	d.Must(a.Update(d.Ctx, record("a")), "renewing")
	d.Must(a.Update(d.Ctx, record("a")), "renewing again, without a read")
	// The second read before the first renewed.
	if _, _, err := b.Get(d.Ctx); err != nil {
		t.Fatal(err)
	}
	d.Must(a.Update(d.Ctx, record("a")), "renewing")
	err = b.Update(d.Ctx, record("b"))
	d.is(err, apply.ErrStale)
	if !apierrors.IsConflict(err) {
		t.Errorf("the elector asks for a conflict, and got %v", err)
	}
	d.held("a")

	// Released, it can be taken over; the first then has lost it.
	d.Must(a.Update(d.Ctx, record("")), "releasing")
	got, raw, err := b.Get(d.Ctx)
	if err != nil || got.HolderIdentity != "" || len(raw) == 0 {
		t.Fatalf("after the release: %+v, %s, %v", got, raw, err)
	}
	d.Must(b.Update(d.Ctx, record("b")), "taking over")
	d.held("b")
	d.is(a.Update(d.Ctx, record("a")), apply.ErrStale)
	d.onlyApplied()
}

func TestALeaseThatWasNeverReadIsNotRenewed(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	if err := d.lock("a").Update(d.Ctx, record("a")); err == nil {
		t.Error("it was")
	}
	d.quiet()
}

// A lease that was deleted under its holder is taken anew, not brought back.
func TestADeletedLeaseIsNotRenewed(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	a := d.lock("a")
	d.Must(a.Create(d.Ctx, record("a")), "taking the lease")
	d.Delete(read(d, &coordinationv1.Lease{}, ownership.LeaseName))
	d.is(a.Update(d.Ctx, record("a")), apply.ErrGone)
	if _, _, err := a.Get(d.Ctx); !apierrors.IsNotFound(err) {
		t.Fatalf("the lease was brought back: %v", err)
	}
	d.Must(a.Create(d.Ctx, record("a")), "taking the lease anew")
}

// client-go's elector, with this lock, hands over within a moment.
func TestAnElectorLeadsReleasesAndIsSucceeded(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	leads := make(chan string, 2)
	run := func(id string) (stop func()) {
		ctx, cancel := context.WithCancel(d.Ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
				Lock: d.lock(id), LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 200 * time.Millisecond,
				ReleaseOnCancel: true, Name: id,
				Callbacks: leaderelection.LeaderCallbacks{
					OnStartedLeading: func(context.Context) { leads <- id }, OnStoppedLeading: func() {},
				},
			})
		}()
		return func() { cancel(); <-ended }
	}
	await := func(want string) {
		select {
		case got := <-leads:
			if got != want {
				t.Fatalf("%s leads, want %s", got, want)
			}
		case <-time.After(kit.Patience):
			t.Fatalf("%s does not lead", want)
		}
	}
	first := run("first")
	await("first")
	second := run("second")
	defer second()
	time.Sleep(time.Second) // a few renewals, and as many looks by the second
	d.held("first")
	first()
	await("second")
	d.held("second")
	d.onlyApplied()
}

func (d *desk) held(by string) {
	d.Helper()
	lease := read(d, &coordinationv1.Lease{}, ownership.LeaseName)
	if holder := *lease.Spec.HolderIdentity; holder != by {
		d.Fatalf("the lease is held by %q, want %q", holder, by)
	}
}

// onlyApplied expects that the lease was only ever read and applied.
func (d *desk) onlyApplied() {
	d.Helper()
	for _, entry := range read(d, &coordinationv1.Lease{}, ownership.LeaseName).ManagedFields {
		if entry.Operation != metav1.ManagedFieldsOperationApply || entry.Manager != string(ownership.OperatorLease) {
			d.Errorf("the lease has an entry of %s by %s", entry.Operation, entry.Manager)
		}
	}
	other := d.requests.Since(0).Where(func(r kit.Request) bool { return !slices.Contains([]string{"get", "apply"}, r.Verb) })
	if len(other) > 0 {
		d.Errorf("there were %s", other)
	}
}
