package chart

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/controllers/metrics"
)

func file(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Whoever an alert wakes finds what to do.
func TestEachAlertHasItsRunbook(t *testing.T) {
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert       string            `json:"alert"`
				Labels      map[string]string `json:"labels"`
				Annotations map[string]string `json:"annotations"`
			} `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.Unmarshal([]byte(file(t, "config/monitoring/alerts.yaml")), &rules); err != nil {
		t.Fatal(err)
	}
	page, alerts := file(t, "docs/alerts.md"), []string{}
	for _, rule := range rules.Groups[0].Rules {
		alerts = append(alerts, rule.Alert)
		_, section, _ := strings.Cut(page, "\n## "+rule.Alert+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		for _, part := range []string{"*" + rule.Labels["severity"] + "*", "**Means:**", "**Do:**"} {
			if !strings.Contains(section, part) {
				t.Errorf("docs/alerts.md says no %s of %s", part, rule.Alert)
			}
		}
		if url := rule.Annotations["runbook_url"]; !strings.HasSuffix(url, "/docs/alerts.md#"+strings.ToLower(rule.Alert)) {
			t.Errorf("%s has the runbook_url %q", rule.Alert, url)
		}
	}
	for _, heading := range regexp.MustCompile(`(?m)^## (.+)$`).FindAllStringSubmatch(page, -1) {
		if !slices.Contains(alerts, heading[1]) {
			t.Errorf("docs/alerts.md explains %s, which no rule has", heading[1])
		}
	}
}

// A query for a metric or a label that does not exist is quiet for ever.
func TestAlertsAndDashboardAskForMetricsThatExist(t *testing.T) {
	labels := map[string][]string{}
	for _, row := range metrics.All() {
		labels[row.Name] = row.Labels
	}
	// The page has the proxies' as they are, by a test of theirs.
	_, page, _ := strings.Cut(file(t, "docs/metrics.md"), "<!-- generated from cmd/runner/internal/proxy -->")
	for _, row := range regexp.MustCompile("(?m)^\\| `(freehold_proxy_[a-z_]+)` \\| (\\w+) \\|([^|]*)\\|").
		FindAllStringSubmatch(page, -1) {
		name := row[1]
		if row[2] == "histogram" {
			name += "_bucket"
		}
		labels[name] = regexp.MustCompile("[a-z]+").FindAllString(row[3], -1)
	}
	for _, name := range []string{"config/monitoring/alerts.yaml", "config/monitoring/dashboard.json"} {
		found := regexp.MustCompile(`(freehold_[a-z_]+)(?:\{([^}]*)\})?`).FindAllStringSubmatch(file(t, name), -1)
		if len(found) < 5 {
			t.Errorf("%s asks for %d metrics", name, len(found))
		}
		for _, match := range found {
			has, exists := labels[match[1]]
			if !exists {
				t.Errorf("%s asks for %s, which neither operator nor proxies have", name, match[1])
			}
			for _, label := range regexp.MustCompile(`([a-z]+)\s*=`).FindAllStringSubmatch(match[2], -1) {
				if !slices.Contains(has, label[1]) {
					t.Errorf("%s asks %s for the label %s, which it does not have", name, match[1], label[1])
				}
			}
		}
	}
}

// Claims are counted of all kinds with a proxy, so they are compared with all of these.
func TestClaimsAreComparedWithAllKindsThatHaveThem(t *testing.T) {
	_, rule, _ := strings.Cut(file(t, "config/monitoring/alerts.yaml"), "alert: FreeholdWorkloadsReplacedRepeatedly\n")
	counted := regexp.MustCompile(`freehold_objects\{kind=~"([^"]*)"\}`).FindStringSubmatch(rule)
	if counted == nil {
		t.Fatal("the alert counts no objects")
	}
	for _, w := range contract.Workloads() {
		if !slices.Contains(strings.Split(counted[1], "|"), w.Object.Kind) {
			t.Errorf("the alert does not count objects of kind %s", w.Object.Kind)
		}
	}
}
