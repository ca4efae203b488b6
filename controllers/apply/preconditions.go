package apply

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// createVersion is a resourceVersion that no stored object has. An apply that carries it creates the object or is
// answered 409; it never updates. ("0" is refused, and any other number that is not the live one creates as well.)
const createVersion = "1"

type preconditions struct {
	create          bool
	uid             types.UID
	resourceVersion string
}

func (in intent) body(pre preconditions) ([]byte, error) {
	metadata := map[string]any{}
	if m, ok := in.content["metadata"].(map[string]any); ok {
		metadata = maps.Clone(m)
	}
	if pre.uid != "" {
		metadata["uid"] = string(pre.uid)
	}
	if pre.resourceVersion != "" {
		metadata["resourceVersion"] = pre.resourceVersion
	}
	if pre.create {
		metadata["resourceVersion"] = createVersion
	}
	content := maps.Clone(in.content)
	content["metadata"] = metadata
	return json.Marshal(content)
}

// frozen is an apply configuration that is only bytes, and keeps the server's answer apart from them.
type frozen struct {
	in   intent
	sent []byte

	// The parts of the answer that are always remembered.
	answer          []byte
	uid             types.UID
	resourceVersion string
}

// IsApplyConfiguration marks frozen for the client.
func (f *frozen) IsApplyConfiguration() {}

// GetName is read by the client.
func (f *frozen) GetName() *string { return &f.in.key.Name }

// GetNamespace is read by the client.
func (f *frozen) GetNamespace() *string { return &f.in.key.Namespace }

// GetKind is read by the client.
func (f *frozen) GetKind() *string { return &f.in.gvk.Kind }

// GetAPIVersion is read by the client.
func (f *frozen) GetAPIVersion() *string {
	v := f.in.gvk.GroupVersion().String()
	return &v
}

// MarshalJSON returns the frozen body.
func (f *frozen) MarshalJSON() ([]byte, error) { return f.sent, nil }

// UnmarshalJSON keeps the server's answer.
func (f *frozen) UnmarshalJSON(data []byte) error {
	answer := metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(data, &answer); err != nil {
		return fmt.Errorf("reading the server's answer: %w", err)
	}
	f.answer, f.uid, f.resourceVersion = bytes.Clone(data), answer.UID, answer.ResourceVersion
	return nil
}
