package kit

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Definition is the CustomResourceDefinition of this name, for example mcpservers.freehold.dev.
func (s *Env) Definition(name string) *unstructured.Unstructured {
	s.Helper()
	d := &unstructured.Unstructured{}
	d.SetAPIVersion("apiextensions.k8s.io/v1")
	d.SetKind("CustomResourceDefinition")
	s.Must(s.Client.Get(s.Ctx, client.ObjectKey{Name: name}, d), "reading the definition "+name)
	return d
}

// Redefine changes the CustomResourceDefinition of this name by edit, which is called again where another writer was
// faster. The API server holds to it some time later, and says nowhere when.
func (s *Env) Redefine(name string, edit func(*unstructured.Unstructured)) {
	s.Helper()
	for {
		d := s.Definition(name)
		edit(d)
		err := s.Client.Update(s.Ctx, d)
		if apierrors.IsConflict(err) && s.Ctx.Err() == nil {
			continue
		}
		s.Must(err, "changing the definition "+name)
		return
	}
}
