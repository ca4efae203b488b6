package arch

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/test/golden"
)

// TestThePageHasThePolicies writes what each policy looks at, as it says itself.
func TestThePageHasThePolicies(t *testing.T) {
	var table strings.Builder
	table.WriteString("| policy | looks at | of objects |\n| --- | --- | --- |\n")
	for _, name := range files(t) {
		if path.Dir(name) != "config/policy" {
			continue
		}
		document, _, _ := strings.Cut(read(t, name), "\n---\n")
		policy := admissionregistrationv1.ValidatingAdmissionPolicy{}
		if err := yaml.Unmarshal([]byte(document), &policy); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		requests := map[string][]string{}
		order := []string{}
		for _, rule := range policy.Spec.MatchConstraints.ResourceRules {
			does := strings.ToLower(strings.Trim(fmt.Sprint(rule.Operations), "[]"))
			if requests[does] == nil {
				order = append(order, does)
			}
			for _, resource := range rule.Resources {
				requests[does] = append(requests[does], "`"+resource+"`")
			}
		}
		for i, does := range order {
			order[i] = strings.ReplaceAll(does, " ", ", ") + " of " + strings.Join(requests[does], ", ")
		}
		objects := "all"
		match := policy.Spec.MatchConstraints
		// What the API server would default, so that kubectl and Helm state the same: the field is atomic.
		if match.MatchPolicy == nil || match.NamespaceSelector == nil || match.ObjectSelector == nil ||
			slices.ContainsFunc(match.ResourceRules,
				func(r admissionregistrationv1.NamedRuleWithOperations) bool { return r.Scope == nil }) {
			t.Errorf("%s does not state all defaults of spec.matchConstraints", name)
		}
		if selector := match.ObjectSelector; selector != nil && len(selector.MatchLabels)+len(selector.MatchExpressions) > 0 {
			objects = "with `" + metav1.FormatLabelSelector(selector) + "`"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", policy.Name, strings.Join(order, "; "), objects)
	}
	golden.Part(t, filepath.Join(root(t), "docs/policies.md"), "<!-- generated from config/policy -->\n",
		"<!-- end of what is generated -->\n", table.String())
}
