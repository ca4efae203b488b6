package policystore

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/reconcile"
)

func saying(text string) *v1alpha1.MCPAuthzConfig {
	return &v1alpha1.MCPAuthzConfig{
		ObjectMeta: metav1.ObjectMeta{UID: "u", Generation: 1},
		Spec:       v1alpha1.AuthzConfig{Policies: []v1alpha1.AuthzPolicy{{Name: "all", Policy: text}}},
	}
}

// What a text says is known by the text: a restored cluster counts generations anew, and
// two configurations of one text are read once.
func TestAContentIsReadOnce(t *testing.T) {
	s := New()
	all := "permit(principal, action, resource);"
	first := s.Read(saying(all))
	other := saying(all)
	other.UID, other.Generation, other.DeletionTimestamp = "v", 7, &metav1.Time{}
	again, known := s.Text(other)
	if !known || again.Hash != first.Hash || !again.Deleting || first.Deleting {
		t.Errorf("the same text is %+v, %t", again, known)
	}
	changed := saying("forbid(principal, action, resource);")
	if _, known := s.Text(changed); known {
		t.Error("another text of the same generation is known")
	}
	if verdict, known := s.Policies(changed); !known || verdict.Hash == first.Hash {
		t.Errorf("another text of the same generation is %+v, %t", verdict, known)
	}
	wrong, _ := s.Policies(saying("permit("))
	if wrong.Err == nil {
		t.Error("a text that cannot be read has no error")
	}
	if _, known := s.Text(saying("permit(")); !known {
		t.Error("a text that cannot be read is read again")
	}
}

// Of what a cache holds in part only that is known which somebody has read whole.
func TestWhatACacheCutIsKnownByItsDigest(t *testing.T) {
	s, whole := New(), saying("permit(principal, action, resource);")
	cut := &v1alpha1.MCPAuthzConfig{}
	digest, _ := Digest(whole)
	reconcile.Cut(cut, digest)
	if _, known := s.Policies(cut); known {
		t.Error("it is known before it is read")
	}
	read := s.Read(whole)
	if verdict, known := s.Policies(cut); !known || verdict.Hash != read.Hash {
		t.Errorf("it is %+v, %t", verdict, known)
	}
	login, part := &v1alpha1.MCPOIDCConfig{Spec: v1alpha1.MCPOIDCConfigSpec{OIDC: &v1alpha1.OIDCIssuer{Issuer: "https://x"}}}, &v1alpha1.MCPOIDCConfig{}
	digest, _ = Digest(login)
	reconcile.Cut(part, digest)
	if _, known := s.Login(part); known {
		t.Error("a login is known before it is read")
	}
	hash, _ := s.Login(login)
	if got, known := s.Login(part); !known || got != hash {
		t.Errorf("a login is %s, %t", got, known)
	}
}
