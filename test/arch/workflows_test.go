package arch

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// workflow is what is judged of a workflow of GitHub's
// (https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-syntax).
type workflow struct {
	Permissions map[string]string
	Jobs        map[string]struct {
		Timeout  int `json:"timeout-minutes"`
		Strategy struct{ Matrix map[string][]string }
		Steps    []struct{ Uses, Run string }
	}
}

var (
	pinned = regexp.MustCompile(`^[\w./-]+@[0-9a-f]{40}$`)
	made   = regexp.MustCompile(`\bmake ([a-z0-9-]+|\$\{\{ *matrix\.(\w+) *\}\})`)
)

// judgedWorkflow returns what is wrong with a workflow: rights that a job has without asking, an action that its author
// can change, a job without an end, and a target that the Makefile does not have; and the targets that it runs.
func judgedWorkflow(text string, targets []string) (wrong, run []string) {
	var w workflow
	if err := yaml.Unmarshal([]byte(text), &w); err != nil {
		return []string{err.Error()}, nil
	}
	if len(w.Permissions) != 1 || w.Permissions["contents"] != "read" {
		wrong = append(wrong, "every job may more than read: write permissions: {contents: read}, and what else a job "+
			"needs in the job")
	}
	for name, job := range w.Jobs {
		if job.Timeout == 0 {
			wrong = append(wrong, fmt.Sprintf("job %s may run for six hours: write timeout-minutes", name))
		}
		for _, step := range job.Steps {
			if step.Uses != "" && !pinned.MatchString(step.Uses) {
				wrong = append(wrong, fmt.Sprintf("%s can become another program: name a commit, and its version in a comment",
					step.Uses))
			}
			run = append(run, targetsOf(step.Run, job.Strategy.Matrix)...)
		}
	}
	for _, target := range run {
		if !slices.Contains(targets, target) {
			wrong = append(wrong, fmt.Sprintf("the Makefile has no target %s", target))
		}
	}
	return wrong, run
}

// targetsOf are the targets that a script makes.
func targetsOf(script string, matrix map[string][]string) (targets []string) {
	for _, m := range made.FindAllStringSubmatch(script, -1) {
		if m[2] == "" {
			targets = append(targets, m[1])
		}
		targets = append(targets, matrix[m[2]]...)
	}
	return targets
}

// byPeople are tests of the Makefile that no workflow runs by name: parts of make test, what
// measures, which a shared machine cannot, and what looks for as long as one lets it.
var byPeople = []string{
	"test-unit", "bench", "bench-ownership", "bench-cost", "bench-tenant", "bench-core", "bench-rollout",
	"bench-proxy", "bench-memory", "soak", "fuzz",
}

func TestWorkflows(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root(t), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllStringSubmatch(string(makefile), -1) {
		targets = append(targets, m[1])
	}
	everything, err := os.ReadFile(filepath.Join(root(t), ".ci/run"))
	if err != nil {
		t.Fatal(err)
	}
	run := append(targetsOf(string(everything), nil), byPeople...)
	files, err := filepath.Glob(filepath.Join(root(t), ".github/workflows/*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		wrong, made := judgedWorkflow(string(text), targets)
		for _, wrong := range wrong {
			t.Errorf("%s: %s", filepath.Base(file), wrong)
		}
		run = append(run, made...)
	}
	_, tests, _ := strings.Cut(string(makefile), "##@ Tests")
	tests, _, _ = strings.Cut(tests, "##@ ")
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+):.* ## `).FindAllStringSubmatch(tests, -1) {
		if !slices.Contains(run, m[1]) {
			t.Errorf("no workflow runs make %s: add it to the matrix of weekly.yaml, or to byPeople with the reason", m[1])
		}
	}
	good := `{permissions: {contents: read}, jobs: {a: {timeout-minutes: 5, strategy: {matrix: {t: [site]}}, steps: [{uses: "x/y@` + strings.Repeat("a", 40) + `"}, {run: "make ${{ matrix.t }}"}]}}}`
	for text, want := range map[string]string{
		good: "",
		strings.Replace(good, "contents: read", "contents: write", 1): "may more than read",
		strings.Replace(good, "permissions", "other", 1):              "may more than read",
		strings.Replace(good, "timeout-minutes: 5, ", "", 1):          "six hours",
		strings.Replace(good, "[site]", "[sites]", 1):                 "no target sites",
		strings.Replace(good, "make ${{ matrix.t }}", "make it", 1):   "no target it",
		strings.Replace(good, strings.Repeat("a", 40), "v1", 1):       "another program",
	} {
		wrong, _ := judgedWorkflow(text, []string{"site"})
		if got := strings.Join(wrong, "; "); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: want %q, got %q", text, want, got)
		}
	}
}
