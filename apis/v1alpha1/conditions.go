package v1alpha1

// Condition types. Ready, Reconciling and Stalled follow kstatus
// (https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md):
// Reconciling and Stalled are present only while true.
const (
	// ConditionReady is True once the content of the spec, and nothing older,
	// is what calls reach.
	ConditionReady = "Ready"
	// ConditionReconciling is True while the operator or the pods still move
	// towards the spec.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True while nothing will change until a person acts.
	ConditionStalled = "Stalled"
	// ConditionAccepted says whether the spec can be rendered. While it is
	// False the last good content keeps running.
	ConditionAccepted = "Accepted"
	// ConditionForeignPodContent is present, and True, while somebody else's
	// container or volume stands in one of our pod templates.
	ConditionForeignPodContent = "ForeignPodContent"
	// ConditionBackendApplied is the runner's: whether the backend's objects
	// carry the runner's content.
	ConditionBackendApplied = "BackendApplied"
)

// Reasons of ConditionReady, and of ConditionReconciling and ConditionStalled,
// which repeat it.
const (
	ReasonReady              = "Ready"
	ReasonProxyStarting      = "ProxyStarting"
	ReasonBackendStarting    = "BackendStarting"
	ReasonProxyUpdating      = "ProxyUpdating"
	ReasonBackendUpdating    = "BackendUpdating"
	ReasonSuspended          = "Suspended"
	ReasonScaledToZero       = "ScaledToZero"
	ReasonNotEnforced        = "NotEnforced"
	ReasonTransportNotServed = "TransportNotServed"
	ReasonImagePull          = "ImagePull"
	ReasonCrashLoop          = "CrashLoop"
	ReasonMissingReference   = "MissingReference"
	ReasonUnschedulable      = "Unschedulable"
	ReasonMustRunAsRoot      = "MustRunAsRoot"
	ReasonPodRefused         = "PodRefused"
	ReasonNameTaken          = "NameTaken"
	ReasonApplyFailed        = "ApplyFailed"
	ReasonDeleting           = "Deleting"
)

// Reasons of the other conditions.
const (
	// ReasonAccepted says that every field of the spec could be rendered.
	ReasonAccepted = "Accepted"
	// ReasonPodTemplateInvalid says that a podTemplate states something that
	// is not the user's to state, or cannot be decoded.
	ReasonPodTemplateInvalid = "PodTemplateInvalid"
	// ReasonForeignContent says that a pod template carries foreign content.
	ReasonForeignContent = "ForeignContent"
	// ReasonApplied and ReasonStandingBack are the runner's.
	ReasonApplied      = "Applied"
	ReasonStandingBack = "StandingBack"
)
