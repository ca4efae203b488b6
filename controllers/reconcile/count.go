package reconcile

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/metrics"
)

func countApply(manager ownership.Manager, result string, done apply.Outcome, err error) {
	metrics.Applies.WithLabelValues(string(manager), result).Inc()
	for _, c := range apply.Conflicts(err) {
		metrics.Conflicts.WithLabelValues(c.Object.Kind).Inc()
	}
	if err == nil && done.Repaired != nil {
		metrics.Repairs.WithLabelValues(done.Repaired.Object.Kind).Inc()
	}
}

func result(done apply.Outcome, err error) string {
	switch {
	case len(apply.Conflicts(err)) > 0:
		return metrics.Conflict
	case apply.RetryOf(err) == apply.OnEvent:
		return metrics.Moved
	case apply.RetryOf(err) == apply.RetryNow:
		return metrics.Failed
	case err != nil:
		return metrics.Refused
	case done.Result == apply.Created:
		return metrics.Created
	case done.Result == apply.Configured:
		return metrics.Configured
	}
	return metrics.Unchanged
}

// resultAside is result for an object on which nothing rests.
func resultAside(done apply.Outcome, err error) string {
	if is := result(done, err); is != metrics.Refused {
		return is
	}
	return metrics.RefusedAside
}

func (p *Pass) count(err error) {
	metrics.Passes.WithLabelValues(p.core.Kind.Kind, outcome(err)).Inc()
	p.core.contended.put(p.core.Kind.Kind, client.ObjectKeyFromObject(p.object), p.contendedFields())
}

// outcome is the result of a pass: the strongest of several errors counts.
func outcome(err error) string {
	switch apply.RetryOf(err) {
	case apply.RetryNow:
		return metrics.Failed
	case apply.RetryLater:
		if apply.Refused(err) != nil {
			return metrics.Refused
		}
		return metrics.Waiting
	case apply.OnEvent:
		return metrics.Moved
	case apply.Terminal:
		return metrics.Defect
	default:
		return metrics.Done
	}
}

// contendedFields counts the fields that other managers and Freehold state with other values, none of a deleted object.
func (p *Pass) contendedFields() int {
	if p.object.GetDeletionTimestamp() != nil {
		return 0
	}
	var fields []string
	for _, c := range p.Conflicts {
		for _, field := range c.Fields {
			fields = append(fields, c.Object.String()+" "+c.Key.String()+" "+field)
		}
	}
	slices.Sort(fields)
	return len(slices.Compact(fields))
}

// contended counts such fields by object; an object without any has no entry.
type contended struct {
	mu     sync.Mutex
	fields map[types.NamespacedName]int
}

func (c *contended) put(kind string, key types.NamespacedName, now int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	metrics.Contended.WithLabelValues(kind).Add(float64(now - c.fields[key]))
	if now == 0 {
		delete(c.fields, key)
		return
	}
	c.fields[key] = now
}

// Gone ends a pass over an object that could not be read. An object that is gone no longer counts.
func (c *Core) Gone(key types.NamespacedName, err error) error {
	if err = client.IgnoreNotFound(err); err == nil {
		c.contended.put(c.Kind.Kind, key, 0)
	}
	return err
}
