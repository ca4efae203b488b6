// Package render turns what a server asks for into content: a Digest, by which package plan decides, and the manifests
// that carry it, which are made when one has to be written. What came of an input is remembered, by all of it.
package render

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/reconcile"
	"github.com/freehold-dev/freehold/controllers/rollout"
	"github.com/freehold-dev/freehold/controllers/runspec"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// Digest is what is decided by of content: all but what carries it.
type Digest struct {
	// Key names all inputs that it came of.
	Key string
	// Hash names the content, and OwnHash it without what shared configurations contribute.
	Hash, OwnHash string
	// Backend names what the backend's pods are to run.
	Backend string
	// Strategy is how that takes the place of what they run, empty without a backend.
	Strategy v1alpha1.RolloutStrategy
	// Port, Path and Transport are how proxies call the backend.
	Port      int32
	Path      string
	Transport v1alpha1.Transport
	// Reads names the ConfigMaps and Secrets that the backend's pods read.
	Reads string
	// Pinned says that their image is named by its digest, so that it is one image.
	Pinned bool
	// BridgeImage is that of a backend with a bridge, SessionSecret the Secret with the keys of session ids.
	BridgeImage, SessionSecret string
	// Guards are what the proxy holds calls against.
	Guards      string
	NotEnforced []string
	// Short says that the proxy's pod template carries the run config, and no ConfigMap does.
	Short bool
	// Problems keep the spec from being rendered. Reason is that of them where nothing but references is wrong.
	Problems podtemplate.Problems
	Reason   string
	// Unmatched are statements of spec.authzConfig that match no call.
	Unmatched []string
}

// Digests are those of what a server asks for.
type Digests struct {
	// Present is with the present content of the configurations that it refers to.
	Present Digest
	// Before is with what it has of those whose turn it is not, nil where it waits for none, or where what it has
	// cannot be told.
	Before *Digest
}

// mostProblems is how many problems are remembered: one more than a condition names, so that it can say that there are
// more.
const mostProblems = 21

// remembered is of how many inputs the digest is kept, and lately of how many what was rendered, which is many times
// as large.
const (
	remembered = 1 << 14
	lately     = 32
)

// Renderer renders for one release.
type Renderer struct {
	Release          podtemplate.Release
	digests, renders *lru.Cache
}

// New returns a Renderer.
func New(release podtemplate.Release) *Renderer {
	return &Renderer{Release: release, digests: lru.New(remembered), renders: lru.New(lately)}
}

// input is what content depends on, beside the release, and its key.
type input struct {
	workload.Input
	// key names all of it, empty where it cannot be encoded.
	key   string
	large bool
}

// Digests are those of the server of a snapshot, zero of one that is being deleted. They are not known where nothing is
// remembered of content to which configurations contribute that the snapshot does not have whole.
func (r *Renderer) Digests(s *snapshot.Snapshot) (d Digests, known bool) {
	if s.Object.GetDeletionTimestamp() != nil {
		return d, true
	}
	if d.Present, known = r.digest(r.present(s)); !known {
		return d, false
	}
	if in, told := r.before(s); told {
		var before Digest
		before, known = r.digest(in)
		d.Before = &before
	}
	return d, known
}

// Rendered is what the digest with this key came of. The snapshot has all configurations whole.
func (r *Renderer) Rendered(s *snapshot.Snapshot, key string) workload.Rendered {
	in := r.present(s)
	if in.key != key {
		in, _ = r.before(s)
	}
	return r.render(in)
}

func (r *Renderer) digest(in input) (d Digest, known bool) {
	if found, ok := r.digests.Get(in.key); ok {
		return found.(Digest), true
	}
	if !in.Configs.Whole() {
		return d, false
	}
	d = digestOf(r.render(in))
	d.Key = in.key
	if in.key != "" {
		r.digests.Add(in.key, d)
	}
	return d, true
}

