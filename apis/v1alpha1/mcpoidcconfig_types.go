package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MCPOIDCConfigSpec says whose tokens are accepted. What a token must be for, and
// which scopes it needs, each server says in spec.oidcConfigRef.
// +kubebuilder:validation:XValidation:rule="has(self.oidc) != has(self.kubernetes)",message="exactly one of oidc and kubernetes must be set: write oidc for the tokens of a provider, kubernetes for those of the cluster's service accounts"
type MCPOIDCConfigSpec struct {
	// oidc accepts the tokens of an OpenID Connect provider.
	// +optional
	OIDC *OIDCIssuer `json:"oidc,omitempty"`

	// kubernetes accepts the tokens of service accounts of this cluster.
	// +optional
	Kubernetes *KubernetesIssuer `json:"kubernetes,omitempty"`

	// clockSkewSeconds is how many seconds the issuer's clock may differ from the
	// proxy's, from 0 to 300.
	// +optional
	// +default=10
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=300
	// +kubebuilder:validation:XValidation:rule="self >= 0 && self <= 300",message="write how many seconds clocks may differ, 0 to 300"
	ClockSkewSeconds *int32 `json:"clockSkewSeconds,omitempty"`
}

// OIDCIssuer is an OpenID Connect provider.
// +kubebuilder:validation:XValidation:rule="(has(self.allowInsecureIssuer) && self.allowInsecureIssuer) || (self.issuer.startsWith('https://') && (!has(self.jwksURL) || self.jwksURL.startsWith('https://')))",message="issuer and jwksURL must be https: write https://, or set allowInsecureIssuer to true for a test"
// +kubebuilder:validation:XValidation:rule="!has(self.introspection) || self.introspection.url.startsWith('https://') || (has(self.allowInsecureIssuer) && self.allowInsecureIssuer)",message="introspection.url must be https: write https://, or set allowInsecureIssuer to true for a test"
type OIDCIssuer struct {
	// issuer is the URL of the provider, exactly as its tokens have it in the claim
	// iss. Without jwksURL the proxy reads the provider's discovery document at
	// ISSUER/.well-known/openid-configuration.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHost() != '' && !self.contains('?') && !self.contains('#')",message="issuer must be an absolute URL without query and fragment: write for example https://login.example.com/realms/team"
	Issuer string `json:"issuer"`

	// jwksURL is the URL of the provider's keys, for a provider without a discovery
	// document.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHost() != ''",message="jwksURL must be an absolute URL: write for example https://login.example.com/keys"
	JWKSURL string `json:"jwksURL,omitempty"`

	// introspection has the proxy ask the provider about tokens (RFC 7662): about each
	// token that is not a JWT, and about every token if neither jwksURL nor the
	// discovery document names keys. If it is not set, every token must be a JWT.
	// +optional
	Introspection *Introspection `json:"introspection,omitempty"`

	// algorithms are the signature algorithms that are accepted. All of them are
	// asymmetric.
	// +optional
	// +listType=set
	// +default=["RS256","ES256"]
	// +kubebuilder:default={"RS256","ES256"}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Enum=RS256;RS384;RS512;ES256;ES384;ES512;PS256;PS384;PS512;EdDSA
	Algorithms []string `json:"algorithms,omitempty"`

	// usernameClaim is the claim that names the caller. In policies the caller is
	// Client::"VALUE".
	// +optional
	// +default="sub"
	// +kubebuilder:default="sub"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	UsernameClaim string `json:"usernameClaim,omitempty"`

	// groupsClaim is the claim that lists the caller's groups: a list of strings, or one
	// string. In policies a group is Group::"NAME". If it is not set, callers have no
	// groups.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	GroupsClaim string `json:"groupsClaim,omitempty"`

	// caBundleRef names a ConfigMap with the CA certificates that the provider's
	// certificate is checked against. If it is not set, these are the public CAs in the
	// runner's image. Proxies mount the ConfigMap, follow its changes without a restart,
	// and do not start while it is missing. The operator does not read it.
	// +optional
	CABundleRef *CABundleReference `json:"caBundleRef,omitempty"`

	// allowInsecureIssuer lets issuer, jwksURL and introspection.url be http. Whoever is between proxy
	// and issuer can then make tokens: set it for a test only.
	// +optional
	AllowInsecureIssuer bool `json:"allowInsecureIssuer,omitempty"`
}

// Introspection is where a provider tells what a token is, and as whom it is asked.
type Introspection struct {
	// url of the provider's introspection endpoint.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHost() != ''",message="url must be an absolute URL: write for example https://login.example.com/introspect"
	URL string `json:"url"`

	// clientID is the client ID with which the proxy authenticates to the provider.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	ClientID string `json:"clientID"`

	// clientSecretRef names the Secret with the client secret. Proxies mount it, follow
	// its changes without a restart, and do not start while it is missing. The operator
	// does not read it.
	// +required
	ClientSecretRef SecretKeyReference `json:"clientSecretRef"`
}

// KubernetesIssuer is the cluster's own issuer of service account tokens.
type KubernetesIssuer struct {
	// serviceAccounts are the service accounts whose tokens are accepted. In policies
	// one is Client::"system:serviceaccount:NAMESPACE:NAME".
	// +required
	// +listType=map
	// +listMapKey=namespace
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	ServiceAccounts []ServiceAccountReference `json:"serviceAccounts"`
}

// ServiceAccountReference names a service account of any namespace.
type ServiceAccountReference struct {
	// namespace of the service account.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="namespace must be the name of a namespace: write for example team-a"
	Namespace string `json:"namespace"`

	// name of the service account.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="name must be the name of a ServiceAccount, of lower-case letters, digits, - and .: write for example agent"
	Name string `json:"name"`
}

// OIDCConfigReference names the MCPOIDCConfig that says whose tokens a server
// accepts, and what a token must be for.
// +structType=atomic
type OIDCConfigReference struct {
	LocalReference `json:",inline"`

	// audiences are the accepted values of the claim aud: a token must have at least
	// one of them. The default is the URL that clients call: spec.proxy.publicURL
	// followed by spec.path, or without publicURL status.url.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=1024
	Audiences []string `json:"audiences,omitempty"`

	// scopes are the scopes that a token must have, all of them. The proxy names them
	// to clients that have to log in.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.all(s, s.matches('^[!#-[\\\\]-~]+$'))",message="a scope holds no spaces, quotes or backslashes: write each as an item of its own, for example tools:call"
	Scopes []string `json:"scopes,omitempty"`
}

// MCPOIDCConfig says who may call the servers that refer to it, by the tokens that
// their proxies accept.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=mcpoidcconfigs,singular=mcpoidcconfig,shortName=mcpoidc,categories=freehold,scope=Namespaced
// +kubebuilder:printcolumn:name="Issuer",type=string,JSONPath=`.spec.oidc.issuer`
// +kubebuilder:printcolumn:name="Workloads",type=integer,JSONPath=`.status.workloads`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MCPOIDCConfig struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says whose tokens are accepted.
	// +required
	Spec MCPOIDCConfigSpec `json:"spec"`

	// status is the observed state.
	// +optional
	// +kubebuilder:default={observedGeneration:-1}
	Status ConfigStatus `json:"status,omitempty"`
}

// MCPOIDCConfigList is a list of MCPOIDCConfigs.
// +kubebuilder:object:root=true
type MCPOIDCConfigList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items of the list.
	Items []MCPOIDCConfig `json:"items"`
}
