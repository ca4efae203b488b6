package kit

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/contract"
)

// Patience is how long a wait lasts before the test fails. Everything waited for happens within a second on an idle
// machine; but where the API server was away more than once, client-go's reflectors wait up to a minute before they
// list again.
const Patience = 2 * time.Minute

// Env is one test's namespace, and what can be done in it. Its methods fail
// the test instead of returning errors, except those whose name ends in Err.
type Env struct {
	testing.TB
	*Plane
	Ctx       context.Context
	Namespace string
	// Patience is that of this environment's waits.
	Patience time.Duration
}

var environments atomic.Int64

// NewEnv makes a namespace in which only pods are admitted that meet the "restricted" Pod Security Standard
// (https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted). The namespace goes when the plane
// stops.
func NewEnv(t testing.TB, p *Plane) *Env {
	t.Helper()
	s := &Env{TB: t, Plane: p, Ctx: t.Context(), Patience: Patience}
	s.Namespace = s.NewNamespace()
	return s
}

// NewNamespace makes another namespace like the test's own.
func (s *Env) NewNamespace() string {
	s.Helper()
	digest := fnv.New32a()
	_, _ = digest.Write([]byte(s.Name())) // a hash.Hash never returns an error
	name := fmt.Sprintf("t%03d-%08x", environments.Add(1), digest.Sum32())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		"pod-security.kubernetes.io/enforce": "restricted",
	}, Annotations: map[string]string{"freehold.dev/test": s.Name()}}}
	s.Must(s.Client.Create(s.Ctx, namespace), "creating namespace "+name)
	if s.alone {
		s.Must(s.makeServiceAccount(name), "creating the default ServiceAccount of "+name)
		return name
	}
	ctx, cancel := context.WithTimeout(s.Ctx, s.Patience)
	defer cancel()
	s.Must(s.awaitServiceAccount(ctx, name), "waiting for the default ServiceAccount of "+name)
	return name
}

// On returns the same environment in another namespace.
func (s *Env) On(namespace string) *Env {
	other := *s
	other.Namespace = namespace
	return &other
}

// As returns the same environment for a ServiceAccount: what it writes, that identity does, with no right but its own.
func (s *Env) As(namespace, name string) *Env {
	s.Helper()
	plane := *s.Plane
	plane.Config = s.AsServiceAccount(namespace, name)
	var err error
	plane.Client, err = client.NewWithWatch(plane.Config, client.Options{Scheme: s.Scheme, Mapper: s.Client.RESTMapper()})
	s.Must(err, "connecting as "+name)
	other := *s
	other.Plane = &plane
	return &other
}

// AsController is As for the MCPServer controller of the operator that Install installed. It may write and not read.
func (s *Env) AsController() *Env {
	s.Helper()
	return s.As(SystemNamespace, contract.IdentityMCPServer)
}

// Patient returns the same environment with longer waits, for what is many.
func (s *Env) Patient(patience time.Duration) *Env {
	other := *s
	other.Patience = patience
	return &other
}

// Must fails the test if err is an error; doing says what was being done.
func (s *Env) Must(err error, doing string) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", doing, err)
	}
}

// Intent reads an object from YAML and puts it into the test's namespace.
func (s *Env) Intent(text string) *unstructured.Unstructured {
	s.Helper()
	object := &unstructured.Unstructured{}
	s.Must(yaml.Unmarshal([]byte(text), &object.Object), "reading YAML:\n"+text)
	if object.GetNamespace() == "" {
		object.SetNamespace(s.Namespace)
	}
	return object
}

// Apply applies YAML under a field manager, unforced, as another party would.
func (s *Env) Apply(manager, text string) *unstructured.Unstructured {
	s.Helper()
	object, err := s.ApplyErr(manager, text)
	s.Must(err, "applying as "+manager+":\n"+text)
	return object
}

// Force is Apply that takes fields from their owners.
func (s *Env) Force(manager, text string) *unstructured.Unstructured {
	s.Helper()
	object, err := s.ApplyErr(manager, text, client.ForceOwnership)
	s.Must(err, "applying by force as "+manager+":\n"+text)
	return object
}

// ApplyErr is Apply that returns the API server's error.
func (s *Env) ApplyErr(manager, text string, opts ...client.ApplyOption) (*unstructured.Unstructured, error) {
	s.Helper()
	object := s.Intent(text)
	err := s.Client.Apply(s.Ctx, client.ApplyConfigurationFromUnstructured(object),
		append(opts, client.FieldOwner(manager))...)
	return object, err
}

