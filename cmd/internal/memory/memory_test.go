package memory

import "testing"

func TestWhenMemoryIsGivenBack(t *testing.T) {
	for name, tc := range map[string]struct {
		now, last, given reading
		want             bool
	}{
		"nothing is read yet":         {reading{}, reading{}, reading{}, false},
		"the first burst":             {reading{500, 9}, reading{}, reading{}, false},
		"the first burst goes on":     {reading{900, 20}, reading{500, 9}, reading{}, false},
		"after the first burst":       {reading{910, 20}, reading{900, 20}, reading{}, true},
		"at rest":                     {reading{950, 20}, reading{910, 20}, reading{910, 20}, false},
		"as much as is worthwhile":    {reading{1010, 20}, reading{950, 20}, reading{910, 20}, true},
		"a later burst":               {reading{2000, 30}, reading{1010, 20}, reading{910, 20}, false},
		"after a later burst":         {reading{2001, 30}, reading{2000, 30}, reading{910, 20}, true},
		"little, though it collected": {reading{960, 21}, reading{910, 20}, reading{910, 20}, false},
	} {
		if got := due(tc.now, tc.last, tc.given, 100); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}
