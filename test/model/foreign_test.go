package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// The managers of others. Each writes in one way.
const (
	gitops     = "gitops"
	billing    = "billing"
	inventory  = "inventory"
	neighbour  = "neighbour"
	argocd     = "argocd-controller"
	auditor    = "auditor"
	editor     = "kubectl-edit"
	patcher    = "kubectl-patch"
	json6902   = "kubectl-json"
	autoscaler = "autoscaler"
	restorer   = "velero"
)

const (
	team    = "example.com/team"
	invoice = "billing.example.com/invoice"
)

// others are everybody who is not ours.
type others struct {
	client.Client
	scenario *scenario
	// edits are objects that somebody has read, and will put back changed.
	edits []*unstructured.Unstructured
	// forbidden says that a policy must refuse what they write now.
	forbidden bool
}

// attempt passes over what the API server refuses somebody: that is no fault of anybody's here.
func (o *others) attempt(what string, err error) {
	var refusal apierrors.APIStatus
	if err != nil && !errors.As(err, &refusal) {
		o.scenario.broke(fmt.Errorf("%s: %w", what, err))
	}
}

// want is the server as its user wants it at the moment, made where it is not there.
func (p *scenario) want() {
	spec := map[string]any{"image": fmt.Sprintf("server:%d", p.random.IntN(3))}
	if p.random.IntN(3) == 0 {
		level := p.random.IntN(3)
		spec["args"] = []any{fmt.Sprintf("--level=%d", level)}
		if level == 2 { // too long for the pod template of the proxy
			spec["args"] = []any{strings.Repeat("x", 17<<10)}
		}
	}
	if p.random.IntN(3) == 0 {
		spec["env"] = []any{map[string]any{"name": fmt.Sprint("LEVEL", p.random.IntN(2)), "value": "high"}}
	}
	if p.random.IntN(4) == 0 {
		spec["port"] = int64(8081)
	}
	switch p.random.IntN(6) {
	case 0:
		spec["transport"], spec["command"] = "stdio", []any{"/server"}
	case 1:
		spec["transport"] = "sse"
	}
	if p.random.IntN(6) == 0 {
		spec["suspend"] = true
	}
	if p.random.IntN(4) == 0 {
		spec["proxy"] = map[string]any{"replicas": int64(p.random.IntN(3))}
	}
	if p.random.IntN(2) == 0 {
		spec["network"] = map[string]any{"backendIngress": "ProxyOnly"}
	}
	server := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	server.SetGroupVersionKind(contract.MCPServer.GroupVersionKind)
	server.SetNamespace(namespace)
	server.SetName(p.name)
	p.others.apply(gitops, server)
	p.share()
}

// share is a configuration of the server's name, right or wrong, and another server,
// which no operator runs, that refers to it or not.
func (p *scenario) share() {
	text := []string{
		"permit(principal, action, resource);", "forbid(principal, action, resource);",
		"permit",
	}[p.random.IntN(3)]
	says := map[string]any{"policies": []any{map[string]any{"name": "all", "policy": text}}}
	if p.shared().Object.Kind == "MCPOIDCConfig" {
		says = map[string]any{
			"oidc":             map[string]any{"issuer": "https://login.example.com"},
			"clockSkewSeconds": int64(p.random.IntN(3)),
		}
	}
	config := &unstructured.Unstructured{Object: map[string]any{"spec": says}}
	config.SetGroupVersionKind(p.shared().Object.GroupVersionKind)
	config.SetNamespace(namespace)
	config.SetName(p.name)
	p.others.apply(gitops, config)
	spec := map[string]any{"image": "server:0"}
	if p.random.IntN(3) > 0 {
		spec[p.refers()] = map[string]any{"name": p.name}
	}
	referrer := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	referrer.SetGroupVersionKind(contract.MCPServer.GroupVersionKind)
	referrer.SetNamespace(namespace)
	referrer.SetName(p.name + referrers)
	p.others.apply(gitops, referrer)
}

// shared is the kind of configuration that the run is about, one in every other run.
func (p *scenario) shared() contract.Config { return contract.Configs()[p.kind] }

// refers is the field of a server that names it.
func (p *scenario) refers() string {
	if p.shared().Object.Kind == "MCPOIDCConfig" {
		return "oidcConfigRef"
	}
	return "authzConfigRef"
}

// referrers is the suffix of the name of the server that refers.
const referrers = "-refers"

