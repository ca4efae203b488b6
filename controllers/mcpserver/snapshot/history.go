package snapshot

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// keptContents is how many contents of a backend stay beside those in use.
const keptContents = 3

// Content is what history keeps of the backend's content with this hash, whoever controls it; nil if nothing.
func (s *Snapshot) Content(hash string) *metav1.PartialObjectMetadata {
	name := workload.ContentName(kinds.Key(s.Object), hash)
	for i := range s.contents {
		if s.contents[i].Name == name {
			return &s.contents[i]
		}
	}
	return nil
}

// IsReused reports whether other content was stored after this, up to the number of what is wanted.
func (s *Snapshot) IsReused(stored *metav1.PartialObjectMetadata, wanted revision.Revision) bool {
	all, numbers := s.history(wanted)
	number, ours := numbers[stored.Name]
	return ours && number < numbers[all[0].Name]
}

// AskedSince is the number since which no other content than that with a hash has been stored, up to that of what is
// wanted.
func (s *Snapshot) AskedSince(hash string, wanted revision.Revision) int64 {
	all, numbers := s.history(wanted)
	for _, content := range all {
		if content.Name != workload.ContentName(kinds.Key(s.Object), hash) {
			return min(numbers[content.Name]+1, wanted.Generation) // anybody may have made one of the present number
		}
	}
	return 0
}

// OutdatedContents are those before the last ones, but for those with these hashes.
func (s *Snapshot) OutdatedContents(
	wanted revision.Revision, inUse ...string,
) []*metav1.PartialObjectMetadata {
	all, _ := s.history(wanted)
	return slices.DeleteFunc(all[min(len(all), keptContents):], func(content *metav1.PartialObjectMetadata) bool {
		return slices.ContainsFunc(inUse, func(hash string) bool { return s.Content(hash) == content })
	})
}

// history is what the server's history keeps, the latest first, and the numbers by name. A number above that of what is
// wanted was made by no claim, and counts as none. What an earlier server of the name has left is collected, and what
// is being deleted goes once its finalizers let it.
func (s *Snapshot) history(
	wanted revision.Revision,
) (all []*metav1.PartialObjectMetadata, numbers map[string]int64) {
	numbers = map[string]int64{}
	for i := range s.contents {
		content := &s.contents[i]
		rev, err := revision.Of(content.Annotations)
		owner := metav1.GetControllerOfNoCopy(content)
		if err != nil || !workload.IsContentName(kinds.Key(s.Object), content.Name) ||
			owner != nil && owner.UID != s.Object.GetUID() || content.DeletionTimestamp != nil {
			continue
		}
		if numbers[content.Name] = rev.Generation; rev.Generation > wanted.Generation {
			numbers[content.Name] = 0
		}
		all = append(all, content)
	}
	slices.SortFunc(all, func(a, b *metav1.PartialObjectMetadata) int {
		return cmp.Or(cmp.Compare(numbers[b.Name], numbers[a.Name]), cmp.Compare(a.Name, b.Name))
	})
	return all, numbers
}