// ApplyStatus is Apply on the status subresource.
func (s *Env) ApplyStatus(manager, text string) *unstructured.Unstructured {
	s.Helper()
	object, err := s.ApplyStatusErr(manager, text)
	s.Must(err, "applying status as "+manager+":\n"+text)
	return object
}

// ApplyStatusErr is ApplyStatus that returns the API server's error.
func (s *Env) ApplyStatusErr(manager, text string) (*unstructured.Unstructured, error) {
	s.Helper()
	object := s.Intent(text)
	err := s.Client.Status().Apply(s.Ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(manager))
	return object, err
}

// Patch merges JSON into an object, as kubectl patch does. The object is replaced by what the API server answers.
func (s *Env) Patch(object client.Object, manager, merge string) {
	s.Helper()
	s.Must(s.Client.Patch(s.Ctx, object, rawMerge(merge), client.FieldOwner(manager)),
		"patching "+s.Title(object)+" with "+merge)
}

// Scale writes the scale subresource as an autoscaler does.
func (s *Env) Scale(object client.Object, manager string, replicas int32) {
	s.Helper()
	scale := map[string]any{"spec": map[string]any{"replicas": replicas}}
	body, err := json.Marshal(scale)
	s.Must(err, "writing a scale")
	s.Must(s.Client.SubResource("scale").Patch(s.Ctx, object.DeepCopyObject().(client.Object),
		rawMerge(string(body)), client.FieldOwner(manager)), "scaling "+s.Title(object))
}

func rawMerge(merge string) client.Patch {
	return client.RawPatch("application/merge-patch+json", []byte(merge))
}

// Read fills object, whose name is set, from the API server.
func (s *Env) Read(object client.Object) {
	s.Helper()
	s.place(object)
	s.Must(s.Client.Get(s.Ctx, client.ObjectKeyFromObject(object), object), "reading "+s.Title(object))
}

// Exists reports whether the object is there, and fills it.
func (s *Env) Exists(object client.Object) bool {
	s.Helper()
	s.place(object)
	err := s.Client.Get(s.Ctx, client.ObjectKeyFromObject(object), object)
	if apierrors.IsNotFound(err) {
		return false
	}
	s.Must(err, "reading "+s.Title(object))
	return true
}

// Delete deletes an object and does not wait for its end.
func (s *Env) Delete(object client.Object, opts ...client.DeleteOption) {
	s.Helper()
	s.place(object)
	s.Must(client.IgnoreNotFound(s.Client.Delete(s.Ctx, object, opts...)), "deleting "+s.Title(object))
}

func (s *Env) place(object client.Object) {
	_, cluster := object.(*corev1.Namespace)
	if !cluster && object.GetNamespace() == "" {
		object.SetNamespace(s.Namespace)
	}
}

// Title is Kind namespace/name.
func (s *Env) Title(object client.Object) string {
	gvk, err := apiutil.GVKForObject(object, s.Scheme)
	if err != nil {
		return fmt.Sprintf("%T %s/%s", object, object.GetNamespace(), object.GetName())
	}
	return fmt.Sprintf("%s %s/%s", gvk.Kind, object.GetNamespace(), object.GetName())
}

// Unstructured reads an object as the API server has it, managedFields included.
func (s *Env) Unstructured(object client.Object) *unstructured.Unstructured {
	s.Helper()
	s.place(object)
	gvk, err := apiutil.GVKForObject(object, s.Scheme)
	s.Must(err, "finding the kind of an object")
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(gvk)
	live.SetName(object.GetName())
	live.SetNamespace(object.GetNamespace())
	s.Read(live)
	return live
}

// convert puts an unstructured object into a typed one, which is emptied.
func convert(from *unstructured.Unstructured, to client.Object) error {
	if u, ok := to.(*unstructured.Unstructured); ok {
		u.Object = from.DeepCopy().Object
		return nil
	}
	empty(to)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, to); err != nil {
		return fmt.Errorf("decoding %s: %w", from.GetKind(), err)
	}
	return nil
}

var spaces = regexp.MustCompile(`\s+`)

// OneLine folds white space, for messages.
func OneLine(text string) string { return strings.TrimSpace(spaces.ReplaceAllString(text, " ")) }
