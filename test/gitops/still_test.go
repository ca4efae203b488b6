package gitops

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

// versions are the resourceVersions of all that Git or Freehold keep in a namespace: an apply that changes nothing is
// no write, and leaves them (https://kubernetes.io/docs/reference/using-api/server-side-apply/).
func versions(s *kit.Env) kit.Versions {
	s.Helper()
	found := s.Versions()
	for _, list := range []client.ObjectList{
		&v1alpha1.MCPOIDCConfigList{}, &v1alpha1.MCPAuthzConfigList{},
		&corev1.SecretList{},
	} {
		s.Must(s.Client.List(s.Ctx, list, client.InNamespace(s.Namespace)), "listing")
		s.Must(meta.EachListItem(list, func(o runtime.Object) error {
			object := o.(client.Object) //nolint:forcetypeassert // of a list of such
			found[s.Title(object)] = object.GetResourceVersion()
			return nil
		}), "reading a list")
	}
	namespace := &corev1.Namespace{ObjectMeta: named(s.Namespace)}
	s.Read(namespace)
	found["Namespace"] = namespace.ResourceVersion
	return found
}

// still waits until nothing has been written in a namespace between two looks at it, a moment apart.
func still(s *kit.Env) kit.Versions {
	s.Helper()
	last := versions(s)
	pause := time.NewTicker(3 * time.Second)
	defer pause.Stop()
	for end := time.Now().Add(s.Patience); ; {
		<-pause.C
		now := versions(s)
		moved := last.Moved(now)
		if len(moved) == 0 {
			return now
		}
		if time.Now().After(end) {
			s.Fatalf("something is written in %s again and again:\n%s", s.Namespace, strings.Join(moved, "\n"))
		}
		last = now
	}
}

// unwritten fails for each object that was written, made or deleted since.
func unwritten(s *kit.Env, before kit.Versions, what string) {
	s.Helper()
	if moved := before.Moved(versions(s)); len(moved) > 0 {
		s.Fatalf("%s wrote:\n%s\n%s", what, strings.Join(moved, "\n"), s.Surroundings())
	}
}
