// Package guard is a controller of another author, as an example of one that writes to MCPServers beside Freehold: it
// gives each server with the label example.com/team a policy that lets that team call it.
package guard

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
)

const (
	// Manager is the field manager of the policy, and of nothing else.
	Manager = "guard.example.com/policy"
	// TeamLabel names the team of a server.
	TeamLabel = "example.com/team"
	// policyName is the policy's key in the list, which other policies share.
	policyName = "guard"
)

// Guard is the controller.
type Guard struct{ client.Client }

// SetupWithManager registers the controller.
func (g *Guard) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("guard").For(&v1alpha1.MCPServer{}).Complete(g)
}

// Reconcile applies the policy of one server, and nothing if it is there.
func (g *Guard) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	server := &v1alpha1.MCPServer{}
	if err := g.Get(ctx, req.NamespacedName, server); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	team := server.Labels[TeamLabel]
	if team == "" || !server.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	policy := fmt.Sprintf("permit(principal in Group::%q, action, resource);", team)
	if has(server, policy) {
		return ctrl.Result{}, nil
	}
	// The uid has the API server refuse the write to another server of this name, and keeps the apply from creating one.
	intent := ac.MCPServer(server.Name, server.Namespace).WithUID(server.UID).
		WithSpec(ac.MCPServerSpec().WithAuthzConfig(ac.AuthzConfig().
			WithPolicies(ac.AuthzPolicy().WithName(policyName).WithPolicy(policy))))
	if err := g.Apply(ctx, intent, client.FieldOwner(Manager), client.ForceOwnership); err != nil {
		return ctrl.Result{}, fmt.Errorf("applying the policy of %s: %w", req, err)
	}
	return ctrl.Result{}, nil
}

func has(server *v1alpha1.MCPServer, policy string) bool {
	if server.Spec.AuthzConfig == nil {
		return false
	}
	for _, p := range server.Spec.AuthzConfig.Policies {
		if p.Name == policyName {
			return p.Policy == policy
		}
	}
	return false
}
