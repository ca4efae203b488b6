package store

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/configs/authz"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/reconcile"
)

// counted is MCPAuthzConfig, and how often one is read.
type counted struct {
	authz.Kind
	reads *int
}

func (c counted) Check(config frame.Object) frame.Verdict {
	*c.reads++
	return c.Kind.Check(config)
}

func saying(text string) *v1alpha1.MCPAuthzConfig {
	return &v1alpha1.MCPAuthzConfig{
		ObjectMeta: metav1.ObjectMeta{UID: "u", Generation: 1},
		Spec:       v1alpha1.AuthzConfig{Policies: []v1alpha1.AuthzPolicy{{Name: "all", Policy: text}}},
	}
}

// What a text says is known by the text: a restored cluster counts generations anew, and
// two configurations of one text are read once.
func TestAContentIsReadOnce(t *testing.T) {
	s, kind := New(), counted{reads: new(int)}
	all := "permit(principal, action, resource);"
	first := s.Read(kind, saying(all))
	other := saying(all)
	other.UID, other.Generation, other.DeletionTimestamp = "v", 7, &metav1.Time{}
	again, known := s.Whole(kind, other)
	if !known || again.Hash != first.Hash || again.Contribution == nil {
		t.Errorf("the same text is %+v, %t", again, known)
	}
	changed := saying("forbid(principal, action, resource);")
	if _, known := s.Whole(kind, changed); known {
		t.Error("another text of the same generation is known")
	}
	if verdict, known := s.Verdict(kind, changed); !known || verdict.Hash == first.Hash {
		t.Errorf("another text of the same generation is %+v, %t", verdict, known)
	}
	wrong, _ := s.Verdict(kind, saying("permit("))
	if wrong.Err == nil || wrong.Hash != "" {
		t.Errorf("a text that cannot be read is %+v", wrong)
	}
	if _, known := s.Whole(kind, saying("permit(")); !known {
		t.Error("a text that cannot be read is read again")
	}
	for _, text := range []string{all, "forbid(principal, action, resource);", "permit("} {
		s.Read(kind, saying(text))
		s.Verdict(kind, saying(text))
	}
	if *kind.reads != 3 {
		t.Errorf("three texts are read %d times", *kind.reads)
	}
}

// Of what a cache holds in part only that is known which somebody has read whole.
func TestWhatACacheCutIsKnownByItsDigest(t *testing.T) {
	s, whole := New(), saying("permit(principal, action, resource);")
	cut := &v1alpha1.MCPAuthzConfig{}
	digest, _ := Digest(whole)
	reconcile.Cut(cut, digest)
	if _, known := s.Verdict(authz.Kind{}, cut); known {
		t.Error("it is known before it is read")
	}
	read := s.Read(authz.Kind{}, whole)
	if verdict, known := s.Verdict(authz.Kind{}, cut); !known || verdict.Hash != read.Hash {
		t.Errorf("it is %+v, %t", verdict, known)
	}
}

// Whether a server can follow its references is read from what they lead to now: what its
// condition says may be old, and of an earlier release.
func TestWhatAServerCannotFollowIsLookedUp(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	server := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "echo"}}
	server.Spec.AuthzConfigRef = &v1alpha1.LocalReference{Name: "all"}
	server.Spec.OIDCConfigRef = &v1alpha1.OIDCConfigReference{LocalReference: v1alpha1.LocalReference{Name: "login"}}
	login := &v1alpha1.MCPOIDCConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "login"}}
	login.Spec.OIDC = &v1alpha1.OIDCIssuer{Issuer: "https://login.example.com"}
	going := login.DeepCopy()
	going.DeletionTimestamp, going.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"a/b"}
	policies := func(text string) *v1alpha1.MCPAuthzConfig {
		config := saying(text)
		config.Namespace, config.Name = "ns", "all"
		return config
	}
	right, wrong := policies("permit(principal, action, resource);"), policies("permit(")
	for name, tc := range map[string]struct {
		reason string
		there  []client.Object
		want   []string
	}{
		"nothing is wrong any more":  {v1alpha1.ReasonConfigNotFound, []client.Object{login, right}, nil},
		"the login is missing":       {v1alpha1.ReasonConfigNotFound, []client.Object{right}, []string{"MCPOIDCConfig"}},
		"an earlier release said so": {"OIDCConfigNotFound", []client.Object{right}, []string{"MCPOIDCConfig"}},
		"it meant another one":       {"OIDCConfigNotFound", []client.Object{login, wrong}, []string{"MCPAuthzConfig"}},
		"the login is to go": {
			v1alpha1.ReasonConfigDeleting,
			[]client.Object{going, right},
			[]string{"MCPOIDCConfig"},
		},
		"both":                   {"AuthzConfigInvalid", []client.Object{wrong}, []string{"MCPAuthzConfig", "MCPOIDCConfig"}},
		"it says something else": {v1alpha1.ReasonUpdating, nil, nil},
	} {
		server.Status.Conditions = []metav1.Condition{
			{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: tc.reason},
		}
		cache := fake.NewClientBuilder().WithScheme(scheme).WithObjects(tc.there...).Build()
		w, err := New().Workload(t.Context(), cache, server)
		if err != nil || !slices.Equal(w.Unfollowed, tc.want) {
			t.Errorf("%s: it cannot follow %v (%v), want %v", name, w.Unfollowed, err, tc.want)
		}
	}
	server.Status.Workload = &v1alpha1.WorkloadStatus{
		Configs: []v1alpha1.WorkloadConfig{{Kind: "MCPOIDCConfig", Name: "login"}},
	}
	server.Status.Conditions[0].Reason = v1alpha1.ReasonConfigDeleting
	cache := fake.NewClientBuilder().WithScheme(scheme).WithObjects(going, right).Build()
	if w, err := New().Workload(t.Context(), cache, server); err != nil || w.Unfollowed != nil {
		t.Errorf("one that runs with what is to go cannot follow %v (%v)", w.Unfollowed, err)
	}
}
