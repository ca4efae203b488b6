package v1alpha1

// LocalReference names an object in the same namespace.
// +structType=atomic
type LocalReference struct {
	// name is the name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="name must be the name of an object of this namespace, of lower-case letters, digits, - and .: write for example team-a"
	Name string `json:"name"`
}

// CABundleReference names the key of a ConfigMap in the same namespace that holds
// certificates.
// +structType=atomic
type CABundleReference struct {
	LocalReference `json:",inline"`

	// key of the ConfigMap. Its value is one or more certificates in PEM.
	// +optional
	// +default="ca.crt"
	// +kubebuilder:default="ca.crt"
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="key must be a key of the ConfigMap, of letters, digits, -, _ and .: write for example ca.crt"
	Key string `json:"key,omitempty"`
}

// SecretKeyReference names a key of a Secret in the same namespace.
// +structType=atomic
type SecretKeyReference struct {
	LocalReference `json:",inline"`

	// key of the Secret.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="key must be a key of the Secret, of letters, digits, -, _ and .: write for example client-secret"
	Key string `json:"key"`
}

// AuthzConfig says which calls are allowed. An authorization controller may own
// it by server-side apply under its own field manager; Freehold never writes it.
type AuthzConfig struct {
	// policies are Cedar policies (https://docs.cedarpolicy.com), each under a
	// name, so that several teams can each own theirs by server-side apply. A
	// call is allowed if at least one policy permits it and none forbids it.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	Policies []AuthzPolicy `json:"policies"`

	// entities are Cedar entities to which the policies refer, as the JSON text
	// of a Cedar entity list, at most 256 KiB.
	// +optional
	// +kubebuilder:validation:MaxLength=262144
	Entities string `json:"entities,omitempty"`
}

// AuthzPolicy is the text of one or more Cedar policies.
type AuthzPolicy struct {
	// name is the name of the policy. Refusals and the proxy's audit log show it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="the name of a policy holds only lower-case letters, digits, - and .: write for example team-a.read"
	Name string `json:"name"`

	// policy is the text of one or more Cedar policies, for example
	// permit(principal, action == Action::"call_tool", resource == Tool::"add");
	//
	// The principal is Client::"NAME" in Group::"NAME", taken from the token that
	// spec.oidcConfigRef requires; without it the principal is Client::"anonymous". Actions are call_tool, get_prompt,
	// read_resource, list_tools, list_prompts and list_resources. Resources are Tool::"NAME", Prompt::"NAME",
	// Resource::"URI" and FeatureType::"tool". Arguments of the call are arg_NAME.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16384
	Policy string `json:"policy"`
}
