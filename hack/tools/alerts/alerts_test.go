package main

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

// counted are series of an hour, by name and labels, that have grown by so much each minute; a gauge has that value.
type counted map[string]float64

// calls are those of a proxy: so many requests a minute by code, all answered within five seconds, or few.
func calls(byCode map[string]float64, slow bool) counted {
	all := counted{`freehold_proxy_backend_reachable{namespace="n",server="s"}`: 1}
	for code, n := range byCode {
		all[fmt.Sprintf(`freehold_proxy_requests_total{namespace="n",server="s",method="POST",code=%q}`, code)] = n
	}
	for bound, n := range map[string]float64{"5": 60, "30": 60, "+Inf": 60} {
		if slow && bound == "5" {
			n = 10
		}
		all[fmt.Sprintf(`freehold_proxy_call_duration_seconds_bucket{namespace="n",server="s",le=%q}`, bound)] = n
	}
	return all
}

// storage is what Prometheus has of them.
func (c counted) storage(t *testing.T) storage.Queryable {
	var all []storage.Series
	reader := parser.NewParser(parser.Options{})
	for name, each := range c {
		of, err := reader.ParseMetric(name)
		if err != nil {
			t.Fatal(err)
		}
		var samples []chunks.Sample
		for minute := range 60 {
			value := each * float64(minute)
			if !strings.Contains(name, "_total") && !strings.Contains(name, "_bucket") {
				value = each
			}
			samples = append(samples, sample{at: int64(minute) * time.Minute.Milliseconds(), value: value})
		}
		all = append(all, storage.NewListSeries(of, samples))
	}
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{SelectMockFunction: func(
		_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher,
	) storage.SeriesSet {
		found := &set{SeriesSet: storage.EmptySeriesSet()}
		for _, series := range all {
			if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(series.Labels().Get(m.Name)) }) {
				found.of = append(found.of, series)
			}
		}
		return found
	}}}
}

type set struct {
	storage.SeriesSet // without warnings and errors
	of                []storage.Series
	now               storage.Series
}

func (s *set) Next() bool {
	if len(s.of) == 0 {
		return false
	}
	s.now, s.of = s.of[0], s.of[1:]
	return true
}

func (s *set) At() storage.Series { return s.now }

type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// Each alert about calls fires on what it is about, after half an hour, and on nothing else.
func TestAlertsFire(t *testing.T) {
	text, err := os.ReadFile("../../../config/monitoring/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rules, errs := rulefmt.Parse(text, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.Default())
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for name, tc := range map[string]struct {
		series counted
		want   string
	}{
		"all is well":              {calls(map[string]float64{"200": 60}, false), ""},
		"nobody calls":             {calls(map[string]float64{"200": 0}, true), ""},
		"the question alone fails": {calls(map[string]float64{"503": 2}, false), ""},
		"it hangs": {
			calls(map[string]float64{"504": 50, "200": 10}, false), "FreeholdServerDoesNotAnswer FreeholdServerFailsCalls",
		},
		"one call in ten fails": {calls(map[string]float64{"502": 6, "200": 54}, false), "FreeholdServerFailsCalls"},
		"it is slow":            {calls(map[string]float64{"200": 60}, true), "FreeholdServerIsSlow"},
		"its sessions go":       {calls(map[string]float64{"404": 12, "200": 48}, false), "FreeholdSessionsAreLost"},
		"clients leave":         {calls(map[string]float64{"left": 12, "200": 48}, false), "FreeholdAnswersAreDropped"},
		"an HTTPRoute is refused": {counted{
			`freehold_object_conditions{kind="MCPServer",condition="Published",status="False",reason="ApplyFailed"}`: 1,
			`freehold_applies_total{manager="m",result="refused_aside"}`:                                             1,
		}, "FreeholdNotPublished"},
		"a write is refused": {
			counted{`freehold_applies_total{manager="m",result="refused"}`: 1}, "FreeholdWritesRefused",
		},
	} {
		t.Run(name, func(t *testing.T) {
			series := tc.series.storage(t)
			engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute})
			var fire []string
			for _, rule := range rules.Groups[0].Rules {
				if rule.Alert == "FreeholdNotRunning" { // nothing here leads
					continue
				}
				query, err := engine.NewInstantQuery(t.Context(), series, nil, rule.Expr, time.Unix(30*60, 0))
				if err != nil {
					t.Fatal(err)
				}
				result := query.Exec(t.Context())
				if result.Err != nil {
					t.Fatal(rule.Alert, result.Err)
				}
				if found, _ := result.Vector(); len(found) > 0 {
					fire = append(fire, rule.Alert)
				}
				query.Close()
			}
			if got := strings.Join(fire, " "); got != tc.want {
				t.Errorf("fire: %q, want %q", got, tc.want)
			}
		})
	}
}
