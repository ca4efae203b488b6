package conversion

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/cmd/kubectl-freehold/internal/launch"
)

// Entry is a server as a file says it that holds no objects of Kubernetes: what a format's reader finds in it, whatever
// the format is.
type Entry struct {
	// Name is the file's, and Format and File say where it stands, for a sentence.
	Name, Format, File string
	launch.Server
	// Transport is one of ours, empty where the file does not say it.
	Transport string
	// Port is where the server listens, 0 where the file does not say it, and Path where it answers MCP.
	Port int64
	Path string
}

// kind is what the frame of objects knows of a kind: what it becomes, or why it becomes nothing.
func (e Entry) kind() kind {
	k := kind{product: e.Format, kind: "entry", to: contract.MCPServer.Kind}
	if e.URL != "" {
		k.to = contract.MCPRemoteProxy.Kind
	}
	if e.Local != "" {
		k.to = ""
		k.note = withoutSecrets(e.Local)
	}
	return k
}

// begin is the entry as an object of ours.
func (e Entry) begin(name string) *conversion {
	source := &unstructured.Unstructured{Object: map[string]any{"kind": "entry", "apiVersion": e.File}}
	source.SetName(name)
	c := &conversion{kind: e.kind(), source: source, from: fmt.Sprintf("the entry %q of %s, %s", e.Name, e.File, e.Format)}
	if c.kind.to == "" {
		return c
	}
	c.main, c.runner = object(source, c.kind.to), e.Runner
	if name != e.Name {
		set(c.main, "metadata.annotations", map[string]any{nameAnnotation: e.Name})
	}
	if e.URL != "" {
		c.elsewhere(e)
	} else {
		c.program(e)
	}
	for _, note := range e.Notes {
		c.remarks = append(c.remarks, withoutSecrets(note))
	}
	return c
}

// nameAnnotation has the name of before where that is none for an object.
const nameAnnotation = "freehold.dev/imported-name"

// program is a server that an image runs.
func (c *conversion) program(e Entry) {
	set(c.main, "spec.image", e.Image)
	set(c.main, "spec.transport", cmp.Or(e.Transport, "stdio"))
	if e.Port != 0 {
		set(c.main, "spec.port", e.Port)
	}
	if e.Path != "" {
		set(c.main, "spec.path", e.Path)
	}
	add(c.main, "spec.command", texts(e.Command)...)
	add(c.main, "spec.args", texts(e.Args)...)
	for _, name := range sorted(e.Env) {
		add(c.main, "spec.env", map[string]any{"name": name, "value": e.Env[name]})
	}
	if e.User > 0 {
		set(c.main, "spec.podTemplate.spec.securityContext.runAsUser", e.User)
	}
	if e.WorkingDir != "" {
		c.container()["workingDir"] = e.WorkingDir
	}
	for i, m := range e.Mounts {
		c.mount(fmt.Sprintf("data-%d", i+1), m)
	}
}

// mount gives a directory to a server. What was on a laptop stays there.
func (c *conversion) mount(name string, m launch.Mount) {
	if strings.HasSuffix(m.Source, "docker.sock") {
		c.todo("docker.sock: a pod has no docker: give the server another way")
		return
	}
	add(c.main, "spec.volumes", map[string]any{"name": name, "emptyDir": map[string]any{}})
	mount := map[string]any{"name": name, "mountPath": m.Target}
	if m.ReadOnly {
		mount["readOnly"] = true
	}
	add(c.main, "spec.volumeMounts", mount)
	if m.Source != "" {
		c.todo(fmt.Sprintf("spec.volumes[name=%s]: %s was there before, and it is empty now: write a persistentVolumeClaim, "+
			"configMap or secret with what the server needs", name, launch.Shown(m.Source)))
	}
}

// elsewhere is a server at a URL.
func (c *conversion) elsewhere(e Entry) {
	if remark := remoteURL(c, "spec.url", e.URL); remark != "" {
		c.todo("spec.url -- " + remark)
	}
	if e.SSE {
		set(c.main, "spec.transport", "sse")
	} else if e.Transport != "" {
		set(c.main, "spec.transport", e.Transport)
	}
	for _, name := range sorted(e.Headers) {
		add(c.main, "spec.headers", map[string]any{"name": name, "value": e.Headers[name]})
	}
	at, err := url.Parse(e.URL)
	if err == nil && len(e.Headers) == 0 && at.User == nil && !inside(at.Hostname()) {
		c.remarks = append(c.remarks, "no header has a credential: if each person logs in at this server, connect clients "+
			"to it directly; else write its key into spec.headers, from a Secret")
	}
}

// todo is something that only a person can complete.
func (c *conversion) todo(text string) {
	c.remarks = append(c.remarks, text)
	c.open = true
}

var noName = regexp.MustCompile(`[^a-z0-9]+`)

// longestName is that of our objects, docs/api.md.
const longestName = 44

// nameFor makes a name for an object of one that is free, and none of those that are taken.
func nameFor(free string, taken map[string]bool) string {
	if at := strings.LastIndexAny(free, "/"); at >= 0 && at+1 < len(free) {
		free = free[at+1:]
	}
	made := strings.Trim(noName.ReplaceAllString(strings.ToLower(free), "-"), "-")
	if made == "" || made[0] < 'a' || made[0] > 'z' {
		made = strings.TrimSuffix("mcp-"+made, "-")
	}
	made = strings.TrimRight(made[:min(len(made), longestName)], "-")
	for n, base := 2, made; taken[made]; n++ {
		end := fmt.Sprintf("-%d", n)
		made = strings.TrimRight(base[:min(len(base), longestName-len(end))], "-") + end
	}
	taken[made] = true
	return made
}

// entries are conversions of what files say, under names that no other object of the run has.
func entries(all []Entry, r run) (made run) {
	taken := map[string]bool{}
	for _, c := range r {
		taken[c.source.GetName()] = true
	}
	for _, e := range all {
		made = append(made, e.begin(nameFor(e.Name, taken)))
	}
	return made
}

// secretOf is the Secret of a server that has what no file may say.
func (c *conversion) secretOf() map[string]any {
	name := c.source.GetName() + "-secrets"
	for _, one := range c.more {
		if one["kind"] == "Secret" {
			return one
		}
	}
	secret := object(c.source, "Secret")
	secret["apiVersion"] = "v1"
	delete(secret, "spec")
	set(secret, "metadata.name", name)
	secret["stringData"] = map[string]any{}
	c.more = append(c.more, secret)
	return secret
}
