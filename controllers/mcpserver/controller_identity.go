package mcpserver

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/controllers/apply"
)

// applyIdentity applies the runner's ServiceAccount, Role and RoleBinding, each
// only after the one that it rests on: bound to an account with another owner, the
// runner's rights would be that owner's, and a Role with another owner may hold
// anything. Where one of the two has another owner, the RoleBinding that we made goes.
// It reports whether pods may be started as the account.
func (r *Reconciler) applyIdentity(ctx context.Context, p *pass, w world, want wanted, opts ...apply.Option) (ours bool, err error) {
	ours = true
	var errs []error
	for i, part := range want.identity {
		_, err := p.Apply(ctx, part.manager, part.live, part.ac, opts...)
		if conflicts := apply.Conflicts(err); conflicts != nil && part.lost {
			err = fmt.Errorf("%w: %s", apply.ErrForeign, conflicts[0].String()) // it refuses, so it is no conflict
		}
		errs = append(errs, err)
		if apply.WithoutConflicts(err) == nil {
			continue
		}
		if errors.Is(err, apply.ErrForeign) || part.lost && apply.When(err) != apply.WithWatch {
			ours = i > 0
			errs = append(errs, r.unbind(ctx, p, w))
		}
		break
	}
	return ours, errors.Join(errs...)
}

// withdrawLost applies the identity of a server whose new content cannot go out:
// rights that were given before are withdrawn all the same where they rest on
// what another writer has.
func (r *Reconciler) withdrawLost(ctx context.Context, p *pass, w world, want wanted) error {
	if w.binding == nil {
		return nil
	}
	_, err := r.applyIdentity(ctx, p, w, want, apply.Untaken)
	return err
}

// unbind deletes the RoleBinding that we made, if there is one.
func (r *Reconciler) unbind(ctx context.Context, p *pass, w world) error {
	if w.binding == nil || !metav1.IsControlledBy(w.binding, p.server) {
		return nil
	}
	if err := p.Remove(ctx, r.kind.RightsManager, w.binding); err != nil {
		return err
	}
	p.Event(corev1.EventTypeWarning, "RightsWithdrawn", "Repair", fmt.Sprintf(
		"Freehold does not control the ServiceAccount or Role %s any more; deleted the RoleBinding, so that it grants nothing to its new owner", w.binding.Name))
	return nil
}
