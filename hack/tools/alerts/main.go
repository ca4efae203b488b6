// Alerts checks alerting rules as `promtool check rules` does, with Prometheus' own reader and parser, and the queries
// of a dashboard of Grafana. promtool itself links every service discovery of Prometheus. It also reads the objects for
// the Prometheus Operator in renderings of the chart, with that operator's own types: a field that these do not have is
// refused.
//
//	go -C hack/tools/alerts run . ALERTS.yaml DASHBOARD.json RENDERING.yaml...
package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "alerts: name the file of rules, the dashboard and renderings of the chart")
		os.Exit(2)
	}
	queries, err := check(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "alerts:", err)
		os.Exit(1)
	}
	fmt.Printf("%s and %s hold %d queries that Prometheus takes\n", os.Args[1], os.Args[2], queries)
	monitors, err := objects(os.Args[3:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "alerts:", err)
		os.Exit(1)
	}
	fmt.Printf("the renderings hold %s, which the Prometheus Operator takes\n", strings.Join(monitors, ", "))
}

// objects are the kinds of the Prometheus Operator in renderings. Each must be there.
func objects(renderings []string) (found []string, err error) {
	kinds := map[string]any{
		"ServiceMonitor": &monitoringv1.ServiceMonitor{}, "PodMonitor": &monitoringv1.PodMonitor{},
		"PrometheusRule": &monitoringv1.PrometheusRule{},
	}
	for _, file := range renderings {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			var is struct{ APIVersion, Kind string }
			if err := yaml.Unmarshal([]byte(document), &is); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			if is.APIVersion != "monitoring.coreos.com/v1" {
				continue
			}
			into, known := kinds[is.Kind]
			if !known {
				return nil, fmt.Errorf("%s has a %s, which is not read here", file, is.Kind)
			}
			if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", file, is.Kind, err)
			}
			found = append(found, is.Kind)
		}
	}
	for kind := range kinds {
		if !slices.Contains(found, kind) {
			return nil, fmt.Errorf("no rendering has a %s", kind)
		}
	}
	return found, nil
}

func check(rules, dashboard string) (queries int, err error) {
	promql := parser.NewParser(parser.Options{})
	groups, problems := rulefmt.ParseFile(rules, false, model.UTF8Validation, promql, slog.Default())
	if len(problems) > 0 {
		return 0, fmt.Errorf("%s: %v", rules, problems)
	}
	for _, group := range groups.Groups {
		queries += len(group.Rules)
	}
	text, err := os.ReadFile(dashboard)
	if err != nil {
		return 0, err
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		return 0, fmt.Errorf("%s: %w", dashboard, err)
	}
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			// Grafana puts in a duration.
			if _, err := promql.ParseExpr(strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")); err != nil {
				return 0, fmt.Errorf("%s: panel %q: %w", dashboard, panel.Title, err)
			}
			queries++
		}
	}
	return queries, nil
}
