package kit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// SystemNamespace is where Install puts the operator's identity.
const SystemNamespace = "freehold-system"

// Install does what the chart does for an operator: its identity, its role and
// the policies. It returns once the API server holds to them.
func (p *Plane) Install(ctx context.Context) error {
	root, err := Root()
	if err != nil {
		return err
	}
	role, err := chartRole(root)
	if err != nil {
		return err
	}
	name := ownership.IdentityOperator
	role.Name = name
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: SystemNamespace}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: SystemNamespace}},
		role,
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: SystemNamespace}},
		},
	} {
		if err := p.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("creating %T %s: %w", object, object.GetName(), err)
		}
	}
	if err := p.ApplyDir(ctx, filepath.Join(root, "config", "policy")); err != nil {
		return err
	}
	return p.awaitPolicy(ctx)
}

// chartRole is the ClusterRole of the chart. Its rules hold no template marks,
// so it can be read without Helm.
func chartRole(root string) (*rbacv1.ClusterRole, error) {
	text, err := os.ReadFile(filepath.Join(root, "config", "chart", "templates", "rbac.yaml"))
	if err != nil {
		return nil, fmt.Errorf("reading the chart's role: %w", err)
	}
	_, rest, found := strings.Cut(string(text), "\nrules:\n")
	if !found {
		return nil, errors.New("reading the chart's role: rbac.yaml holds no rules")
	}
	rules, _, _ := strings.Cut(rest, "{{")
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict([]byte("rules:\n"+rules), role); err != nil || len(role.Rules) == 0 {
		return nil, fmt.Errorf("reading the chart's role: %d rules, %w", len(role.Rules), err)
	}
	return role, nil
}

// awaitPolicy waits until the API server holds to the policies, which it starts
// to do some time after it took them, and says nowhere.
func (p *Plane) awaitPolicy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	pause := time.NewTicker(50 * time.Millisecond)
	defer pause.Stop()
	for {
		if err := p.applyNumbered(ctx, "2"); err != nil {
			return fmt.Errorf("waiting for the policies: %w", err)
		}
		if err := p.applyNumbered(ctx, "1"); err != nil {
			return client.IgnoreNotFound(p.Client.Delete(ctx, numbered("2")))
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return errors.New("waiting for the policies: a workload generation may still go back")
		}
	}
}

func (p *Plane) applyNumbered(ctx context.Context, generation string) error {
	return p.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(numbered(generation)), client.FieldOwner("kit"))
}

// numbered is a StatefulSet of ours that carries a workload generation, and
// makes no pods.
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
	object.SetAnnotations(map[string]string{workload.AnnotationGeneration: generation})
	return object
}
