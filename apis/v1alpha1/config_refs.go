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

// GetConfigSpec is the spec.
func (g *MCPGroup) GetConfigSpec() any { return &g.Spec }

// GetConfigStatus is the status.
func (g *MCPGroup) GetConfigStatus() *ConfigStatus { return &g.Status.ConfigStatus }

// ConfigRef is a reference of a workload to a shared configuration of its namespace.
// +kubebuilder:object:generate=false
type ConfigRef struct {
	// Kind and Name are those of the configuration.
	Kind, Name string
	// Field is the field of the spec that refers to it, for example oidcConfigRef.
	Field string
}

// ConfigRefs are the references to shared configurations, sorted by field. Each kind has one field.
func (s *MCPServer) ConfigRefs() []ConfigRef { return s.Spec.ConfigRefs() }

// ConfigRefs are the references to shared configurations, sorted by field. Each kind has one field.
func (p *MCPRemoteProxy) ConfigRefs() []ConfigRef { return p.Spec.ConfigRefs() }

// ConfigRefs are the references to shared configurations, sorted by field.
func (s *MCPServerSpec) ConfigRefs() (refs []ConfigRef) {
	for _, f := range configFields {
		if ref := f.get(s); ref != nil {
			refs = append(refs, ConfigRef{Kind: f.kind, Name: ref.Name, Field: f.field})
		}
	}
	return refs
}

// ConfigRefs are the references to shared configurations, sorted by field.
func (s *ProxyWorkloadSpec) ConfigRefs() []ConfigRef {
	return (&MCPServerSpec{ProxyWorkloadSpec: *s}).ConfigRefs()
}

// configField is a field of a spec that refers to a kind of shared configuration. It is no part of the API.
// +k8s:openapi-gen=false
type configField struct {
	kind, field string
	get         func(*MCPServerSpec) *LocalReference
	set         func(*MCPServerSpec, *LocalReference)
}

// configFields has a line for each kind, sorted by field.
var configFields = []configField{
	{
		"MCPAuthzConfig", "authzConfigRef", func(s *MCPServerSpec) *LocalReference { return s.AuthzConfigRef },
		func(s *MCPServerSpec, ref *LocalReference) { s.AuthzConfigRef = ref },
	},
	{
		"MCPExternalAuthConfig", "externalAuthConfigRef",
		func(s *MCPServerSpec) *LocalReference { return s.ExternalAuthConfigRef },
		func(s *MCPServerSpec, ref *LocalReference) { s.ExternalAuthConfigRef = ref },
	},
	{
		"MCPGroup", "groupRef", func(s *MCPServerSpec) *LocalReference { return s.GroupRef },
		func(s *MCPServerSpec, ref *LocalReference) { s.GroupRef = ref },
	},
	{
		"MCPOIDCConfig", "oidcConfigRef", func(s *MCPServerSpec) *LocalReference { return s.OIDCConfigRef.local() },
		func(s *MCPServerSpec, ref *LocalReference) {
			s.OIDCConfigRef = &OIDCConfigReference{LocalReference: *ref}
		},
	},
	{
		"MCPToolConfig", "toolConfigRef", func(s *MCPServerSpec) *LocalReference { return s.ToolConfigRef },
		func(s *MCPServerSpec, ref *LocalReference) { s.ToolConfigRef = ref },
	},
}

// ConfigField is the field of a spec that refers to a kind of shared configuration, empty if none does.
func ConfigField(kind string) string {
	for _, f := range configFields {
		if f.kind == kind {
			return f.field
		}
	}
	return ""
}

// OnlyConfigRefs is a spec that has of this one the names of the configurations and nothing else.
func (s *MCPServerSpec) OnlyConfigRefs() (only MCPServerSpec) {
	for _, f := range configFields {
		if ref := f.get(s); ref != nil {
			f.set(&only, ref)
		}
	}
	return only
}

// OnlyConfigRefs is a spec that has of this one the names of the configurations and nothing else.
func (s *ProxyWorkloadSpec) OnlyConfigRefs() ProxyWorkloadSpec {
	return (&MCPServerSpec{ProxyWorkloadSpec: *s}).OnlyConfigRefs().ProxyWorkloadSpec
}

func (r *OIDCConfigReference) local() *LocalReference {
	if r == nil {
		return nil
	}
	return &r.LocalReference
}
