package model

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/configs/registry"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// rest judges what stands when no manager has anything to do: each holds what it stated last. Others may hold it with
// the same value, which no apply can undo. A Secret and stored content are written once.
func (j *checker) rest() {
	var all []stating
	for s := range j.stated {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b stating) int {
		return cmp.Or(cmp.Compare(a.of.String(), b.of.String()), cmp.Compare(a.manager, b.manager))
	})
	for _, s := range all {
		object := j.scenario.world.stands[s.of]
		if s.of.kind == contract.NetworkPolicy.Kind && object != nil && object.GetUID() == s.uid &&
			object.GetDeletionTimestamp() == nil && !j.staysOrphaned(object) &&
			!j.scenario.stillStated(s.of) && ownership.Entry(object.GetManagedFields(), s.manager, "") != nil {
			j.found(leftBehind, "%s, which the spec does not ask for", s.of)
		}
		if object == nil || object.GetUID() != s.uid || isOnce(s.of.kind) || !j.scenario.stillStated(s.of) ||
			!j.scenario.works(s.manager) ||
			s.manager == j.scenario.shared().FinalizerManager && !j.scenario.referred() ||
			s.manager == contract.MCPServerAddress && !j.scenario.hasBackend() {
			// somebody else may have taken it away meanwhile
			continue
		}
		if j.staysOrphaned(object) && ownership.Entry(object.GetManagedFields(), s.manager, s.subresource) == nil {
			continue // others took all of our fields: it is foreign to a later server
		}
		if j.refused[refusal{s.of.String(), string(s.manager)}] {
			j.scenario.tally["refused as invalid at rest"]++
			continue
		}
		holds, err := ownership.Applied(object.GetManagedFields(), s.manager, s.subresource)
		if err != nil {
			j.scenario.broke(err)
			return
		}
		byDefault := s.manager == contract.MCPServerScale && j.scenario.scaledByDefault(object)
		lost := j.stated[s].Leaves().Difference(holds)
		if s.manager == j.scenario.shared().StatusManager && !j.hasHash(object) {
			lost = lost.Difference(fieldpath.NewSet(fieldpath.MakePathOrDie("status", "hash")))
		}
		if !lost.Empty() && !byDefault {
			j.found(lostField, "%s: %s lacks %s", s.of, s.manager, lost)
		}
	}
	j.configuration()
}

// hasHash reports whether a shared configuration has a hash, which an invalid one has not. No write says so where
// somebody else had taken the hash before.
func (j *checker) hasHash(object *unstructured.Unstructured) bool {
	made, err := plane.Scheme.New(object.GroupVersionKind())
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, made)
	}
	if err != nil {
		j.scenario.broke(err)
		return true
	}
	return registry.Read(made.(frame.Object))[0].Verdict.Hash != ""
}

// configuration judges the shared one at rest: its status names who refers to it,
// and it is held while anybody does, and by us no longer.
func (j *checker) configuration() {
	p := j.scenario
	kind := p.shared()
	config := p.child(kind.Object, p.name)
	if config == nil || j.refused[refusal{(key{kind.Object.Kind, p.name}).String(), string(kind.FinalizerManager)}] {
		return
	}
	var want []string
	if p.referred() {
		want = []string{p.name + referrers}
	}
	var names []string
	listed, _, _ := unstructured.NestedSlice(config.Object, "status", "referencingWorkloads")
	for _, l := range listed {
		workload := l.(map[string]any)
		if names = append(names, fmt.Sprint(workload["name"])); workload["kind"] != contract.MCPServer.Kind {
			names = append(names, fmt.Sprint(l))
		}
	}
	if n, _, _ := unstructured.NestedInt64(config.Object, "status", "workloads"); !slices.Equal(names, want) ||
		int(n) != len(want) {
		j.found(wrongCount, "%d, %q of %q", n, names, want)
	}
	held := ownership.Entry(config.GetManagedFields(), kind.FinalizerManager, "") != nil
	if carries := slices.Contains(config.GetFinalizers(), kind.Finalizer); p.referred() != held || held && !carries {
		j.found(wrongHold, "referred to: %t, held by us: %t, carries the finalizer: %t", p.referred(), held, carries)
	}
}

// referred reports whether a server refers to the shared configuration.
func (p *scenario) referred() bool {
	server := p.child(contract.MCPServer, p.name+referrers)
	if server == nil {
		return false
	}
	name, _, _ := unstructured.NestedString(server.Object, "spec", p.refers(), "name")
	return name == p.name
}

