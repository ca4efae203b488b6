package conditions

import (
	"os"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// A status without a phase is of an earlier release: its phase is read from its conditions.
func TestThePhaseIsTheOneThatIsStated(t *testing.T) {
	said := func(condition string, status metav1.ConditionStatus, reason string) []metav1.Condition {
		return []metav1.Condition{{Type: condition, Status: status, Reason: reason}}
	}
	notReady := func(reason string) []metav1.Condition {
		return said(v1alpha1.ConditionReady, metav1.ConditionFalse, reason)
	}
	for name, tc := range map[string]struct {
		stated v1alpha1.WorkloadPhase
		said   []metav1.Condition
		want   v1alpha1.WorkloadPhase
	}{
		"nothing was said": {"", nil, ""},
		"it is stated":     {v1alpha1.PhasePending, notReady("Another"), v1alpha1.PhasePending},
		"ready": {
			"", said(v1alpha1.ConditionReady, metav1.ConditionTrue, "Ready"), v1alpha1.PhaseServing,
		},
		"the first content":            {"", notReady(v1alpha1.ReasonStarting), v1alpha1.PhaseStarting},
		"another one's turn":           {"", notReady(v1alpha1.ReasonRolloutPending), v1alpha1.PhasePending},
		"a refused write":              {"", notReady(v1alpha1.ReasonApplyFailed), v1alpha1.PhaseRefused},
		"a wrong spec":                 {"", notReady(v1alpha1.ReasonSpecInvalid), v1alpha1.PhaseBlocked},
		"a missing configuration":      {"", notReady(v1alpha1.ReasonConfigNotFound), v1alpha1.PhaseUnresolved},
		"one, of an earlier release":   {"", notReady("OIDCConfigNotFound"), v1alpha1.PhaseUnresolved},
		"an image that is not there":   {"", notReady(v1alpha1.ReasonImagePull), v1alpha1.PhaseFaulty},
		"a container that ends":        {"", notReady(v1alpha1.ReasonCrashLoop), v1alpha1.PhaseFailing},
		"a reason of a later release":  {"", notReady("Later"), v1alpha1.PhaseFailing},
		"suspended, and pods are left": {"", notReady(v1alpha1.ReasonSuspended), v1alpha1.PhaseStopping},
		"suspended": {
			"", said(v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonSuspended), v1alpha1.PhaseStopped,
		},
	} {
		if got := Phase(tc.stated, tc.said); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// A report without a phase is of a runner of an earlier release.
func TestTheRunnerPhaseIsTheOneThatIsStated(t *testing.T) {
	said := func(applied, answers Finding) (all []metav1.Condition) {
		for of, f := range map[string]Finding{
			v1alpha1.ConditionBackendApplied: applied, v1alpha1.ConditionBackendAnswers: answers,
		} {
			if f.Status != "" {
				all = append(all, metav1.Condition{Type: of, Status: f.Status, Reason: f.Reason})
			}
		}
		return all
	}
	var none Finding
	applied, answers := True(v1alpha1.ReasonApplied, ""), True(v1alpha1.ReasonAnswers, "")
	for name, tc := range map[string]struct {
		stated v1alpha1.WorkloadPhase
		said   []metav1.Condition
		want   v1alpha1.WorkloadPhase
	}{
		"it is stated":     {v1alpha1.PhaseBlocked, said(applied, answers), v1alpha1.PhaseBlocked},
		"nothing was said": {"", nil, v1alpha1.PhaseStarting},
		"it is not asked":  {"", said(applied, Finding{Status: metav1.ConditionUnknown}), v1alpha1.PhaseStarting},
		"it answers":       {"", said(applied, answers), v1alpha1.PhaseServing},
		"a remote one":     {"", said(none, answers), v1alpha1.PhaseServing},
		"it stands back":   {"", said(False(v1alpha1.ReasonStandingBack, ""), answers), v1alpha1.PhaseUpdating},
		"it is refused":    {"", said(False(v1alpha1.ReasonApplyFailed, ""), answers), v1alpha1.PhaseRefused},
		"no MCP":           {"", said(applied, False(v1alpha1.ReasonNotMCP, "")), v1alpha1.PhaseFaulty},
	} {
		if got := RunnerPhase(tc.stated, tc.said); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// Each phase that the schema allows is a constant, and the other way round.
func TestTheSchemaHasThePhases(t *testing.T) {
	text, err := os.ReadFile("../../apis/v1alpha1/phase.go")
	if err != nil {
		t.Fatal(err)
	}
	enum := strings.Split(regexp.MustCompile(`Enum=(\S+)`).FindStringSubmatch(string(text))[1], ";")
	constants := regexp.MustCompile(`WorkloadPhase = "(\w+)"`).FindAllStringSubmatch(string(text), -1)
	if len(enum) != len(constants) {
		t.Fatalf("%d values, and %d constants", len(enum), len(constants))
	}
	for i := range enum {
		if enum[i] != constants[i][1] {
			t.Errorf("%s is not %s", enum[i], constants[i][1])
		}
	}
}