func digestOf(rendered workload.Rendered) Digest {
	run := &rendered.Content
	d := Digest{
		Hash: rendered.Hash, OwnHash: rendered.OwnHash, Backend: run.Rendering.Backend,
		Strategy: rendered.Strategy,
		Port:     run.Backend.PodPort(), Path: run.Backend.Path, Transport: v1alpha1.Transport(run.Backend.Transport),
		Pinned: strings.Contains(run.Backend.Image, "@"),
		Reads:  runspec.Named(runspec.References(run.Backend)), SessionSecret: run.Proxy.SessionSecret,
		Guards: podtemplate.Guards(run.Proxy), NotEnforced: run.NotEnforced, Short: rendered.Short(),
		Problems: slices.Clone(rendered.Problems[:min(len(rendered.Problems), mostProblems)]), Reason: rendered.Reason,
		Unmatched: rendered.Unmatched,
	}
	if run.Backend.Bridge != nil {
		d.BridgeImage = run.Backend.Bridge.Image
	}
	return d
}

func (r *Renderer) render(in input) workload.Rendered {
	if known, ok := r.renders.Get(in.key); ok {
		return known.(workload.Rendered)
	}
	rendered := workload.Render(in.Input, r.Release)
	if in.key != "" && !in.large {
		r.renders.Add(in.key, rendered)
	}
	return rendered
}

func (r *Renderer) present(s *snapshot.Snapshot) input {
	return keyed(r.asked(s))
}

// before is with what the server has of the configurations whose turn it is not; false where it waits for none, and
// where that cannot be told.
func (r *Renderer) before(s *snapshot.Snapshot) (had input, told bool) {
	if s.Configs.Waits() == nil || s.Configs.Ran == nil {
		return had, false
	}
	in := r.asked(s)
	for _, turn := range s.Configs.Turns {
		if turn.Admitted {
			continue
		}
		hash := rollout.Of(s.Object).Records(turn, true).Hash
		if in.Configs, told = in.Configs.Before(turn.Kind, &s.Configs.Ran.Proxy, hash); !told {
			return had, false
		}
	}
	return keyed(in), true
}

func (r *Renderer) asked(s *snapshot.Snapshot) workload.Input {
	return workload.Input{Object: r.object(s), Configs: s.Configs.Refs, Contents: workload.ContentsOf(s.Object)}
}

// object is that of a snapshot with nothing but what content depends on, so that all of it is in the key.
func (r *Renderer) object(s *snapshot.Snapshot) kinds.Object {
	meta := metav1.ObjectMeta{
		Namespace: s.Object.GetNamespace(), Name: s.Object.GetName(), UID: s.Object.GetUID(),
		Labels: r.Release.Objects.Of(s.Object).Labels,
	}
	var status v1alpha1.ProxyWorkloadStatus
	if claim := s.Last.Claim; claim != nil {
		status.Workload = &v1alpha1.WorkloadStatus{SessionSecret: claim.SessionSecret}
		for _, c := range claim.Configs {
			status.Workload.Configs = append(status.Workload.Configs, v1alpha1.WorkloadConfig{Kind: c.Kind, Name: c.Name})
		}
	}
	switch o := s.Object.(type) {
	case *v1alpha1.MCPServer:
		return &v1alpha1.MCPServer{
			ObjectMeta: meta, Spec: o.Spec, Status: v1alpha1.MCPServerStatus{ProxyWorkloadStatus: status},
		}
	case *v1alpha1.MCPRemoteProxy:
		return &v1alpha1.MCPRemoteProxy{
			ObjectMeta: meta, Spec: o.Spec, Status: v1alpha1.MCPRemoteProxyStatus{ProxyWorkloadStatus: status},
		}
	}
	return s.Object
}

// said is what of a configuration content depends on: what it contributes goes by the hash.
type said struct {
	v1alpha1.ConfigRef
	Exists, Deleting bool
	Hash, Err        string
}

// keyed names an input. What cannot be encoded is a problem of the spec, and is not remembered.
func keyed(in workload.Input) input {
	configs := make([]said, 0, len(in.Configs))
	for _, c := range in.Configs {
		config := said{ConfigRef: c.ConfigRef, Exists: c.Object != nil, Deleting: c.Deleting(), Hash: c.Verdict.Hash}
		if c.Verdict.Err != nil {
			config.Err = c.Verdict.Err.Error()
		}
		configs = append(configs, config)
	}
	data, err := json.Marshal([]any{in.Object, configs, in.Contents})
	if err != nil {
		return input{Input: in}
	}
	sum := sha256.Sum256(data)
	return input{in, hex.EncodeToString(sum[:]), len(data) > reconcile.LargeObject}
}
