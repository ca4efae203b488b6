package metrics

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// Source lists the conditions of all objects of a kind, from a cache.
type Source struct {
	Kind string
	// Types are the conditions that are counted. Others, which another manager may have
	// written, could have any number of reasons.
	Types []string
	List  func(context.Context) ([][]metav1.Condition, error)
}

// Of replaces the sources from which objects are counted.
func Of(sources ...Source) { counted.sources.Store(&sources) }

func described(name, help string, labels ...string) *prometheus.Desc {
	rows = append(rows, Row{name, "gauge", help, labels})
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	objects = described("freehold_objects",
		"Objects by kind, as each operator pod reads them, whether it leads or not.", "kind")
	conditions = described("freehold_object_conditions",
		"Conditions of objects by kind, condition, status and reason, as each operator pod reads them, whether it leads or "+
			"not.", "kind", "condition", "status", "reason")
	held = described("freehold_rollouts_held",
		"Shared configurations whose rollout stopped because a workload is not ready with the changed content, by kind.",
		"kind")
	counted = &collector{}
)

func init() { metrics.Registry.MustRegister(counted) }

// listTime bounds what a scrape waits for a cache that is not filled yet.
const listTime = 5 * time.Second

// collector counts objects when it is asked to.
type collector struct{ sources atomic.Pointer[[]Source] }

// Describe names the metrics.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	to <- objects
	to <- conditions
	to <- held
}

// state is one series of the metric.
type state struct{ condition, status, reason string }

// Collect counts. A kind whose objects cannot be listed has no series: none is better than zero.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	sources := c.sources.Load()
	if sources == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), listTime)
	defer cancel()
	for _, source := range *sources {
		all, err := source.List(ctx)
		if err != nil {
			continue
		}
		states, stopped := map[state]int{}, 0
		for _, object := range all {
			for _, condition := range object {
				if !slices.Contains(source.Types, condition.Type) {
					continue
				}
				states[state{condition.Type, string(condition.Status), condition.Reason}]++
				if condition.Type == v1alpha1.ConditionRolledOut && condition.Reason == v1alpha1.ReasonHeld {
					stopped++
				}
			}
		}
		for s, n := range states {
			to <- prometheus.MustNewConstMetric(conditions, prometheus.GaugeValue, float64(n), source.Kind, s.condition,
				s.status, s.reason)
		}
		to <- prometheus.MustNewConstMetric(objects, prometheus.GaugeValue, float64(len(all)), source.Kind)
		to <- prometheus.MustNewConstMetric(held, prometheus.GaugeValue, float64(stopped), source.Kind)
	}
}
