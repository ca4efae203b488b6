package conditions

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
)

func TestLastTransitionTimeMovesWithTheStatusOnly(t *testing.T) {
	then := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	now := time.Date(2026, 5, 6, 12, 0, 0, 987654321, time.FixedZone("", 7200))
	stamped := time.Date(2026, 5, 6, 10, 0, 0, 0, time.UTC)
	condition := func(conditionType string, status metav1.ConditionStatus, at time.Time) metav1.Condition {
		return metav1.Condition{
			Type: conditionType, Status: status, Reason: "Old", Message: "old", ObservedGeneration: 1,
			LastTransitionTime: metav1.NewTime(at),
		}
	}
	for name, tc := range map[string]struct {
		live    []metav1.Condition
		finding Finding
		want    time.Time
	}{
		"no condition yet":   {nil, True("Up", ""), stamped},
		"another type's":     {[]metav1.Condition{condition("Stalled", "True", then)}, True("Up", ""), stamped},
		"same status":        {[]metav1.Condition{condition("Ready", "True", then)}, True("Up", ""), then},
		"same, other reason": {[]metav1.Condition{condition("Ready", "False", then)}, False("Other", "other"), then},
		"true to false":      {[]metav1.Condition{condition("Ready", "True", then)}, False("Down", ""), stamped},
		"false to unknown": {
			[]metav1.Condition{condition("Ready", "False", then)},
			Finding{metav1.ConditionUnknown, "Lost", ""},
			stamped,
		},
		"same, without a time":  {[]metav1.Condition{condition("Ready", "True", time.Time{})}, True("Up", ""), stamped},
		"same, in another zone": {[]metav1.Condition{condition("Ready", "True", then.Local())}, True("Up", ""), then},
	} {
		t.Run(name, func(t *testing.T) {
			got := Stamp(tc.live, "Ready", tc.finding, 4, now)
			want := metav1ac.Condition().
				WithType("Ready").
				WithStatus(tc.finding.Status).
				WithReason(tc.finding.Reason).
				WithMessage(tc.finding.Message).
				WithObservedGeneration(4).
				WithLastTransitionTime(metav1.NewTime(tc.want))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if _, offset := got.LastTransitionTime.Zone(); offset != 0 {
				t.Errorf("the time is not in UTC: %v", got.LastTransitionTime)
			}
		})
	}
}

func TestStampAlwaysHoldsWhatTheSchemaWants(t *testing.T) {
	for name, tc := range map[string]struct {
		finding         Finding
		reason, message string
	}{
		"empty message":        {True("Up", ""), "Up", ""},
		"no reason":            {False("", "why"), "Unspecified", "why"},
		"nothing":              {Finding{}, "Unspecified", ""},
		"bad bytes":            {False("Down", "exit: \xff\xfe!"), "Down", "exit: \uFFFD!"},
		"orders to a terminal": {False("Down", "\x1b[31mgone\x1b]0;x\a\r\tlast\nwords"), "Down", "[31mgone]0;x  last\nwords"},
		"turned around":        {False("Down", "exe\u202etxt\u2066\u200b.\u00a0é"), "Down", "exetxt. é"},
		"as long as may be":    {False("Down", strings.Repeat("a", 32768)), "Down", strings.Repeat("a", 32768)},
		"too long":             {False("Down", strings.Repeat("a", 32769)), "Down", strings.Repeat("a", 32768)},
		"cut in a character":   {False("Down", strings.Repeat("a", 32767)+"é"), "Down", strings.Repeat("a", 32767)},
		"grown by repair":      {False("Down", strings.Repeat("\xffa", 16384)), "Down", strings.Repeat("\uFFFDa", 8192)},
	} {
		t.Run(name, func(t *testing.T) {
			got := Stamp(nil, "Ready", tc.finding, 1, time.Now())
			if got.Status == nil || *got.Status == "" {
				t.Error("no status")
			}
			if *got.Reason != tc.reason {
				t.Errorf("reason %q, want %q", *got.Reason, tc.reason)
			}
			if *got.Message != tc.message {
				t.Errorf("message of %d bytes, want %d", len(*got.Message), len(tc.message))
			}
			if !utf8.ValidString(*got.Message) || len(*got.Message) > 32768 {
				t.Errorf("message of %d bytes, valid %t", len(*got.Message), utf8.ValidString(*got.Message))
			}
		})
	}
}
