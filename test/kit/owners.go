package kit

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// Owns fails the test unless manager owns something at every path, in the notation of ownership.Path.
func (s *Env) Owns(object client.Object, manager string, paths ...string) {
	s.Helper()
	live := s.Unstructured(object)
	for _, path := range paths {
		if owners := s.owners(live.GetManagedFields(), path); !slices.Contains(owners, manager) {
			s.Fatalf("%s of %s is owned by %q, want %q among them\n%s", path, s.Title(object), owners, manager,
				Owners(live.GetManagedFields()))
		}
	}
}

// OwnsNothing fails the test if manager owns anything of the object.
func (s *Env) OwnsNothing(object client.Object, manager string) {
	s.Helper()
	live := s.Unstructured(object)
	for _, entry := range live.GetManagedFields() {
		if entry.Manager == manager {
			s.Fatalf("%s still owns parts of %s\n%s", manager, s.Title(object), Owners(live.GetManagedFields()))
		}
	}
}

// OwnersOf returns the managers that own something at path.
func (s *Env) OwnersOf(object client.Object, path string) []string {
	s.Helper()
	return s.owners(s.Unstructured(object).GetManagedFields(), path)
}

func (s *Env) owners(entries []metav1.ManagedFieldsEntry, path string) []string {
	s.Helper()
	owners, err := ownership.Owners(entries, ownership.MustPath(path))
	s.Must(err, "reading the owners of "+path)
	var names []string
	for _, o := range owners {
		if !slices.Contains(names, o.Manager) {
			names = append(names, o.Manager)
		}
	}
	return names
}

// Owners is managedFields for people: one line an entry, one line a field.
func Owners(entries []metav1.ManagedFieldsEntry) string {
	var text strings.Builder
	for _, entry := range entries {
		fmt.Fprintf(&text, "%s %s", entry.Manager, entry.Operation)
		if entry.Subresource != "" {
			fmt.Fprintf(&text, " on %s", entry.Subresource)
		}
		if entry.Time != nil {
			fmt.Fprintf(&text, " at %s", entry.Time.UTC().Format("15:04:05"))
		}
		text.WriteString("\n")
		set, err := ownership.Fields(entry)
		if err != nil {
			fmt.Fprintf(&text, "    %v\n", err)
			continue
		}
		set.Leaves().Iterate(func(p fieldpath.Path) { fmt.Fprintf(&text, "    %s\n", p) })
	}
	return text.String()
}
