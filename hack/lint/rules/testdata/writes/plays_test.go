package writes

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A test plays another writer.
func plays(ctx context.Context, c client.Client, pod *corev1.Pod) error { return c.Update(ctx, pod) }
