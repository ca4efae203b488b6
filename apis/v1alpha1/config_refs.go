package v1alpha1

// SharedConfig is an object of a kind of shared configuration.
// +kubebuilder:object:generate=false
type SharedConfig interface {
	// GetConfigSpec points to what it says, and GetConfigStatus to its status.
	GetConfigSpec() any
	GetConfigStatus() *ConfigStatus
}

// GetConfigSpec is the spec.
func (c *MCPOIDCConfig) GetConfigSpec() any { return &c.Spec }

// GetConfigStatus is the status.
func (c *MCPOIDCConfig) GetConfigStatus() *ConfigStatus { return &c.Status }

// GetConfigSpec is the spec.
func (c *MCPAuthzConfig) GetConfigSpec() any { return &c.Spec }

// GetConfigStatus is the status.
func (c *MCPAuthzConfig) GetConfigStatus() *ConfigStatus { return &c.Status }

// ConfigRef is a reference of a workload to a shared configuration of its namespace.
// +kubebuilder:object:generate=false
type ConfigRef struct {
	// Kind and Name are those of the configuration.
	Kind, Name string
	// Field is the field of the spec that refers to it, for example oidcConfigRef.
	Field string
}

// ConfigRefs are the references to shared configurations, sorted by field. Each kind has one
// field.
func (s *MCPServer) ConfigRefs() []ConfigRef { return s.Spec.ConfigRefs() }

// ConfigRefs are the references to shared configurations, sorted by field. Each kind has one
// field.
func (p *MCPRemoteProxy) ConfigRefs() []ConfigRef { return p.Spec.ConfigRefs() }

// ConfigRefs are the references to shared configurations, sorted by field.
func (s *MCPServerSpec) ConfigRefs() []ConfigRef {
	return configRefs(&s.ProxyWorkloadSpec, s.ExternalAuthConfigRef, s.ToolConfigRef)
}

// ConfigRefs are the references to shared configurations, sorted by field.
func (s *ProxyWorkloadSpec) ConfigRefs() []ConfigRef { return configRefs(s, nil, nil) }

func configRefs(s *ProxyWorkloadSpec, externalAuth, tools *LocalReference) (refs []ConfigRef) {
	for _, f := range configFields(s, externalAuth, tools) {
		if f.ref != nil {
			refs = append(refs, ConfigRef{Kind: f.kind, Name: f.ref.Name, Field: f.field})
		}
	}
	return refs
}

// configField is a field of a spec that refers to a kind of shared configuration.
type configField struct {
	kind, field string
	ref         *LocalReference
}

func configFields(s *ProxyWorkloadSpec, externalAuth, tools *LocalReference) []configField {
	return []configField{
		{"MCPAuthzConfig", "authzConfigRef", s.AuthzConfigRef},
		{"MCPExternalAuthConfig", "externalAuthConfigRef", externalAuth},
		{"MCPOIDCConfig", "oidcConfigRef", s.OIDCConfigRef.local()},
		{"MCPToolConfig", "toolConfigRef", tools},
	}
}

// ConfigField is the field of a spec that refers to a kind of shared configuration, empty if none does.
func ConfigField(kind string) string {
	for _, f := range configFields(&ProxyWorkloadSpec{}, nil, nil) {
		if f.kind == kind {
			return f.field
		}
	}
	return ""
}

// OnlyConfigRefs is a spec that has of this one the names of the configurations and nothing
// else.
func (s *ProxyWorkloadSpec) OnlyConfigRefs() ProxyWorkloadSpec {
	only := ProxyWorkloadSpec{AuthzConfigRef: s.AuthzConfigRef}
	if ref := s.OIDCConfigRef.local(); ref != nil {
		only.OIDCConfigRef = &OIDCConfigReference{LocalReference: *ref}
	}
	return only
}

func (r *OIDCConfigReference) local() *LocalReference {
	if r == nil {
		return nil
	}
	return &r.LocalReference
}