func isOnce(kind string) bool {
	return kind == contract.Secret.Kind || kind == contract.ControllerRevision.Kind
}

// stillStated reports whether anybody states an object at rest: not run configs of content that has been replaced; nor
// a proxy whose new content cannot go out, as where a name is taken; nor Services of a backend whose own name is; nor
// what rests on an account or a Role of another hand; nor a NetworkPolicy that the spec does not ask for, which is
// gone.
func (p *scenario) stillStated(k key) bool {
	claimed, _, _ := unstructured.NestedMap(p.server().Object, "status", "workload")
	number, _ := claimed["generation"].(int64)
	hash, _ := claimed["hash"].(string)
	rev := revision.Revision{Generation: number, Hash: hash}
	switch k.kind {
	case contract.ConfigMap.Kind:
		return k.name == workload.RunConfigName(p.name, rev)
	case contract.Deployment.Kind:
		stands, err := revision.Of(p.world.stands[k].GetAnnotations())
		return err == nil && stands == rev &&
			!p.taken(contract.ServiceAccount.Kind, workload.RunnerName(p.name), contract.MCPServerChildren)
	case contract.NetworkPolicy.Kind:
		ingress, _, _ := unstructured.NestedString(p.server().Object, "spec", "network", "backendIngress")
		return ingress == "ProxyOnly"
	case contract.Role.Kind:
		return !p.taken(contract.ServiceAccount.Kind, workload.RunnerName(p.name), contract.MCPServerChildren)
	case contract.RoleBinding.Kind:
		return !p.taken(contract.ServiceAccount.Kind, workload.RunnerName(p.name), contract.MCPServerChildren) &&
			!p.taken(contract.Role.Kind, workload.RunnerName(p.name), contract.RBACChildren)
	case contract.Service.Kind:
		taken := p.taken(contract.StatefulSet.Kind, workload.BackendName(p.name), contract.RunnerBackend)
		return !taken || !slices.Contains([]string{workload.BackendName(p.name), workload.HeadlessName(p.name)}, k.name)
	}
	return true
}

// scaledByDefault reports whether a backend has the replicas that the server asks for
// and nobody owns the number: then nobody restates it.
func (p *scenario) scaledByDefault(backend *unstructured.Unstructured) bool {
	owners, err := ownership.Owners(backend.GetManagedFields(), ownership.MustPath("spec.replicas"))
	stands, _, _ := unstructured.NestedInt64(backend.Object, "spec", "replicas")
	asked, _, _ := unstructured.NestedInt64(p.server().Object, "spec", "replicas")
	suspended, _, _ := unstructured.NestedBool(p.server().Object, "spec", "suspend")
	return err == nil && len(owners) == 0 && stands == asked && !suspended
}

// hasBackend reports whether the server controls a backend: numbers of pods are those of no other one.
func (p *scenario) hasBackend() bool {
	backend, server := p.world.stands[key{contract.StatefulSet.Kind, workload.BackendName(p.name)}], p.server()
	return backend != nil && server != nil && metav1.IsControlledBy(backend, server)
}

// taken reports whether another hand has the name of a child.
func (p *scenario) taken(kind, name string, manager ownership.Manager) bool {
	child := p.world.stands[key{kind, name}]
	return child != nil && ownership.Entry(child.GetManagedFields(), manager, "") == nil
}

// works reports whether anybody is there who writes as a manager, and may: while
// a server is suspended its proxy has no pod, and so there is no runner.
func (p *scenario) works(manager ownership.Manager) bool {
	if manager != contract.RunnerBackend && manager != contract.RunnerReport {
		return true
	}
	suspended, _, _ := unstructured.NestedBool(p.server().Object, "spec", "suspend")
	return !suspended && p.runnerMay() && slices.ContainsFunc(p.processes[2:4], (*process).alive)
}

// released judges a server whose finalizer was given up, where somebody else
// still holds it: of the main resource only the user's fields remain.
func (j *checker) released() {
	server := j.scenario.server()
	if server == nil {
		return
	}
	j.nothingOfOurs(server)
	if holders := holdersOfFinalizer(server); slices.Contains(server.GetFinalizers(), contract.Finalizer) &&
		len(holders) == 0 {
		j.found(leftBehind, "the finalizer remains, and nobody holds it")
	}
}

