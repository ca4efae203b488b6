package metrics

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/freehold-dev/freehold/test/golden"
)

// counts are all series of Freehold's gauges about objects.
func counts(t *testing.T) string {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, family := range families {
		if !slices.Contains([]string{"freehold_objects", "freehold_object_conditions", "freehold_rollouts_held"},
			family.GetName()) {
			continue
		}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, label := range m.GetLabel() {
				labels = append(labels, label.GetValue())
			}
			lines = append(lines, fmt.Sprintf("%s %s %v", strings.TrimPrefix(family.GetName(), "freehold_"),
				strings.Join(labels, " "), m.GetGauge().GetValue()))
		}
	}
	return strings.Join(lines, "\n")
}

func TestObjectsAreCountedByTheirConditions(t *testing.T) {
	defer counted.sources.Store(nil)
	if got := counts(t); got != "" {
		t.Errorf("before the controllers are there something is counted: %s", got)
	}
	is := func(condition, status, reason string) metav1.Condition {
		return metav1.Condition{Type: condition, Status: metav1.ConditionStatus(status), Reason: reason}
	}
	Of(Source{"MCPServer", []string{"Ready", "Stalled"}, func(context.Context) ([][]metav1.Condition, error) {
		return [][]metav1.Condition{
			{is("Ready", "True", "Ready")},
			{is("Ready", "True", "Ready"), is("Theirs", "True", "AnyReasonAtAll")},
			{is("Ready", "False", "CrashLoop"), is("Stalled", "True", "CrashLoop")},
			nil,
		}, nil
	}}, Source{"MCPAuthzConfig", []string{"RolledOut"}, func(context.Context) ([][]metav1.Condition, error) {
		return [][]metav1.Condition{{is("RolledOut", "False", "Held")}, {is("RolledOut", "False", "RollingOut")}}, nil
	}}, Source{"MCPOIDCConfig", []string{"RolledOut"}, func(context.Context) ([][]metav1.Condition, error) {
		return nil, errors.New("the cache is not filled yet")
	}})
	want := `object_conditions Ready MCPServer CrashLoop False 1
object_conditions Ready MCPServer Ready True 2
object_conditions RolledOut MCPAuthzConfig Held False 1
object_conditions RolledOut MCPAuthzConfig RollingOut False 1
object_conditions Stalled MCPServer CrashLoop True 1
objects MCPAuthzConfig 2
objects MCPServer 4
rollouts_held MCPAuthzConfig 1
rollouts_held MCPServer 0`
	if got := counts(t); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Names follow https://prometheus.io/docs/practices/naming/: a prefix, and total for what only grows.
func TestNamesFollowTheConventions(t *testing.T) {
	for _, row := range All() {
		if !regexp.MustCompile(`^freehold_[a-z]+(_[a-z]+)*$`).MatchString(row.Name) ||
			strings.HasSuffix(row.Name, "_total") != (row.Type == "counter") {
			t.Errorf("%s is no name for a %s", row.Name, row.Type)
		}
		for _, label := range row.Labels {
			if !slices.Contains([]string{"kind", "manager", "result", "outcome", "condition", "status", "reason"}, label) {
				t.Errorf("%s has the label %s: say in this test why it has few values", row.Name, label)
			}
		}
	}
}

// TestThePageHasEveryMetric holds docs/metrics.md to All; -update writes it.
func TestThePageHasEveryMetric(t *testing.T) {
	const page, begin, end = "../../docs/metrics.md", "<!-- generated from controllers/metrics -->\n",
		"<!-- end of what is generated -->\n"
	var table strings.Builder
	table.WriteString("| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n")
	for _, row := range All() {
		fmt.Fprintf(&table, "| `%s` | %s | `%s` | %s |\n", row.Name, row.Type, strings.Join(row.Labels, "`, `"), row.Help)
	}
	golden.Part(t, page, begin, end, table.String())
}
