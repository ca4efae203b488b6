package mcpserver

import (
	"testing"
	"time"
)

// What waiting may mend is Reconciling for as long as the user says.
func TestHowLongAReasonMayLast(t *testing.T) {
	for reason, want := range map[string]time.Duration{
		"SpecInvalid": 0, "NameTaken": 0, "ImagePull": 2 * time.Minute, "NotMCP": 2 * time.Minute,
		"CrashLoop": 10 * time.Minute, "MissingReference": 10 * time.Minute, "Updating": 10 * time.Minute,
	} {
		if got := patience(echo(), reason); got != want {
			t.Errorf("%s: %s, want %s", reason, got, want)
		}
	}
}
