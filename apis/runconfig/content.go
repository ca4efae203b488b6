package runconfig

import (
	"encoding/json"
	"fmt"

	kjson "sigs.k8s.io/json"
)

// Content is content of a backend as the history of its server keeps it: the data of a ControllerRevision, from which
// the same pods can be made again.
type Content struct {
	// Hash is Rendering.Backend of a run config with this backend.
	Hash    string  `json:"hash"`
	Backend Backend `json:"backend"`
	// Spec are the fields of the MCPServer's spec that the content came of, empty where they were too large to keep.
	Spec json.RawMessage `json:"spec,omitempty"`
}

// contentLimit leaves room for the metadata in the 1.5 MiB of a request to etcd.
const contentLimit = 1 << 20

// Encode writes content as RunConfig.Encode does, without Spec where both are longer than 1 MiB. The error is that of
// a PodTemplate that is not JSON.
func (c Content) Encode() ([]byte, error) {
	template, err := canonical(c.Backend.PodTemplate)
	if err != nil {
		return nil, fmt.Errorf("encoding content: %w", err)
	}
	c.Backend.PodTemplate = template
	data, err := json.Marshal(c)
	if err == nil && len(data) > contentLimit && c.Spec != nil {
		c.Spec = nil
		data, err = json.Marshal(c)
	}
	if err != nil {
		return nil, fmt.Errorf("encoding content: %w", err)
	}
	return data, nil
}

// DecodeContent reads content. Like Decode it is strict: what a later release keeps beside cannot be made again here.
// It does not compare the content with its hash, which takes its rendering.
func DecodeContent(data []byte) (Content, error) {
	var content Content
	strict, err := kjson.UnmarshalStrict(data, &content, kjson.DisallowUnknownFields, kjson.DisallowDuplicateFields)
	switch {
	case err != nil:
		return Content{}, fmt.Errorf("content: %w", plain(err))
	case len(strict) > 0:
		return Content{}, fmt.Errorf("content: %w", oneLine(strict))
	}
	var wrong []error
	text := func(field, value string) {
		if value == "" {
			wrong = append(wrong, fmt.Errorf("%s: missing", field))
		}
	}
	text("hash", content.Hash)
	wrong = append(wrong, content.Backend.check(text, func(field string, value int32) {
		if value < 1 || value > 65535 {
			wrong = append(wrong, fmt.Errorf("%s: %d is not a port", field, value))
		}
	})...)
	if len(wrong) > 0 {
		return Content{}, fmt.Errorf("content: %w", oneLine(wrong))
	}
	if content.Backend.PodTemplate, err = canonical(content.Backend.PodTemplate); err != nil {
		return Content{}, fmt.Errorf("content: %w", err)
	}
	return content, nil
}
