package apply

import (
	"context"
	"encoding/json"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationv1ac "k8s.io/client-go/applyconfigurations/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// LeaseLock is leader election by apply: the first taker is a birth, every
// later write carries the resourceVersion it was decided on, so that of two
// takers one is answered 409. It exists because client-go's LeaseLock creates
// and updates.
type LeaseLock struct {
	writer *Writer
	key    types.NamespacedName
	id     string
	lease  *coordinationv1.Lease
}

var _ resourcelock.Interface = (*LeaseLock)(nil)

// NewLeaseLock returns a lock on the Lease called key for the process called
// id, which must differ between processes.
func NewLeaseLock(writer *Writer, key types.NamespacedName, id string) *LeaseLock {
	return &LeaseLock{writer: writer, key: key, id: id}
}

// Get reads the lease from the server.
func (l *LeaseLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	lease := &coordinationv1.Lease{}
	if err := l.writer.applier.live.Get(ctx, l.key, lease); err != nil {
		return nil, nil, err // unwrapped: the elector asks whether it is a NotFound
	}
	l.lease = lease
	record := resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
	data, err := json.Marshal(record)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the lease: %w", err)
	}
	return record, data, nil
}

// Create takes a lease that does not exist.
func (l *LeaseLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.lease = nil
	return l.put(ctx, record)
}

// Update renews, takes over or releases the lease that was read last. It
// returns an error that wraps ErrStale if somebody else did so meanwhile.
func (l *LeaseLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if l.lease == nil {
		return fmt.Errorf("updating lease %s: it was not read yet", l.key)
	}
	return l.put(ctx, record)
}

func (l *LeaseLock) put(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	spec := resourcelock.LeaderElectionRecordToLeaseSpec(&record)
	data, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("encoding the lease: %w", err)
	}
	specAC := &coordinationv1ac.LeaseSpecApplyConfiguration{}
	if err := json.Unmarshal(data, specAC); err != nil {
		return fmt.Errorf("encoding the lease: %w", err)
	}
	in, err := l.writer.applier.converter.freeze(coordinationv1ac.Lease(l.key.Name, l.key.Namespace).WithSpec(specAC))
	if err != nil {
		return err
	}
	grant, err := l.writer.grant(in)
	if err != nil {
		return err
	}
	pre := preconditions{birth: true}
	if l.lease != nil {
		pre = preconditions{uid: l.lease.UID, resourceVersion: l.lease.ResourceVersion}
	}
	// Sent even if nothing changed: the elector decides when to renew.
	outcome, err := l.writer.send(ctx, in, grant, l.writer.memoryKey(in, grant), pre)
	if err != nil {
		return fmt.Errorf("applying lease %s: %w", l.key, err)
	}
	l.lease = &coordinationv1.Lease{Spec: spec}
	l.lease.UID, l.lease.ResourceVersion = outcome.UID, outcome.ResourceVersion
	return nil
}

// RecordEvent does nothing: who leads is in the Lease and in the log.
func (l *LeaseLock) RecordEvent(string) {}

// Identity is the id of this process.
func (l *LeaseLock) Identity() string { return l.id }

// Describe names the lease for the log.
func (l *LeaseLock) Describe() string { return l.key.String() }
