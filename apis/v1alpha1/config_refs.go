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
	add := func(kind, field string, ref *LocalReference) {
		if ref != nil {
			refs = append(refs, ConfigRef{Kind: kind, Name: ref.Name, Field: field})
		}
	}
	add("MCPAuthzConfig", "authzConfigRef", s.AuthzConfigRef)
	add("MCPExternalAuthConfig", "externalAuthConfigRef", externalAuth)
	add("MCPOIDCConfig", "oidcConfigRef", s.OIDCConfigRef.local())
	add("MCPToolConfig", "toolConfigRef", tools)
	return refs
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
