package input

import (
	"errors"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/test/kit"
)

// refused are all rows that the API server refuses.
func refused() []subject {
	var all []subject
	for _, rows := range [][]subject{objectRows, runRows, volumeRows, serveRows, proxyRows, loginRows, remoteRows} {
		all = append(all, rows...)
	}
	return all
}

// kubectl sends what kubectl sends: the user's text, strictly validated.
type kubectl struct {
	*kit.Env
	http *rest.RESTClient
	// dry keeps nothing of what is sent.
	dry bool
}

const collection = "/apis/freehold.dev/v1alpha1/namespaces/NAMESPACE/"

func newKubectl(s *kit.Env) kubectl {
	s.Helper()
	http, err := s.HTTP()
	s.Must(err, "building a client")
	return kubectl{Env: s, http: http}
}

func (k kubectl) send(verb string, contentType, name, text string) error {
	path := strings.Replace(collection, "NAMESPACE", k.Namespace, 1) + "mcpservers"
	if strings.Contains(text, "kind: MCPOIDCConfig\n") {
		path = strings.Replace(path, "mcpservers", "mcpoidcconfigs", 1)
	}
	if strings.Contains(text, "kind: MCPRemoteProxy\n") {
		path = strings.Replace(path, "mcpservers", "mcpremoteproxies", 1)
	}
	if name != "" {
		path += "/" + name
	}
	request := k.http.Verb(verb).AbsPath(path).SetHeader("Content-Type", contentType).
		Param("fieldManager", git).Param("fieldValidation", "Strict")
	if k.dry {
		request = request.Param("dryRun", metav1.DryRunAll)
	}
	return request.Body([]byte(text)).Do(k.Ctx).Error()
}

func (k kubectl) apply(name, text string) error {
	return k.send(http.MethodPatch, string(types.ApplyYAMLPatchType), name, text)
}

func (k kubectl) create(text string) error { return k.send(http.MethodPost, yamlType, "", text) }

// couldCreate is a create that is not kept.
func (k kubectl) couldCreate(text string) error { return kubectl{k.Env, k.http, true}.create(text) }

func (k kubectl) replace(name, version, text string) error {
	return k.send(http.MethodPut, yamlType, name, atVersion(name, version, text))
}

const (
	git      = "argocd-controller"
	yamlType = "application/yaml"
)

// atVersion adds a resourceVersion beside the name, as kubectl replace does.
func atVersion(name, version, text string) string {
	text = strings.Replace(text, "name: "+name+"\n", "name: "+name+"\n  resourceVersion: \""+version+"\"\n", 1)
	return strings.Replace(text, "{name: "+name, "{name: "+name+", resourceVersion: \""+version+"\"", 1)
}

// nameOf is the name that a text gives its server, empty if it gives none.
func nameOf(text string) string {
	var object struct {
		Metadata struct{ Name string }
	}
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		return ""
	}
	return object.Metadata.Name
}

// Whatever the API server refuses, it refuses in the words of the row, to whoever applies, creates or replaces; and
// then there is no server, or the one that runs is as it was.
func TestTheAPIServerRefuses(t *testing.T) {
	t.Parallel()
	running := runningServer(t, "")
	k := newKubectl(running.Env)
	before := running.Versions()
	for _, subject := range refused() {
		t.Run(subject.title, func(t *testing.T) {
			for _, row := range subject.rows {
				t.Run(row.mistake, func(t *testing.T) { k.refuses(t, running, row) })
			}
		})
	}
	running.NothingMoved(before)
}

// What an apply over another one cannot say is refused, and another name is not.
func TestTheAPIServerRefusesAnApplyOverAnother(t *testing.T) {
	t.Parallel()
	k := newKubectl(newEnv(t))
	for _, subject := range refused() {
		for _, r := range subject.rows {
			if r.before == "" {
				continue
			}
			t.Run(r.mistake, func(t *testing.T) {
				stands := r
				stands.spec = r.before
				must(t, k.apply("bad", stands.text("bad")), "applying what stands before")
				answers(t, r, "apply", k.apply("bad", r.text("bad")), r.says)
			})
		}
	}
}

func (k kubectl) refuses(t *testing.T, running *runningEnv, r row) {
	if r.before != "" {
		return
	}
	text := r.text("bad")
	answers(t, r, "create", k.create(text), r.says)
	name := nameOf(text)
	if name == "" {
		return // there is nothing to apply to
	}
	applied := r.says
	if r.applied != "" {
		applied = r.applied
	}
	answers(t, r, "apply", k.apply(name, text), applied)
	if r.renames() {
		return
	}
	text = r.text(running.name)
	answers(t, r, "apply to a running server", k.apply(running.name, text), applied)
	answers(t, r, "replace of a running server", k.replace(running.name, running.version, text), r.says)
}

// renames reports whether the mistake is the name, which no update changes.
func (r row) renames() bool { return r.whole != "" && !strings.Contains(r.whole, "NAME") }

// answers demands an answer of the API server.
func answers(t *testing.T, r row, verb string, err error, says string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: it was accepted", verb)
		return
	}
	for _, cause := range causesOf(err) {
		// Server-side apply often names the field in its text only.
		if (cause.field == r.field || cause.field == "") && matches(cause.message, says) {
			return
		}
		if beforeValues() && (matches(valueless(cause.message), valueless(says)) ||
			r.older != "" && valueless(cause.message) == r.older) {
			return
		}
	}
	t.Errorf("%s: the answer is not\n\t%q: %q\nbut\n%s", verb, r.field, says, kit.OneLine(err.Error()))
}

// matches compares an answer; … stands for any rest.
func matches(got, want string) bool {
	if beginning, cut := strings.CutSuffix(want, "…"); cut {
		return strings.HasPrefix(got, beginning)
	}
	return got == want
}

// beforeValues reports whether the API server shows the type in place of the
// value of what breaks a rule, as Kubernetes before 1.36 does.
var beforeValues = sync.OnceValue(func() bool {
	p, err := plane()
	if err != nil {
		return false // which failed a test
	}
	client, err := discovery.NewDiscoveryClientForConfig(p.Config)
	if err != nil {
		return false
	}
	version, err := client.ServerVersion()
	return err == nil && (version.Minor == "34" || version.Minor == "35")
})

var shown = regexp.MustCompile(`^Invalid value: ("([^"\\]|\\.)*": |[0-9.]+: )?`)

// valueless is a message without the value that it shows.
func valueless(message string) string { return shown.ReplaceAllString(message, "") }

// cause is one thing that is wrong.
type cause struct{ field, message string }

// preamble names the object, which differs, before what is wrong with it.
var preamble = regexp.MustCompile(
	`^(failed to create typed patch object \([^)]*\): |.*strict decoding error: |.*cannot be handled as a MCP[A-Za-z]+: )`)

func causesOf(err error) []cause {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 ||
		status.Status().Details.Causes[0].Type == "UnexpectedServerResponse" {
		text := preamble.ReplaceAllString(kit.OneLine(err.Error()), "")
		return []cause{{"", text}}
	}
	var causes []cause
	for _, c := range status.Status().Details.Causes {
		causes = append(causes, cause{strings.TrimPrefix(c.Field, "<nil>"), kit.OneLine(c.Message)})
	}
	return causes
}