// unshare takes the reference back.
func (p *scenario) unshare() {
	if referrer := p.world.stands[key{contract.MCPServer.Kind, p.name + referrers}]; referrer != nil {
		p.others.attempt("merge patch", p.others.Patch(p.t.Context(), about(referrer),
			client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{%q:null}}`, p.refers())),
			client.FieldOwner(patcher)))
	}
}

func (o *others) apply(manager string, object *unstructured.Unstructured, opts ...client.ApplyOption) {
	opts = append(opts, client.FieldOwner(manager))
	o.attempt("apply", o.Apply(o.scenario.t.Context(), client.ApplyConfigurationFromUnstructured(object), opts...))
}

// target draws whom somebody meddles with: often what a process is about to write, else anything.
func (p *scenario) target() *unstructured.Unstructured {
	standing := p.world.standing()
	if len(standing) == 0 {
		return nil
	}
	if held := p.heldProcess(); held != nil && p.random.IntN(2) == 0 {
		if o := p.world.stands[held.about]; o != nil {
			return o
		}
	}
	return standing[p.random.IntN(len(standing))]
}

// meddle lets somebody write something.
func (p *scenario) meddle() {
	o := p.others
	if len(o.edits) > 0 && p.random.IntN(2) == 0 {
		o.put(p.random.IntN(3) != 0)
		return
	}
	target := p.target()
	server := p.server()
	if target == nil || server == nil {
		p.want()
		return
	}
	if held := p.heldProcess(); held != nil && held.about == (key{target.GetKind(), target.GetName()}) &&
		p.random.IntN(3) == 0 {
		o.spite(target)
		return
	}
	switch p.random.IntN(17) {
	case 0:
		p.want()
	case 1:
		o.label(target)
	case 2:
		o.takes(neighbour, target, false)
	case 3, 4:
		o.takes(argocd, target, true)
	case 5:
		o.edits = append(o.edits, target.DeepCopy())
	case 6, 7:
		o.merge(target)
	case 8:
		o.patch(target)
	case 9:
		o.scale(target)
	case 10, 11:
		if config := p.world.stands[key{p.shared().Object.Kind, p.name}]; config != nil && p.random.IntN(3) == 0 {
			server = config
		}
		o.status(server)
	case 12:
		o.finalize(server)
	case 13:
		o.delete(target)
	case 14, 15:
		o.forbid(target, server)
	default:
		o.restore(target)
	}
}

// spite does to an object what hurts most between a look at it and a write.
func (o *others) spite(target *unstructured.Unstructured) {
	switch {
	case target.GetKind() == contract.MCPServer.Kind:
		o.finalize(target)
	case o.scenario.random.IntN(2) == 0:
		o.delete(target)
	default:
		o.restore(target)
	}
}

// label states what is nobody's but its writer's.
func (o *others) label(target *unstructured.Unstructured) {
	intent := about(target)
	intent.SetLabels(map[string]string{team: fmt.Sprint("team-", o.scenario.random.IntN(5))})
	intent.SetAnnotations(map[string]string{team: "noted"})
	o.apply(inventory, intent)
}

// leaf draws a field of ours.
func (o *others) leaf(target *unstructured.Unstructured, subresource string) fieldpath.Path {
	leaves := ourLeaves(target, subresource)
	if len(leaves) == 0 {
		return nil
	}
	return leaves[o.scenario.random.IntN(len(leaves))]
}

// takes applies another value of a field of ours, and a label.
func (o *others) takes(manager string, target *unstructured.Unstructured, force bool) {
	intent := about(target)
	if path := o.leaf(target, ""); path != nil {
		if _, value := change(target.DeepCopy().Object, path, o.scenario.otherwise); value != nil {
			intent.Object = merged(intent.Object, statement(path, value).(map[string]any))
		}
	}
	labels := intent.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels["example.com/by-"+manager] = "yes"
	intent.SetLabels(labels)
	opts := []client.ApplyOption{}
	if force {
		opts = append(opts, client.ForceOwnership)
	}
	o.apply(manager, intent, opts...)
}

func merged(into, from map[string]any) map[string]any {
	for name, value := range from {
		below, both := into[name].(map[string]any)
		if more, ok := value.(map[string]any); both && ok {
			into[name] = merged(below, more)
			continue
		}
		into[name] = value
	}
	return into
}

// edited is target with a field of ours or a label changed, and where.
func (o *others) edited(
	target *unstructured.Unstructured, subresource string,
) (edited *unstructured.Unstructured, pointer string, value any) {
	edited = target.DeepCopy()
	if path := o.leaf(target, subresource); path != nil && o.scenario.random.IntN(3) != 0 {
		if pointer, value = change(edited.Object, path, o.scenario.otherwise); pointer != "" {
			return edited, pointer, value
		}
	}
	labels := edited.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[team] = fmt.Sprint("team-", o.scenario.random.IntN(5))
	edited.SetLabels(labels)
	return edited, "", nil
}

// put puts back what somebody had read, as kubectl edit does, or as kubectl replace does with a file.
func (o *others) put(versioned bool) {
	read := o.edits[0]
	o.edits = o.edits[1:]
	edited, _, _ := o.edited(read, "")
	if !versioned {
		edited.SetResourceVersion("")
		edited.SetUID("")
		edited.SetManagedFields(nil)
	}
	o.attempt("put", o.Update(o.scenario.t.Context(), edited, client.FieldOwner(editor)))
}

// merge is kubectl patch, which knows nothing of versions.
func (o *others) merge(target *unstructured.Unstructured) {
	edited, _, _ := o.edited(target, "")
	o.attempt("merge patch", o.Patch(o.scenario.t.Context(), edited, client.MergeFrom(target), client.FieldOwner(patcher)))
}

// patch is a JSON patch (RFC 6902) of a field, or of the finalizers.
func (o *others) patch(target *unstructured.Unstructured) {
	_, pointer, value := o.edited(target, "")
	step := map[string]any{"op": "replace", "path": pointer, "value": value}
	switch finalizers := target.GetFinalizers(); {
	case len(finalizers) > 0 && o.scenario.random.IntN(4) == 0:
		step = map[string]any{"op": "remove", "path": "/metadata/finalizers"}
	case pointer == "":
		return
	}
	body, err := json.Marshal([]any{step})
	if err != nil {
		o.scenario.broke(err)
		return
	}
	o.attempt("JSON patch", o.Patch(o.scenario.t.Context(), about(target), client.RawPatch(types.JSONPatchType, body),
		client.FieldOwner(json6902)))
}

// scale is an autoscaler.
func (o *others) scale(target *unstructured.Unstructured) {
	scaled := []string{contract.MCPServer.Kind, contract.Deployment.Kind, contract.StatefulSet.Kind}
	if !slices.Contains(scaled, target.GetKind()) {
		target = o.scenario.server()
	}
	body := fmt.Sprintf(`{"spec":{"replicas":%d}}`, o.scenario.random.IntN(5))
	o.attempt("scale", o.SubResource("scale").Patch(o.scenario.t.Context(), about(target),
		client.RawPatch(types.MergePatchType, []byte(body)), client.FieldOwner(autoscaler)))
}

// status writes the status of a server or configuration, as nobody but us should.
func (o *others) status(server *unstructured.Unstructured) {
	p := o.scenario
	switch p.random.IntN(3) {
	case 0:
		intent := about(server)
		intent.Object["status"] = map[string]any{"conditions": []any{map[string]any{
			"type": "Audited", "status": "True", "reason": "Audited", "message": fmt.Sprint("finding ", p.random.IntN(5)),
			"lastTransitionTime": "2026-01-01T00:00:00Z",
		}}}
		o.attempt("apply of status", o.Status().
			Apply(p.t.Context(), client.ApplyConfigurationFromUnstructured(intent), client.FieldOwner(auditor)))
	case 1:
		path := o.leaf(server, "status")
		if path == nil {
			return
		}
		_, value := change(server.DeepCopy().Object, path, p.otherwise)
		if value == nil {
			return
		}
		intent := about(server)
		intent.Object = merged(intent.Object, statement(path, value).(map[string]any))
		o.attempt("forced apply of status", o.Status().Apply(p.t.Context(), client.ApplyConfigurationFromUnstructured(intent),
			client.FieldOwner(argocd), client.ForceOwnership))
	default:
		edited, pointer, _ := o.edited(server, "status")
		if pointer == "" {
			return // older servers call a label that it states its own (docs/versions.md)
		}
		o.attempt("merge patch of status",
			o.Status().Patch(p.t.Context(), edited, client.MergeFrom(server), client.FieldOwner(patcher)))
	}
}

// finalize holds the server for somebody, or lets it go.
func (o *others) finalize(server *unstructured.Unstructured) {
	intent := about(server)
	intent.SetUID(server.GetUID())
	if !slices.Contains(server.GetFinalizers(), invoice) && server.GetDeletionTimestamp() == nil {
		intent.SetFinalizers([]string{invoice})
	}
	o.apply(billing, intent)
}

// delete deletes something, the server less often.
func (o *others) delete(target *unstructured.Unstructured) {
	if target.GetKind() == contract.MCPServer.Kind && o.scenario.random.IntN(3) != 0 {
		return
	}
	policy := metav1.DeletePropagationBackground
	if target.GetKind() == contract.MCPServer.Kind && o.scenario.random.IntN(2) == 0 {
		policy = metav1.DeletePropagationOrphan
		o.scenario.tally["orphan delete"]++
	}
	o.attempt("delete", o.Delete(o.scenario.t.Context(), about(target), client.PropagationPolicy(policy)))
}

// restore deletes something and makes it anew under its name, with its owner or without, handed over or not.
func (o *others) restore(target *unstructured.Unstructured) {
	o.delete(target)
	k := key{target.GetKind(), target.GetName()}
	// What the API server adds to a new Service is nobody's, which cannot be told from outside.
	if o.scenario.world.stands[k] != nil || k.kind == contract.Service.Kind {
		return
	}
	copied := target.DeepCopy()
	for _, field := range []string{
		"uid", "resourceVersion", "managedFields", "creationTimestamp", "generation",
		"deletionTimestamp",
	} {
		unstructured.RemoveNestedField(copied.Object, "metadata", field)
	}
	delete(copied.Object, "status")
	copied.SetFinalizers(nil)
	if o.scenario.random.IntN(2) == 0 {
		copied.SetOwnerReferences(nil)
	}
	if o.scenario.random.IntN(2) == 0 {
		copied.SetAnnotations(map[string]string{contract.Freehold().Takeover.Annotation: "true"})
	}
	o.attempt("create", o.Create(o.scenario.t.Context(), copied, client.FieldOwner(restorer)))
}

// forbid does what policies forbid everybody, an administrator as well.
func (o *others) forbid(target, server *unstructured.Unstructured) {
	p := o.scenario
	o.forbidden = true
	defer func() { o.forbidden = false }()
	switch p.random.IntN(3) {
	case 0:
		if child, generation := o.numbered(); child != nil {
			lower := []string{strconv.FormatInt(generation-1, 10), "none"}[p.random.IntN(2)]
			o.attempt("forbidden patch", o.Patch(p.t.Context(), about(child),
				raw("metadata", "annotations", revision.AnnotationGeneration, lower),
				client.FieldOwner(patcher)))
			return
		}
		fallthrough
	case 1:
		// Of children, policies look at those with our label.
		stands := p.world.stands[key{target.GetKind(), target.GetName()}]
		if stands != nil && stands.GroupVersionKind().Group != contract.MCPServer.Group &&
			stands.GetLabels()[workload.LabelManagedBy] != workload.ManagedBy {
			return
		}
		grants := contract.Freehold().Grants
		intent := about(target)
		intent.SetLabels(map[string]string{"example.com/posed": "yes"})
		o.apply(string(grants[p.random.IntN(len(grants))].Manager), intent, client.ForceOwnership)
	default:
		o.attempt("forbidden patch of status",
			o.Status().Patch(p.t.Context(), about(server), raw("status", "runtime", "serverUID", "another's"),
				client.FieldOwner(patcher)))
	}
}

// numbered is a child that carries a workload generation which may not go back, nil if there is none.
func (o *others) numbered() (*unstructured.Unstructured, int64) {
	for _, child := range o.scenario.world.standing() {
		generation, err := strconv.ParseInt(child.GetAnnotations()[revision.AnnotationGeneration], 10, 64)
		numbered := child.GetKind() == contract.Deployment.Kind || child.GetKind() == contract.StatefulSet.Kind
		if numbered && err == nil && generation > 0 && child.GetLabels()[workload.LabelManagedBy] == workload.ManagedBy {
			return child, generation
		}
	}
	return nil, 0
}

// raw is a merge patch of one text.
func raw(field1, field2, field3, value string) client.Patch {
	return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{%q:{%q:{%q:%q}}}`, field1, field2, field3, value))
}
