package configs

import (
	"context"

	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/references"
)

// observe lists the workloads that refer to a configuration, by kind and name, also those that are being deleted. They
// are the cache's own.
func (r *Reconciler) observe(ctx context.Context, config frame.Object) ([]kinds.Object, error) {
	return references.To(ctx, r.reader, r.row.Object.Kind, config.GetNamespace(), config.GetName())
}
