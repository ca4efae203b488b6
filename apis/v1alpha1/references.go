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

// AuthzConfig says inline which calls are allowed. It is usually owned by an
// authorization controller, which applies it under its own field manager; no
// manager of Freehold ever states it.
type AuthzConfig struct {
	// policies are Cedar policies; a call is allowed if at least one permits
	// it and none forbids it.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=16384
	Policies []string `json:"policies"`

	// entities are the Cedar entities the policies refer to, as the JSON text
	// of a Cedar entity list.
	// +optional
	// +kubebuilder:validation:MaxLength=262144
	Entities string `json:"entities,omitempty"`
}
