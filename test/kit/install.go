package kit

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// SystemNamespace is where Install puts the operator's identity.
const SystemNamespace = "freehold-system"

// Install does what the chart does for an operator, but for its Deployment: it applies the chart's default rendering,
// in which are the identities and their roles, and the policies. It returns once the API server holds to them.
func (p *Plane) Install(ctx context.Context) error {
	root, err := Root()
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: SystemNamespace}}
	if err := p.Client.Create(ctx, namespace); err != nil {
		return fmt.Errorf("creating namespace %s: %w", SystemNamespace, err)
	}
	if err := p.applyFile(ctx, filepath.Join(root, rendering), "Deployment"); err != nil {
		return err
	}
	if err := p.ApplyDir(ctx, filepath.Join(root, "config", "policy")); err != nil {
		return err
	}
	if p.operator, err = p.ConfigOf(ctx, SystemNamespace, contract.IdentityOperator); err != nil {
		return err
	}
	return p.awaitPolicyIs(ctx, true)
}

// rendering is what test/chart holds the chart to, without CRDs and policies.
const rendering = "test/chart/testdata/default.golden.yaml"

// OperatorConfig is ConfigOf the operator that Install installed.
func (p *Plane) OperatorConfig() *rest.Config { return rest.CopyConfig(p.operator) }

// ConfigOf is the configuration of whoever holds a token of a ServiceAccount.
// Unlike with As, it may impersonate others, if the account may.
func (p *Plane) ConfigOf(ctx context.Context, namespace, name string) (*rest.Config, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(24 * 60 * 60))},
	}
	if err := p.Client.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, fmt.Errorf("asking for a token of %s: %w", name, err)
	}
	config := rest.AnonymousClientConfig(p.Config)
	config.BearerToken = request.Status.Token
	return config, nil
}

// WithoutPolicies does something while nothing binds the API server to the policies of Install.
func (p *Plane) WithoutPolicies(ctx context.Context, do func()) error {
	var bindings admissionregistrationv1.ValidatingAdmissionPolicyBindingList
	if err := p.Client.List(ctx, &bindings); err != nil {
		return fmt.Errorf("reading what binds to policies: %w", err)
	}
	// By name, as Install applies them: once the last is known the others are.
	for i := range bindings.Items {
		if err := p.Client.Delete(ctx, &bindings.Items[i]); err != nil {
			return fmt.Errorf("letting go of a policy: %w", err)
		}
	}
	if err := p.awaitPolicyIs(ctx, false); err != nil {
		return err
	}
	do()
	for i := range bindings.Items {
		bindings.Items[i].ResourceVersion, bindings.Items[i].UID = "", ""
		if err := p.Client.Create(ctx, &bindings.Items[i]); err != nil {
			return fmt.Errorf("binding to a policy again: %w", err)
		}
	}
	return p.awaitPolicyIs(ctx, true)
}

// awaitPolicyIs waits until the API server holds to the policies, or to none any
// more, which it does some time after it was told so, and says nowhere.
func (p *Plane) awaitPolicyIs(ctx context.Context, held bool) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	pause := time.NewTicker(50 * time.Millisecond)
	defer pause.Stop()
	for {
		if err := p.applyNumbered(ctx, "2"); err != nil {
			return fmt.Errorf("waiting for the policies: %w", err)
		}
		if err := p.applyNumbered(ctx, "1"); (err != nil) == held {
			return client.IgnoreNotFound(p.Client.Delete(ctx, numbered("2")))
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the policies: that a workload generation may not go back is still %t", !held)
		}
	}
}

func (p *Plane) applyNumbered(ctx context.Context, generation string) error {
	return p.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(numbered(generation)), client.FieldOwner("kit"))
}

// numbered is a StatefulSet of ours that carries a workload generation, and makes no pods.
func numbered(generation string) *unstructured.Unstructured {
	labels := map[string]any{"app": "policy"}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "StatefulSet",
		"spec": map[string]any{
			"replicas": int64(0), "serviceName": "policy", "selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "none"}}},
			},
		},
	}}
	object.SetName("policy")
	object.SetNamespace(SystemNamespace)
	object.SetLabels(map[string]string{workload.LabelManagedBy: workload.ManagedBy})
	object.SetAnnotations(map[string]string{revision.AnnotationGeneration: generation})
	return object
}
