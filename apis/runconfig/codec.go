package runconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"strings"
	"time"

	kjson "sigs.k8s.io/json"
)

// Decode reads a run config. It is strict: unknown and duplicate fields, another Version, and parts that are missing
// or cannot be right are errors of one line that name every such field. Decode does not compare the content with its
// revision: see Verify.
func Decode(data []byte) (RunConfig, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return RunConfig{}, errors.New("run config: empty")
	}
	if err := checkVersion(data); err != nil {
		return RunConfig{}, err
	}
	var run RunConfig
	strict, err := kjson.UnmarshalStrict(data, &run, kjson.DisallowUnknownFields, kjson.DisallowDuplicateFields)
	if err != nil {
		return RunConfig{}, fmt.Errorf("run config: %w", plain(err))
	}
	if len(strict) > 0 {
		return RunConfig{}, fmt.Errorf("run config: %w", oneLine(strict))
	}
	if err := run.check(); err != nil {
		return RunConfig{}, fmt.Errorf("run config: %w", err)
	}
	run.Backend.PodTemplate, err = canonical(run.Backend.PodTemplate)
	if err != nil {
		return RunConfig{}, fmt.Errorf("run config: %w", err)
	}
	return run, nil
}

// Encode writes a run config so that equal configs have equal bytes: fields in the order of the types, keys of maps
// sorted, quantities canonical, nothing that is empty, and the same for the raw PodTemplate. The only error is a
// PodTemplate that is not JSON.
func (c RunConfig) Encode() ([]byte, error) {
	template, err := canonical(c.Backend.PodTemplate)
	if err != nil {
		return nil, fmt.Errorf("encoding run config: %w", err)
	}
	c.Backend.PodTemplate = template
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false) // people read it with kubectl
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(c); err != nil {
		return nil, fmt.Errorf("encoding run config: %w", err)
	}
	return out.Bytes(), nil
}

// checkVersion comes before the strict reading, so that a file of another
// format is called that, and not a list of unknown fields.
func checkVersion(data []byte) error {
	var head struct {
		Version string `json:"version"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &head); err != nil {
		return fmt.Errorf("run config: %w", plain(err))
	}
	if head.Version == "" {
		return errors.New("run config: version: missing")
	}
	if head.Version != Version {
		return fmt.Errorf("run config: version: is %q, this runner reads %q", head.Version, Version)
	}
	return nil
}

// check says everything that is missing or impossible.
func (c RunConfig) check() error {
	var wrong []error
	text := func(field, value string) {
		if value == "" {
			wrong = append(wrong, fmt.Errorf("%s: missing", field))
		}
	}
	port := func(field string, value int32) {
		if value < 1 || value > 65535 {
			wrong = append(wrong, fmt.Errorf("%s: %d is not a port", field, value))
		}
	}
	text("server.namespace", c.Server.Namespace)
	text("server.name", c.Server.Name)
	text("server.uid", c.Server.UID)
	if c.Workload.Generation < 1 {
		wrong = append(wrong, fmt.Errorf("workload.generation: %d is not 1 or more", c.Workload.Generation))
	}
	text("workload.hash", c.Workload.Hash)
	switch {
	case c.Remote != nil && c.Virtual != nil:
		wrong = append(wrong, errors.New("remote and virtual exclude each other"))
	case c.Remote != nil:
		wrong = append(wrong, c.Remote.check(text)...)
	case c.Virtual != nil:
		text("virtual.toolNames", c.Virtual.ToolNames)
	default:
		wrong = append(wrong, c.Backend.check(text, port)...)
	}
	port("proxy.port", c.Proxy.Port)
	text("proxy.path", c.Proxy.Path)
	if c.Proxy.Authentication != nil {
		c.Proxy.Authentication.check(text)
	}
	text("rendering.proxy", c.Rendering.Proxy)
	if c.Remote == nil && c.Virtual == nil {
		text("rendering.backend", c.Rendering.Backend)
	}
	if len(wrong) == 0 {
		return nil
	}
	return oneLine(wrong)
}

// check tells text and port which parts must be right, and returns what else is wrong.
func (b Backend) check(text func(field, value string), port func(field string, value int32)) []error {
	text("backend.image", b.Image)
	port("backend.port", b.Port)
	text("backend.path", b.Path)
	text("backend.transport", b.Transport)
	if at := b.RestartedAt; at != "" {
		if _, err := time.Parse(time.RFC3339, at); err != nil {
			return []error{fmt.Errorf("backend.restartedAt: %q is not a time of RFC 3339", at)}
		}
	}
	return nil
}

// check is as that of a Backend.
func (r Remote) check(text func(field, value string)) (wrong []error) {
	u, err := url.Parse(r.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		wrong = append(wrong, errors.New("remote.url: is not an absolute URL without user, query and fragment"))
	}
	text("remote.transport", r.Transport)
	for i, network := range r.AllowedNetworks {
		if _, err := netip.ParsePrefix(network); err != nil {
			wrong = append(wrong, fmt.Errorf("remote.allowedNetworks[%d]: %q is no CIDR", i, network))
		}
	}
	if ca := r.CABundle; ca != nil {
		text("remote.caBundle.name", ca.Name)
		text("remote.caBundle.key", ca.Key)
	}
	for i, h := range r.Headers {
		at := fmt.Sprintf("remote.headers[%d].", i)
		text(at+"name", h.Name)
		if h.Secret == nil {
			text(at+"value", h.Value)
			continue
		}
		text(at+"secret.name", h.Secret.Name)
		text(at+"secret.key", h.Secret.Key)
	}
	return wrong
}

// check tells text which parts must not be empty.
func (a Authentication) check(text func(field, value string)) {
	const at = "proxy.authentication."
	text(at+"usernameClaim", a.UsernameClaim)
	text(at+"resource", a.Resource)
	text(at+"algorithms", strings.Join(a.Algorithms, ""))
	text(at+"audiences", strings.Join(a.Audiences, ""))
	if a.CABundle != nil {
		text(at+"caBundle.name", a.CABundle.Name)
		text(at+"caBundle.key", a.CABundle.Key)
	}
	if i := a.Introspection; i != nil {
		text(at+"introspection.url", i.URL)
		text(at+"introspection.clientID", i.ClientID)
		text(at+"introspection.clientSecret.name", i.ClientSecret.Name)
		text(at+"introspection.clientSecret.key", i.ClientSecret.Key)
	}
	if a.Issuer == "" && len(a.Usernames) == 0 {
		text(at+"usernames", "")
	}
}

// canonical sorts the keys of raw JSON, keeps its numbers as they are written,
// and removes white space. Nothing stays nothing.
func canonical(raw json.RawMessage) (json.RawMessage, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("backend.podTemplate: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("backend.podTemplate: more than one JSON value")
	}
	if value == nil {
		return nil, nil
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("backend.podTemplate: %w", err)
	}
	return bytes.TrimSpace(out.Bytes()), nil
}

// plain names the field of a wrong type the way the file spells it.
func plain(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return fmt.Errorf("%s: %s where %s belongs", wrong.Field, wrong.Value, wrong.Type)
	}
	return err
}

func oneLine(errs []error) error {
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return errors.New(strings.Join(texts, "; "))
}
