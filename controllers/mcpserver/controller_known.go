package mcpserver

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/configs/store"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// A spec with a large overlay takes a second to render and to compare, and most
// wakes have another cause than a change of it. So a process remembers of each
// server what came of its spec, and as what a pass found the objects that carry
// it: not what was rendered, which is many times as large as the spec.

// statement is what a server says: its spec, by the generation of its metadata, and the labels
// that its objects get, of which the API server counts no change.
type statement struct {
	generation int64
	labels     string
}

func (r *Reconciler) statement(server *v1alpha1.MCPServer) statement {
	return statement{server.Generation, fmt.Sprint(r.options.Objects.Of(server).Labels)}
}

// known is what came of what a server says.
type known struct {
	statement statement
	content   runconfig.RunConfig // without what the pods run
	problems  []podtemplate.Problem
	revision  revision.Revision
	unmatched []string
	reason    string
	ownHash   string
	// shared are the configurations that it was rendered with.
	shared []version
}

// version is what a configuration says. It is not the configuration's generation: a store that was
// restored from a backup counts one a second time, and no write of this server tells.
type version struct {
	digest string
	goes   bool
}

// versionsOf are those of what a server refers to; zero for one that is not there.
func versionsOf(shared frame.Set) []version {
	versions := make([]version, len(shared))
	for i, config := range shared {
		if config.Object != nil {
			digest, _ := store.Digest(config.Object)
			versions[i] = version{digest, config.Deleting()}
		}
	}
	return versions
}

// carrier is an object that a pass found to be as the spec says.
type carrier struct {
	server    types.UID
	statement statement
	print     [sha256.Size]byte
}

// known is what is desired of a server whose spec was rendered before, false if
// it has to be rendered: because it has changed, or an object that carries it.
func (r *Reconciler) known(server *v1alpha1.MCPServer, w world) (wanted, bool) {
	found, _ := r.specs.Get(server.UID)
	k, ok := found.(known)
	if !ok || w.waits() != nil || k.statement != r.statement(server) || !slices.Equal(k.shared, versionsOf(w.shared)) {
		return wanted{}, false
	}
	want := wanted{owner: workload.OwnerWith(server, r.options.Objects), content: k.content, problems: slices.Clip(k.problems), revision: k.revision, unmatched: k.unmatched, reason: k.reason}
	want.ownHash = k.ownHash
	want.record(server, w)
	if !want.renderable() {
		want.keep(server, w, r.options.ProxyReplicas)
		want.isolate(server, w, r.options)
		return want, true
	}
	config := w.config(workload.RunConfigName(kinds.Key(server), k.revision))
	switch {
	case w.proxy == nil || revisionOf(w.proxy) != k.revision || revision.Next(w.revisions(server), k.revision.Hash) != k.revision,
		!r.carries(server, w.proxy), !w.carriesConfig() && (config == nil || !r.carries(server, config)):
		return wanted{}, false
	}
	want.unclaimed, want.identity = w.unclaimed(server, k.revision), want.actsWith(server, w)
	want.children = want.around(server, w)
	want.isolate(server, w, r.options)
	return want, true
}

// remember keeps what came of a spec, where it is small and the spec's alone.
func (r *Reconciler) remember(server *v1alpha1.MCPServer, w world, want wanted) {
	for _, problem := range want.problems {
		if problem.Field == revision.AnnotationGeneration {
			return // it is not the spec's
		}
	}
	if !want.renderable() && w.proxy != nil && !want.kept {
		return // nor is what keeps the proxy from being restated
	}
	if want.byPods || want.waitsFor != nil {
		return // nor is which pods run, or whose turn it is
	}
	content := want.content
	content.Backend, content.Remote, content.Proxy = runconfig.Backend{Bridge: want.content.Backend.Bridge}, nil, runconfig.Proxy{SessionSecret: want.content.Proxy.SessionSecret}
	// Whether a proxy that stands may serve depends on that there are such.
	if want.content.Proxy.Authentication != nil {
		content.Proxy.Authentication = &runconfig.Authentication{}
	}
	if want.content.Proxy.Authorization != nil {
		content.Proxy.Authorization = &runconfig.Authorization{}
	}
	told := want.problems[:min(len(want.problems), mostProblems+1)]
	r.specs.Add(server.UID, known{r.statement(server), content, slices.Clone(told), want.revision, want.unmatched, want.reason, want.ownHash, versionsOf(w.shared)})
}

// found remembers an object that carries the spec and was left as it is.
func (r *Reconciler) found(server *v1alpha1.MCPServer, live client.Object, done apply.Outcome) {
	// Where the cache does not show our last write, that is what is right.
	if done.Result != apply.Unchanged || done.ResourceVersion != live.GetResourceVersion() {
		return
	}
	r.objects.Add(live.GetUID(), carrier{server.UID, r.statement(server), fingerprint(server, live)})
}

func (r *Reconciler) carries(server *v1alpha1.MCPServer, live client.Object) bool {
	found, ok := r.objects.Get(live.GetUID())
	return ok && found == carrier{server.UID, r.statement(server), fingerprint(server, live)}
}

// fingerprint names what an object was when a pass looked at it, but for its status.
// The API server counts each change of a spec in metadata.generation.
func fingerprint(server *v1alpha1.MCPServer, live client.Object) [sha256.Size]byte {
	data, err := json.Marshal([]any{
		live.GetUID(), live.GetGeneration(), live.GetLabels(), live.GetAnnotations(), live.GetOwnerReferences(),
		ownership.Entry(live.GetManagedFields(), kinds.Of(server).ChildrenManager, "").GetRawString(), writers(live),
	})
	if err != nil {
		return [sha256.Size]byte{}
	}
	return sha256.Sum256(data)
}

// writers are who owns something of an object beside its status: fields that a
// reset of managedFields left to nobody have a writer of their own
// (before-first-apply), and are taken over.
func writers(live client.Object) []string {
	var all []string
	for _, entry := range live.GetManagedFields() {
		if entry.Subresource == "" {
			all = append(all, string(entry.Operation)+" "+entry.Manager)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