// gone judges what is left of a server that is gone, but for orphans that no later server adopts. A process that was
// killed between the two writes of a take-over leaves its manager in an object that is not ours, and no later pass goes
// on where the take-over has become impossible.
func (j *checker) gone() {
	if server := j.scenario.server(); server != nil {
		j.found(leftBehind, "%s, with finalizers %s", server.GetName(), server.GetFinalizers())
	}
	for _, o := range j.scenario.world.standing() {
		if !j.scenario.moved[o.GetUID()] && !j.staysOrphaned(o) {
			j.nothingOfOurs(o)
		}
	}
}

// staysOrphaned reports whether an orphan delete left an object that no later server has adopted: it need not where a
// name that it needs is taken, or its spec does not ask for the object. What it must adopt is judged at rest.
func (j *checker) staysOrphaned(o *unstructured.Unstructured) bool {
	return j.scenario.orphaned[o.GetUID()] && metav1.GetControllerOf(o) == nil
}

func (j *checker) nothingOfOurs(o *unstructured.Unstructured) {
	for _, entry := range entriesOf(o) {
		if entry.Subresource == "" && contract.Freehold().Claims(entry.Manager) {
			j.found(leftBehind, "%s %s: %s", o.GetKind(), o.GetName(), entry.Manager)
		}
	}
}

// holdersOfFinalizer are those who hold our finalizer and are not us.
func holdersOfFinalizer(server *unstructured.Unstructured) []ownership.Owner {
	all, err := ownership.Owners(server.GetManagedFields(),
		ownership.MustPath(`metadata.finalizers[="`+contract.Finalizer+`"]`))
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(all, isOurFinalizer)
}

func isOurFinalizer(o ownership.Owner) bool {
	return o.Manager == string(contract.MCPServerFinalizer) && o.Operation == metav1.ManagedFieldsOperationApply
}

// ownedByUs reports whether our finalizer is on its way out by our own hand.
func ownedByUs(server *unstructured.Unstructured) bool {
	return ownership.Entry(server.GetManagedFields(), contract.MCPServerFinalizer, "") != nil
}

// release gives back everything that one may stop to state, as somebody does who takes an object over, and judges what
// is left: what only that manager held is gone, and all else is as it was.
func (p *scenario) release() {
	applier := controllers.NewApplier(p.others, plane.Client)
	for _, o := range p.world.standing() {
		if o.GetKind() != contract.ServiceAccount.Kind && o.GetKind() != contract.Role.Kind {
			continue // the others cannot be without what is ours
		}
		made, err := plane.Scheme.New(o.GroupVersionKind())
		if err == nil {
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(o.DeepCopy().Object, made)
		}
		if err != nil {
			p.broke(err)
			return
		}
		manager := maker(o)
		if err := applier.As(manager).Release(p.t.Context(), made.(client.Object)); err != nil {
			p.checker.found(leftBehind, "releasing %s: %v", o.GetName(), err)
			continue
		}
		p.checker.handedBack(manager, o, p.world.stands[key{o.GetKind(), o.GetName()}])
	}
}

// maker is the manager of ours that may make an object.
func maker(o *unstructured.Unstructured) ownership.Manager {
	for _, g := range contract.Freehold().Grants {
		if g.Create && g.Object.GroupVersionKind == o.GroupVersionKind() && g.Named(o.GetName()) {
			return g.Manager
		}
	}
	return ""
}

// handedBack judges an object before and after everything of it was released.
func (j *checker) handedBack(manager ownership.Manager, before, after *unstructured.Unstructured) {
	if after == nil {
		j.found(leftBehind, "%s %s went when it was released", before.GetKind(), before.GetName())
		return
	}
	j.nothingOfOurs(after)
	changed, err := changedLeaves(before, after)
	if err != nil {
		j.scenario.broke(err)
		return
	}
	alone, theirs := fieldpath.NewSet(), fieldpath.NewSet()
	for _, entry := range entriesOf(before) {
		fields, err := ownership.Fields(entry)
		switch {
		case err != nil:
			j.scenario.broke(err)
		case entry.Manager == string(manager):
			alone = fields.Leaves()
		default:
			theirs = theirs.Union(fields)
		}
	}
	alone = alone.Difference(theirs)
	if remains := alone.Difference(changed); !remains.Empty() {
		j.found(leftBehind, "%s %s: %s", before.GetKind(), before.GetName(), remains)
	}
	if touched := changed.Intersection(theirs); !touched.Empty() {
		j.found(foreignChanged, "releasing %s %s: %s", before.GetKind(), before.GetName(), touched)
	}
}
