package store

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
