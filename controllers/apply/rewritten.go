package apply

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// The API server may store other values than stated: it normalizes quantities, or admission changes a field. The
// writer remembers the stored values, does not change them back, and reports no conflict.

// resendAfter is how long rewritten values are accepted before the intent is sent again: no event says that admission
// no longer changes a field. If it still does, the API server stores nothing.
const resendAfter = 10 * time.Minute

// Rewrite lists fields of an apply that the API server stored with other values.
type Rewrite struct {
	Object ownership.Object
	Key    types.NamespacedName
	// Fields are in the notation of the API server's conflict messages, sorted.
	Fields []string
}

// String names the object and the first fields.
func (r Rewrite) String() string {
	return fmt.Sprintf("%s %s: %s", r.Object, r.Key.Name, someOf(r.Fields))
}

func someOf(fields []string) string {
	const most = 3
	text := strings.Join(fields[:min(most, len(fields))], ", ")
	if more := len(fields) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// storedFields describes the API server's answer to an apply; nil where the answer has the intent's values.
type storedFields struct {
	at time.Time
	// hash is the fingerprint of the manager's fields in the answer, metadataHash that of the answer read as metadata.
	hash, metadataHash [sha256.Size]byte
	fields             []string
}

// storedBy reads the server's answer, and whether it has leftovers again. It returns nil for an unreadable answer:
// the write has succeeded, and the next pass judges the live object.
func (w *Writer) storedBy(f *frozen, grant ownership.Grant) (m *storedFields, stays bool) {
	object, err := w.applier.converter.scheme.New(f.in.gvk)
	if err != nil || json.Unmarshal(f.answer, object) != nil {
		return nil, false
	}
	live, ok := object.(client.Object)
	if !ok {
		return nil, false
	}
	return w.storedFieldsOf(live, f, grant.Object.Subresource), !leftovers(live, f.in, grant).Empty()
}

func (w *Writer) storedFieldsOf(live client.Object, f *frozen, subresource string) *storedFields {
	if f.in.satisfiedBy(live) {
		return nil
	}
	metadata := &metav1.PartialObjectMetadata{}
	if json.Unmarshal(f.answer, metadata) != nil {
		return nil
	}
	whole, err := w.fingerprint(live, f.in, subresource)
	part, partErr := w.fingerprint(metadata, f.in, subresource)
	fields, fieldsErr := w.differing(live, f.in)
	if errors.Join(err, partErr, fieldsErr) != nil {
		return nil
	}
	return &storedFields{at: w.applier.Now(), hash: whole, metadataHash: part, fields: fields}
}

// changed are the fields that have other values in the answer.
func (m *storedFields) changed() []string {
	if m == nil {
		return nil
	}
	return m.fields
}

func (m *storedFields) matches(w *Writer, live client.Object, in intent, subresource string) (bool, error) {
	if m == nil {
		return false, nil
	}
	want := m.hash
	if _, ok := live.(*metav1.PartialObjectMetadata); ok {
		want = m.metadataHash
	}
	seen, err := w.fingerprint(live, in, subresource)
	return err == nil && seen == want, err
}

// differing are the intent's fields that live lacks or has with other values.
func (w *Writer) differing(live runtime.Object, in intent) ([]string, error) {
	value, err := w.applier.converter.live(in.gvk, live)
	if err != nil {
		return nil, err
	}
	diff, err := in.value.Compare(value)
	if err != nil {
		return nil, fmt.Errorf("comparing with the answer: %w", err)
	}
	var fields []string
	diff.Removed.Union(diff.Modified).Leaves().Intersection(in.fields).
		Iterate(func(p fieldpath.Path) { fields = append(fields, p.String()) })
	slices.Sort(fields)
	return fields, nil
}

// matchesStored reports whether live is what the server stored for this intent at most resendAfter ago.
func (w *Writer) matchesStored(live client.Object, in intent, subresource string, k memoryKey) (bool, error) {
	last, ok := w.applier.memory.get(k)
	if !ok || last.uid != live.GetUID() {
		return false, nil
	}
	if hash, err := in.hash(); err != nil || last.intent != hash {
		return false, err
	}
	if is, err := last.stored.matches(w, live, in, subresource); !is || err != nil {
		return false, err
	}
	if w.applier.Now().Sub(last.stored.at) >= resendAfter {
		last.intent = [sha256.Size]byte{} // sent as something new, which no conflict is
		w.applier.memory.put(k, last)
		return false, nil
	}
	return true, nil
}

// resend is the time until the intent is sent again without an event, 0 if it is not.
func (w *Writer) resend(k memoryKey) time.Duration {
	last, ok := w.applier.memory.get(k)
	if !ok || last.stored == nil {
		return 0
	}
	return max(time.Second, last.stored.at.Add(resendAfter).Sub(w.applier.Now()))
}

// fingerprint hashes the manager's fields in live with their values, and those of the intent. Fields that the object
// lacks are skipped: the API server writes managedFields before admission removes the fields.
func (w *Writer) fingerprint(live client.Object, in intent, subresource string) ([sha256.Size]byte, error) {
	none := [sha256.Size]byte{}
	owned, err := ownership.Applied(live.GetManagedFields(), w.manager, subresource)
	if err != nil {
		return none, err
	}
	value, err := w.applier.converter.live(in.gvk, live)
	if err != nil {
		return none, err
	}
	there, err := value.ToFieldSet()
	if err != nil {
		return none, fmt.Errorf("listing the fields of %s: %w", in.gvk.Kind, err)
	}
	set, err := owned.Intersection(there).ToJSON()
	if err != nil {
		return none, fmt.Errorf("encoding owned fields: %w", err)
	}
	values, err := json.Marshal(value.ExtractItems(owned.Union(in.fields).Leaves()).AsValue().Unstructured())
	if err != nil {
		return none, fmt.Errorf("encoding owned values: %w", err)
	}
	return sha256.Sum256(append(set, values...)), nil
}
