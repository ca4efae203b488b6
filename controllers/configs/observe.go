package configs

import (
	"context"

	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/references"
)

// observed is everything a pass looks at beside the configuration.
type observed struct {
	// servers are the workloads that refer to it, sorted by kind and name, also those
	// that are being deleted. They are the cache's own.
	servers []kinds.Object
}

func (r *Reconciler) observe(ctx context.Context, config frame.Object) (observed, error) {
	servers, err := references.To(ctx, r.reader, r.row.Object.Kind, config.GetNamespace(), config.GetName())
	return observed{servers: servers}, err
}
