package conversion

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// Outcome is what became of one object of a run.
type Outcome struct {
	Source  *unstructured.Unstructured
	Results []Result
	// Err is for a kind that cannot be read.
	Err error
}

// Options are how objects are converted.
type Options struct {
	// Stage of a move, empty for none.
	Stage Stage
	// Images reads what images say. Nil asks no registry.
	Images Images
	// Entries are servers of files that hold no objects.
	Entries []Entry
}

// Run converts objects together: what a configuration loses, the servers lose that name it.
func Run(ctx context.Context, found []*unstructured.Unstructured, by Options) []Outcome {
	outcomes, r := make([]Outcome, len(found)), run{}
	for i, u := range found {
		outcomes[i].Source = u
		c, err := begin(u)
		if err != nil {
			outcomes[i].Err = err
			continue
		}
		r = append(r, c)
	}
	objects := len(r)
	r = append(r, entries(by.Entries, r)...)
	r.images(ctx, by.Images)
	for i, c := range r {
		c.hide(i >= objects)
	}
	r.claims()
	r.clashes()
	r.suspend()
	next := 0
	for i := range outcomes {
		if outcomes[i].Err == nil {
			outcomes[i].Results = r[next].end(r, by.Stage)
			next++
		}
	}
	var ofFiles []Outcome
	for _, c := range r[next:] {
		ofFiles = append(ofFiles, Outcome{Source: c.source, Results: c.end(r, "")})
	}
	return slices.Concat(outcomes, ofFiles)
}

type run []*conversion

// refers is the field of ours by which a server names a configuration of a kind, empty for any other kind.
func refers(kind string) string {
	if field := v1alpha1.ConfigField(kind); field != "" {
		return "spec." + field + ".name"
	}
	return ""
}

// names reports whether a server names a configuration, but for their namespaces.
func (c *conversion) names(config *conversion) bool {
	ref, _ := get(c.main, refers(config.kind.to))
	return c.suspendable() && text(ref) != "" && text(ref) == config.source.GetName()
}

// naming are the servers of the run that name a configuration.
func (r run) naming(config *conversion) (servers run) {
	for _, c := range r {
		if slices.Contains(r.candidates(config.kind.to, c), config) {
			servers = append(servers, c)
		}
	}
	return servers
}

func (r run) named(kind string, server *conversion) *conversion {
	if found := r.candidates(kind, server); len(found) > 0 {
		return found[0]
	}
	return nil
}

// candidates are the configurations of a kind that a server may mean: those of its namespace, or else those whose
// namespace, or whose server's, is up to who applies them.
func (r run) candidates(kind string, server *conversion) run {
	var same, open run
	for _, c := range r {
		switch {
		case c.kind.to != kind || !server.names(c):
		case c.source.GetNamespace() == server.source.GetNamespace():
			same = append(same, c)
		case c.source.GetNamespace() == "" || server.source.GetNamespace() == "":
			open = append(open, c)
		}
	}
	if len(same) > 0 {
		return same
	}
	return open
}

// clashes notes objects of one name that differ: each apply takes away what the one before stated. A file that is read
// twice is no matter.
func (r run) clashes() {
	made := map[string]run{}
	for _, c := range r {
		if c.kind.to == "" {
			continue
		}
		for _, object := range append(slices.Clone(c.more), c.main) {
			name, _ := get(object, "metadata.name")
			key := fmt.Sprintf("%s/%s %s", c.source.GetNamespace(), object["kind"], name)
			made[key] = append(made[key], c)
		}
	}
	for _, key := range sorted(made) {
		several := made[key]
		if !slices.ContainsFunc(several,
			func(c *conversion) bool { return !reflect.DeepEqual(c.source.Object, several[0].source.Object) }) {
			continue
		}
		for _, c := range several {
			c.clashing = append(c.clashing, strings.TrimPrefix(key, "/"))
		}
	}
}

// groups is a claim in which the policies of a server look for groups.
type groups struct {
	claim, path string
}

// defaultGroups is where ToolHive looks first, unless it is told another claim.
const defaultGroups = "groups"

// groupsOf is where the policies of a server look for groups; no claim if there are no policies.
func (r run) groupsOf(server *conversion) groups {
	if server.groups.claim != "" {
		return server.groups
	}
	if config := r.named("MCPAuthzConfig", server); config != nil && config.groups.claim != "" {
		return groups{config.groups.claim, config.title() + " " + config.groups.path}
	}
	_, inline := get(server.main, "spec.authzConfig")
	_, shared := get(server.main, "spec.authzConfigRef")
	if inline || shared {
		return groups{claim: defaultGroups}
	}
	return groups{}
}

