package workload

import "testing"

func TestANumberIsClaimedAboveAllThatAreKnown(t *testing.T) {
	for name, tc := range map[string]struct {
		known []Mark
		want  Mark
	}{
		"nothing is known":                   {nil, Mark{1, "new"}},
		"the status has this content":        {[]Mark{{3, "new"}}, Mark{3, "new"}},
		"the status has other content":       {[]Mark{{3, "old"}}, Mark{4, "new"}},
		"status lost, child has content":     {[]Mark{{}, {5, "new"}}, Mark{5, "new"}},
		"status lost, child has other":       {[]Mark{{}, {5, "old"}}, Mark{6, "new"}},
		"a child is ahead of the status":     {[]Mark{{3, "new"}, {5, "old"}}, Mark{6, "new"}},
		"a child is behind the status":       {[]Mark{{5, "new"}, {3, "old"}}, Mark{5, "new"}},
		"two contents under one number":      {[]Mark{{5, "old"}, {5, "new"}}, Mark{6, "new"}},
		"two other contents, one number":     {[]Mark{{5, "old"}, {5, "older"}}, Mark{6, "new"}},
		"an old number had the same content": {[]Mark{{4, "old"}, {3, "new"}}, Mark{5, "new"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Next(tc.known, "new"); got != tc.want {
				t.Errorf("Next = %v, want %v", got, tc.want)
			}
		})
	}
}
