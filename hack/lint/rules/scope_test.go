package rules

import (
	"go/types"
	"testing"

	"golang.org/x/tools/go/analysis"
)

func TestWhatIsJudged(t *testing.T) {
	for path, want := range map[string]struct{ writes, managers, clock bool }{
		"controllers/mcpserver":    {true, true, true},
		"controllers/applyother":   {true, true, true},
		"controllers/apply":        {false, true, true},
		"controllers/apply/part":   {false, true, true},
		"apis/contract":            {true, false, true},
		"apis/ownership":           {true, false, true},
		"cmd/runner/internal/any":  {true, true, true},
		"hack/docs":                {true, true, true},
		"test/kit":                 {false, false, false},
		"testing":                  {true, true, true},
		"test/library":             {false, false, false},
		"test/library/operator":    {true, false, true},
		"test/library/operator/x":  {true, false, true},
		"test/library/operatorish": {false, false, false},
	} {
		pass := &analysis.Pass{Pkg: types.NewPackage(module+"/"+path, "x")}
		if judged(pass, writers...) != want.writes || judged(pass, language, contract, operators) != want.managers ||
			judged(pass) != want.clock {
			t.Errorf("%s: writes %t, managers %t, clock %t, want %+v",
				path, judged(pass, writers...), judged(pass, language, contract, operators), judged(pass), want)
		}
	}
}
