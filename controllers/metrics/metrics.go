// Package metrics has the operator's own metrics, beside those of controller-runtime and client-go. A metric is one
// row of All, from which docs/metrics.md is written. Labels have few values, which the contract, the API's conditions
// or this package name: no metric has the name of an object.
//
// metrics.go has the rows, objects.go what is counted when it is asked for.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Row is what a reader is told of a metric.
type Row struct {
	// Name follows https://prometheus.io/docs/practices/naming/.
	Name, Type, Help string
	Labels           []string
}

var rows []Row

// All are the metrics in the order of this file.
func All() []Row { return rows }

// What came of an intent, the label result of Applies.
const (
	Created    = "created"
	Configured = "configured"
	Unchanged  = "unchanged"
	Conflict   = "conflict"
	Moved      = "moved"
	Refused    = "refused"
	Failed     = "failed"
	// RefusedAside is Refused for an object on which nothing rests.
	RefusedAside = "refused_aside"
)

// How a pass ended, the label outcome of Passes, beside some of the above.
const (
	Done    = "done"
	Waiting = "waiting"
	Defect  = "defect"
)

// The metrics that are counted as things happen.
var (
	Applies = counter("freehold_applies_total",
		"Intents by field manager, and by what came of each: created or configured (sent), unchanged (not sent, because "+
			"the object is as the intent says), "+
			"conflict (not sent, or fields left out, because another field manager holds them), moved (the object changed "+
			"since it was read; the next pass looks again), "+
			"refused (by the API server, or because the object is not Freehold's), refused_aside (the same for an HTTPRoute: "+
			"nothing else waits for it, and Published of its server says why) or failed (no answer).", "manager", "result")
	Repairs = counter("freehold_field_repairs_total",
		"Writes that set back fields which another field manager had changed, by kind of object.", "kind")
	Conflicts = counter("freehold_field_conflicts_total",
		"Intents that were not applied in full because another field manager repeatedly changes fields of Freehold, or "+
			"holds shared ones, by kind of object.", "kind")
	Contended = gauge("freehold_contended_fields",
		"Fields that another field manager and Freehold both state, with other values, in the last pass over each object, "+
			"by kind of the object reconciled.", "kind")
	Passes = counter("freehold_passes_total",
		"Passes over objects by kind, and by outcome: done, waiting (for a time or for another party), moved (the object "+
			"changed since it was read), "+
			"refused (a write was refused; it is tried again, at least once a minute), failed (retried with a growing pause) "+
			"or defect (no retry helps; please report it).", "kind", "outcome")
	Claims = counter("freehold_workload_claims_total",
		"Workload generations claimed, by kind: changes of content that replace pods.", "kind")
)

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	metrics.Registry.MustRegister(c)
	rows = append(rows, Row{name, "counter", help, labels})
	return c
}

func gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	metrics.Registry.MustRegister(g)
	rows = append(rows, Row{name, "gauge", help, labels})
	return g
}
