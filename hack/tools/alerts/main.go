// Alerts checks alerting rules as `promtool check rules` does, with Prometheus' own
// reader and parser, and the queries of a dashboard of Grafana. promtool itself links
// every service discovery of Prometheus.
//
//	go -C hack/tools/alerts run . ALERTS.yaml DASHBOARD.json
package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "alerts: name the file of rules and the dashboard")
		os.Exit(2)
	}
	queries, err := check(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "alerts:", err)
		os.Exit(1)
	}
	fmt.Printf("%s and %s hold %d queries that Prometheus takes\n", os.Args[1], os.Args[2], queries)
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