// claims has logins take groups from the claim in which policies look for them. A login that servers share has one:
// where they do not agree on it, or there is no login to write it into, the policies lose their groups.
func (r run) claims() {
	for _, server := range r {
		want := r.groupsOf(server)
		if !server.suspendable() || want.claim == "" || want.path == "" {
			continue
		}
		login := r.loginOf(server)
		agreed := login != nil
		if shared := r.named("MCPOIDCConfig", server); shared != nil {
			for _, other := range r.naming(shared) {
				claim := r.groupsOf(other).claim
				agreed = agreed && (claim == "" || claim == want.claim)
			}
		}
		if !agreed {
			server.remarks = append(server.remarks,
				fmt.Sprintf("%s: %q -- groups are read from the claim in oidc.groupsClaim of the MCPOIDCConfig, "+
					"and no MCPOIDCConfig here is for this claim alone: write one, and spec.oidcConfigRef", want.path, want.claim))
			server.lose(want.path)
			continue
		}
		set(login, "spec.oidc.groupsClaim", want.claim)
		server.remarks = append(server.remarks,
			fmt.Sprintf("%s: %q -- written into oidc.groupsClaim of the MCPOIDCConfig", want.path, want.claim))
	}
}

// loginOf is the MCPOIDCConfig of an issuer that is made for a server here, nil for none.
func (r run) loginOf(server *conversion) map[string]any {
	login := map[string]any(nil)
	if shared := r.named("MCPOIDCConfig", server); shared != nil {
		login = shared.main
	}
	for _, own := range server.more {
		if own["kind"] == "MCPOIDCConfig" {
			login = own
		}
	}
	if _, issuer := get(login, "spec.oidc.issuer"); !issuer {
		return nil
	}
	return login
}

// suspend has the servers lose what a configuration lost that they name. Where none is in the run, nobody
// knows who uses it: it is printed so that the API server refuses it.
func (r run) suspend() {
	for _, config := range r {
		if refers(config.kind.to) == "" {
			continue
		}
		servers := r.naming(config)
		if config.groups.claim != "" && len(servers) == 0 {
			config.remark(config.groups.path, config.groups.claim,
				"write it into oidc.groupsClaim of the MCPOIDCConfig of the servers that name this object")
			config.lose(config.groups.path)
		}
		if config.why() == "" {
			continue
		}
		for _, server := range servers {
			server.clashing = append(server.clashing, config.clashing...)
			for _, path := range config.lost {
				server.lose(config.title() + " " + path)
			}
			for _, path := range config.unknown {
				server.unknown = append(server.unknown, config.title()+" "+path)
			}
		}
		if len(servers) > 0 {
			config.remarks = append(config.remarks,
				fmt.Sprintf("the servers here that name it have spec.suspend: true, because %s: %s", config.why(), titles(servers)))
			continue
		}
		config.withheld = config.why()
	}
}

func titles(all run) string {
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = c.title()
	}
	return strings.Join(names, ", ")
}

func (c *conversion) title() string { return c.kind.to + " " + c.source.GetName() }

func (c *conversion) suspendable() bool {
	return slices.Contains([]string{"MCPServer", "MCPRemoteProxy"}, c.kind.to)
}

func (c *conversion) lose(path string) { c.lost = append(c.lost, path) }

// why is a sentence about what guarded before, or may have done so.
func (c *conversion) why() string {
	var said []string
	if len(c.lost) > 0 {
		said = append(said, strings.Join(c.lost, ", ")+" kept callers out before and has no equal")
	}
	if len(c.unknown) > 0 {
		said = append(said, "import does not know "+strings.Join(c.unknown, ", ")+", which may have kept callers out")
	}
	if len(c.clashing) > 0 {
		said = append(said, strings.Join(slices.Compact(slices.Sorted(slices.Values(c.clashing))), ", ")+
			" is made of several objects here, of which each apply would replace the one before (import one of them)")
	}
	return strings.Join(said, ", and ")
}

// holdBack suspends a server that lost what kept callers out, and leaves a configuration unfinished that did.
func (c *conversion) holdBack() {
	switch {
	case c.withheld != "":
		spec := c.main["spec"]
		c.main["spec"] = map[string]any{}
		c.remarks = append(c.remarks, fmt.Sprintf("spec is left out, so that the API server refuses the object, because %s: "+
			"write what replaces it, and complete what is left: %s", c.withheld, compact(spec)))
	case c.suspendable() && c.why() != "":
		set(c.main, "spec.suspend", true)
		c.remarks = append(c.remarks,
			fmt.Sprintf("spec.suspend is true, because %s: write what replaces it, then remove spec.suspend", c.why()))
	}
}
