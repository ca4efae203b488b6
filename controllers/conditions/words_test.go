package conditions

import "testing"

func TestWhatSaysTheSameWithOtherNumbers(t *testing.T) {
	const before = "failed calling webhook: read tcp 10.0.0.2:40001->10.0.0.9:443: connection reset by peer (request 7f3c-11)"
	for message, want := range map[string]bool{
		before: true,
		"failed calling webhook: read tcp 10.0.0.2:40002->10.0.0.9:443: connection reset by peer (request 01-ab)": true,
		"failed calling webhook: read tcp 10.0.0.2:40001->10.0.0.9:443: i/o timeout (request 7f3c-11)":            false,
		"exceeded quota": false,
		"":               false,
	} {
		if got := SameWords(before, message); got != want {
			t.Errorf("%q: %t", message, got)
		}
	}
}
