package revision

import "testing"

func TestANumberIsClaimedAboveAllThatAreKnown(t *testing.T) {
	for name, tc := range map[string]struct {
		known []Revision
		want  Revision
	}{
		"nothing is known":                   {nil, Revision{1, "new"}},
		"the status has this content":        {[]Revision{{3, "new"}}, Revision{3, "new"}},
		"the status has other content":       {[]Revision{{3, "old"}}, Revision{4, "new"}},
		"status lost, child has content":     {[]Revision{{}, {5, "new"}}, Revision{5, "new"}},
		"status lost, child has other":       {[]Revision{{}, {5, "old"}}, Revision{6, "new"}},
		"a child is ahead of the status":     {[]Revision{{3, "new"}, {5, "old"}}, Revision{6, "new"}},
		"a child is behind the status":       {[]Revision{{5, "new"}, {3, "old"}}, Revision{5, "new"}},
		"two contents under one number":      {[]Revision{{5, "old"}, {5, "new"}}, Revision{6, "new"}},
		"two other contents, one number":     {[]Revision{{5, "old"}, {5, "older"}}, Revision{6, "new"}},
		"an old number had the same content": {[]Revision{{4, "old"}, {3, "new"}}, Revision{5, "new"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Next(tc.known, "new"); got != tc.want {
				t.Errorf("Next = %v, want %v", got, tc.want)
			}
		})
	}
}
