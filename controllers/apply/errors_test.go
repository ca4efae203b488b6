package apply

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clientac "k8s.io/client-go/applyconfigurations"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/ownership"
)

var (
	statefulSets = schema.GroupResource{Group: "apps", Resource: "statefulsets"}
	statefulSet  = schema.GroupKind{Group: "apps", Kind: "StatefulSet"}
)

// refusal is an answer that only its code and words tell apart.
func refusal(code int32, reason metav1.StatusReason, message string) error {
	return &apierrors.StatusError{
		ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message},
	}
}

// Answers of the API server.
var (
	changed = apierrors.NewConflict(statefulSets, "a",
		errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	missing = apierrors.NewConflict(statefulSets, "a",
		errors.New("uid mismatch: the provided object specified uid u, and no existing object was found"))
	otherUID = apierrors.NewInvalid(statefulSet, "a",
		field.ErrorList{field.Invalid(field.NewPath("metadata", "uid"), "u", "field is immutable")})
	otherRef = apierrors.NewInvalid(statefulSet, "a",
		field.ErrorList{field.Invalid(field.NewPath("metadata", "ownerReferences").Index(0).Child("uid"), "",
			"must not be empty")})
	invalid = apierrors.NewInvalid(statefulSet, "a",
		field.ErrorList{field.Required(field.NewPath("spec", "selector"), "")})

	schemaError = refusal(http.StatusInternalServerError, "",
		`failed to create typed patch object (ns/a; apps/v1, Kind=StatefulSet): .spec.bogus: field not declared in schema`)
	terminating = func() error {
		err := apierrors.NewForbidden(statefulSets, "a",
			errors.New("unable to create new content in namespace ns because it is being terminated"))
		err.ErrStatus.Details.Causes = []metav1.StatusCause{
			{Type: corev1.NamespaceTerminatingCause, Message: "namespace ns is being terminated", Field: "metadata.namespace"},
		}
		return err
	}()
)

func TestAnswersOfTheAPIServerHaveNames(t *testing.T) {
	create, at, versioned := preconditions{create: true}, preconditions{uid: "u"},
		preconditions{uid: "u", resourceVersion: "7"}
	status, claim := preconditions{}, preconditions{resourceVersion: "7"}
	for name, tc := range map[string]struct {
		answer error
		pre    preconditions
		want   error
	}{
		"a create meets an object":         {changed, create, ErrExists},
		"a create loses a race":            {apierrors.NewAlreadyExists(statefulSets, "a"), create, ErrExists},
		"the object is gone":               {missing, at, ErrGone},
		"the object of a version is gone":  {missing, versioned, ErrGone},
		"the status' object is gone":       {apierrors.NewNotFound(statefulSets, "a"), status, ErrGone},
		"another incarnation":              {otherUID, at, ErrReincarnated},
		"another version":                  {changed, versioned, ErrStale},
		"another version of a status":      {changed, claim, ErrStale},
		"a create too late":                {terminating, create, ErrNamespaceTerminating},
		"a schema error":                   {schemaError, at, &BadIntent{}},
		"a validation error":               {invalid, at, &BadIntent{}},
		"a bad request":                    {apierrors.NewBadRequest("metadata.managedFields must be nil"), at, &BadIntent{}},
		"wrapped by the client":            {fmt.Errorf("sending: %w", invalid), at, &BadIntent{}},
		"a conflict that nobody asked for": {changed, at, nil},
		"no right":                         {apierrors.NewForbidden(statefulSets, "a", errors.New("no")), at, nil},
		"a full quota": {
			apierrors.NewForbidden(statefulSets, "a", errors.New("exceeded quota")), create,
			nil,
		},
		"a broken server": {
			refusal(http.StatusInternalServerError, "", "etcdserver: request timed out"), at,
			nil,
		},
		"a busy server":                 {apierrors.NewTooManyRequests("later", 1), at, nil},
		"a server that does not answer": {apierrors.NewTimeoutError("timeout", 1), create, nil},
		"the network":                   {errors.New("connection refused"), at, nil},
		"the end of the pass":           {context.Canceled, at, nil},
		"an unreachable webhook":        {apierrors.NewInternalError(errors.New("failed calling webhook")), at, nil},
		"another field of that name":    {otherRef, at, &BadIntent{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := classify(tc.answer, tc.pre)
			var bad *BadIntent
			switch want := tc.want.(type) { //nolint:errorlint // the table's own values, which nothing wraps
			case nil:
				if got.Error() != tc.answer.Error() || known(got) {
					t.Errorf("got %v, want the answer as it is", got)
				}
			case *BadIntent:
				if !errors.As(got, &bad) {
					t.Errorf("got %v, want a BadIntent", got)
				}
			default:
				if !errors.Is(got, want) || errors.As(got, &bad) {
					t.Errorf("got %v, want %v", got, want)
				}
			}
			// client-go asks the answer itself, through whatever wraps it.
			if !errors.Is(got, tc.answer) {
				t.Errorf("%v hides the answer %v", got, tc.answer)
			}
		})
	}
	if err := classify(nil, at); err != nil {
		t.Errorf("no answer is %v", err)
	}
}

// known reports whether an error has one of the names.
func known(err error) bool {
	for _, name := range []error{
		ErrExists, ErrForeign, ErrGone, ErrReincarnated, ErrStale, ErrNamespaceTerminating,
		ErrStripped,
	} {
		if errors.Is(err, name) {
			return true
		}
	}
	var bad *BadIntent
	var c *Conflict
	return errors.As(err, &bad) || errors.As(err, &c)
}

func TestAConflictNamesFieldsAndManagers(t *testing.T) {
	answer := apierrors.NewApplyConflict([]metav1.StatusCause{
		{
			Type: metav1.CauseTypeFieldManagerConflict, Field: ".spec.replicas",
			Message: `conflict with "autoscaler" with subresource "scale" using apps/v1`,
		},
		{Type: metav1.CauseTypeFieldManagerConflict, Field: ".spec.paused", Message: `conflict with "kubectl"`},
		{Type: metav1.CauseTypeFieldManagerConflict, Field: ".spec.paused", Message: `conflict with "autoscaler"`},
	}, "Apply failed with 3 conflicts")
	for _, pre := range []preconditions{{}, {uid: "u"}, {create: true}, {uid: "u", resourceVersion: "7"}} {
		var got *Conflict
		if err := classify(answer, pre); !errors.As(err, &got) {
			t.Fatalf("%+v: %v, want a Conflict", pre, err)
		}
		want := &Conflict{Fields: []string{".spec.paused", ".spec.replicas"}, Others: []string{"autoscaler", "kubectl"}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if want := `field conflict: field manager "autoscaler", "kubectl" holds .spec.paused, .spec.replicas`; got.Error() != want {
			t.Errorf("it says %q", got)
		}
	}
}

func TestNotGrantedSaysWhoAndWhat(t *testing.T) {
	for want, err := range map[string]error{
		"manager m may not write .a, .b of ConfigMap": &NotGranted{
			Manager: "m", Object: "ConfigMap",
			Fields: []string{".a", ".b"},
		},
		"manager m has no grant on Secret x": &NotGranted{Manager: "m", Object: "Secret x"},
	} {
		if err.Error() != want {
			t.Errorf("it says %q, want %q", err, want)
		}
	}
}

func quantity(text string) resource.Quantity { return resource.MustParse(text) }

// unknowing is an API server that refuses each apply in these words.
type unknowing struct {
	client.Client
	answer error
}

func (u unknowing) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return u.answer
}

// Of a kind of which this program has the schema, a field that the API server does not
// know says that the definition there is older.
func TestAnOlderDefinitionIsCalledThat(t *testing.T) {
	kind := ownership.Object{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ConfigMap")}
	contract := ownership.Contract{
		Grants: []ownership.Grant{{
			Manager: "m", Object: kind, Create: true, Mode: ownership.Exclusive,
			Fields: ownership.Paths("data.a"),
		}},
	}
	own := map[string]managedfields.TypeConverter{"": clientac.NewTypeConverter(scheme.Scheme)}
	dated := map[string]managedfields.TypeConverter{"": ofOthers{clientac.NewTypeConverter(scheme.Scheme)}}
	unknown := refusal(http.StatusInternalServerError, "",
		"failed to create typed patch object (n/a; v1, Kind=ConfigMap): .data.a: field not declared in schema")
	twice := refusal(http.StatusInternalServerError, "",
		"failed to create typed patch object (n/a; v1, Kind=ConfigMap): .data.a: duplicate entries for key")
	const words = "the CustomResourceDefinition of ConfigMap in the cluster is older than this program: apply the CRDs " +
		"of this release: "
	for name, tc := range map[string]struct {
		groups map[string]managedfields.TypeConverter
		answer error
		want   string
	}{
		"a kind of ours":  {own, unknown, words + unknown.Error()},
		"a built-in kind": {nil, unknown, unknown.Error()},
		"a kind of others": {
			dated, unknown, strings.Replace(words, "apply the CRDs of this release", "ask them", 1) + unknown.Error(),
		},
		"another fault of it":  {own, twice, twice.Error()},
		"a kind of ours is ok": {own, nil, ""},
	} {
		c := unknowing{answer: tc.answer}
		_, err := New(c, c, NewConverter(scheme.Scheme, tc.groups), contract).As("m").
			Apply(t.Context(), nil, corev1ac.ConfigMap("a", "n").WithData(map[string]string{"a": "b"}))
		var bad *BadIntent
		switch {
		case tc.want == "" && err == nil:
		case !errors.As(err, &bad) || bad.Error() != tc.want || RetryOf(err) != RetryLater:
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// ofOthers has the schema of a kind that another project releases.
type ofOthers struct{ managedfields.TypeConverter }

func (ofOthers) Older() string { return "ask them" }
