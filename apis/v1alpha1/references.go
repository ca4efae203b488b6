package v1alpha1

// LocalReference names an object of a known kind in the same namespace.
// +structType=atomic
type LocalReference struct {
	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="name must be the name of an object of this namespace, of lower-case letters, digits, - and .: write for example team-a"
	Name string `json:"name"`
}

// AuthzConfig says which calls are allowed. Inline in an MCPServer it is usually
// owned by an authorization controller, which applies it under its own field
// manager; no manager of Freehold ever states it.
type AuthzConfig struct {
	// policies are Cedar policies (https://docs.cedarpolicy.com), each under a name,
	// so that several teams can own theirs by server-side apply. A call is allowed
	// if at least one policy permits it and none forbids it.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	Policies []AuthzPolicy `json:"policies"`

	// entities are the Cedar entities that the policies refer to, as the JSON text
	// of a Cedar entity list.
	// +optional
	// +kubebuilder:validation:MaxLength=262144
	Entities string `json:"entities,omitempty"`
}

// AuthzPolicy is the text of one or more Cedar policies.
type AuthzPolicy struct {
	// name of the policy. Audit lines and refusals name it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="the name of a policy holds only lower-case letters, digits, - and .: write for example team-a.read"
	Name string `json:"name"`

	// policy is Cedar text. The principal is Client::"SUBJECT"; actions are
	// call_tool, get_prompt, read_resource, list_tools, list_prompts and
	// list_resources; resources are Tool::"NAME", Prompt::"NAME", Resource::"URI"
	// and FeatureType::"tool". Claims of the token are claim_NAME, arguments of the
	// call arg_NAME. For example: permit(principal, action ==
	// Action::"call_tool", resource == Tool::"add");
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16384
	Policy string `json:"policy"`
}
