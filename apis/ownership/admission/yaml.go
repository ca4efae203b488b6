package admission

import (
	"bytes"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// YAML is the policy and its binding as one file of two documents.
func (p Policy) YAML() ([]byte, error) {
	var documents [][]byte
	for _, object := range []any{&p.Policy, &p.Binding} {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return nil, fmt.Errorf("writing %s: %w", p.Policy.Name, err)
		}
		delete(fields, "status")
		document, err := yaml.Marshal(fields)
		if err != nil {
			return nil, fmt.Errorf("writing %s: %w", p.Policy.Name, err)
		}
		documents = append(documents, document)
	}
	return bytes.Join(documents, []byte("---\n")), nil
}
