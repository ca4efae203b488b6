package v1alpha1

// Condition types. Ready, Reconciling and Stalled follow kstatus
// (https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md): Reconciling and Stalled are present
// only while true, or while another manager states them too.
const (
	// ConditionReady is True once the content of the spec, and nothing older, is what calls reach. It is absent while
	// ConditionSuspended is True: kstatus takes an object whose Ready is False for one that has not got there yet.
	ConditionReady = "Ready"
	// ConditionSuspended is present, and True, once a server that is suspended or scaled to zero has stopped.
	ConditionSuspended = "Suspended"
	// ConditionReconciling is True while the operator or the pods still move towards the spec.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True while a person has to act: nothing else can change
	// what is wrong, or there was no progress for spec.progressDeadlineSeconds.
	ConditionStalled = "Stalled"
	// ConditionAvailable is present while a rollout beside what serves has not switched, is held or has failed: whether
	// calls are served, with the content before.
	ConditionAvailable = "Available"
	// ConditionAccepted says whether the spec can be rendered. While it is False the last good content keeps running.
	ConditionAccepted = "Accepted"
	// ConditionForeignPodContent is present, and True, while a container or volume of another manager is in one of our pod
	// templates, or a container of ours has what we do not state.
	ConditionForeignPodContent = "ForeignPodContent"
	// ConditionFieldConflict is present, and True, while another field manager
	// repeatedly overwrites fields that Freehold owns.
	ConditionFieldConflict = "FieldConflict"
	// ConditionFinalizerMissing is present, and True, while the server does not keep Freehold's finalizer.
	ConditionFinalizerMissing = "FinalizerMissing"
	// ConditionUnknownFields is present, and True, while the spec has fields that the
	// operator does not know, because it is older than the CustomResourceDefinition.
	ConditionUnknownFields = "UnknownFields"
	// ConditionRolledOut is that of a configuration: whether every workload that refers to it has its present content.
	ConditionRolledOut = "RolledOut"
	// ConditionBackendExposed is present, and True, while the spec lets others than
	// the proxy connect to the backend of a server with a login or policies.
	ConditionBackendExposed = "BackendExposed"
	// ConditionPublished is present while the spec asks for an HTTPRoute: whether a Gateway leads clients to the proxy.
	ConditionPublished = "Published"
	// ConditionGroupMissing is present, and True, while spec.groupRef names an MCPGroup that does not exist.
	ConditionGroupMissing = "GroupMissing"
	// ConditionPolicyUnmatched is present, and True, while a policy of the spec can match no call.
	ConditionPolicyUnmatched = "PolicyUnmatched"
	// ConditionBackendApplied is the runner's: whether the backend's objects carry the runner's content.
	ConditionBackendApplied = "BackendApplied"
	// ConditionBackendAnswers is the runner's: whether the content of status.runtime.backendHash, which gets the calls,
	// answers MCP.
	ConditionBackendAnswers = "BackendAnswers"
	// ConditionToolsLost is the runner's: present, and True, while that content lists fewer tools than it did.
	ConditionToolsLost = "ToolsLost"
)

// Reasons of ConditionReady, and of ConditionReconciling and ConditionStalled, which repeat it.
const (
	// ReasonReady says that calls reach the content of the spec.
	ReasonReady = "Ready"
	// ReasonStarting says that the first content comes up.
	ReasonStarting = "Starting"
	// ReasonUpdating says that new content replaces older content.
	ReasonUpdating = "Updating"
	// ReasonRolloutPending says that a shared configuration has changed, and that
	// the server serves with its content before until it is its turn.
	ReasonRolloutPending = "RolloutPending"
	// ReasonRolloutHeld says that new content was checked, and waits for spec.rollout.approved or the end of
	// spec.rollout.paused.
	ReasonRolloutHeld = "RolloutHeld"
	// ReasonRolloutFailed says that new content did not come up beside what serves, or did not pass its check.
	ReasonRolloutFailed = "RolloutFailed"
	// ReasonUnavailable says that what has rolled out answers no calls now.
	ReasonUnavailable = "Unavailable"
	// ReasonSuspended says that spec.suspend stops proxy and backend.
	ReasonSuspended = "Suspended"
	// ReasonScaledToZero says that proxy or backend is scaled to zero.
	ReasonScaledToZero = "ScaledToZero"
	// ReasonNotEnforced says that the spec asks for a protection which this
	// version does not enforce, so that calls are refused.
	ReasonNotEnforced = "NotEnforced"
	// ReasonImagePull says that an image cannot be pulled.
	ReasonImagePull = "ImagePull"
	// ReasonCrashLoop says that a container ends again and again.
	ReasonCrashLoop = "CrashLoop"
	// ReasonMissingReference says that a Secret or ConfigMap, or a key in one, is missing.
	ReasonMissingReference = "MissingReference"
	// ReasonVolumeNotMounted says that a volume of a pod cannot be attached or mounted.
	ReasonVolumeNotMounted = "VolumeNotMounted"
	// ReasonPodNotStarted says that kubelet does not take a pod, or does not start it.
	ReasonPodNotStarted = "PodNotStarted"
	// ReasonProbeFailed says that kubelet restarts a container because of its livenessProbe or startupProbe.
	ReasonProbeFailed = "ProbeFailed"
	// ReasonEvicted says that kubelet ends pods that take more than they may, or more than their node has.
	ReasonEvicted = "Evicted"
	// ReasonUnschedulable says that no node takes a pod.
	ReasonUnschedulable = "Unschedulable"
	// ReasonSchedulingGated says that a pod has scheduling gates, and ReasonReadinessGatesNotReady
	// that one whose containers are ready waits for a condition that somebody else sets.
	ReasonSchedulingGated        = "SchedulingGated"
	ReasonReadinessGatesNotReady = "ReadinessGatesNotReady"
	// ReasonPaused says that somebody holds the rollout of the proxy or the backend.
	ReasonPaused = "Paused"
	// ReasonMustRunAsRoot says that an image wants to run as root.
	ReasonMustRunAsRoot = "MustRunAsRoot"
	// ReasonPodRefused says that the API server refuses to create a pod.
	ReasonPodRefused = "PodRefused"
	// ReasonNameTaken says that an object which is not ours has the name of one of the server's objects.
	ReasonNameTaken = "NameTaken"
	// ReasonNotAdoptable says that such an object was handed over, and cannot become the server's.
	ReasonNotAdoptable = "NotAdoptable"
	// ReasonUnclaimedGeneration says that a child carries a workload generation that no claim of the server made.
	ReasonUnclaimedGeneration = "UnclaimedGeneration"
	// ReasonApplyFailed says that the API server refused a write of ours.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonNotAnswering and ReasonNotMCP are the runner's, of ConditionBackendAnswers as well: the backend does not
	// answer; it answers, but not MCP.
	ReasonNotAnswering = "NotAnswering"
	ReasonNotMCP       = "NotMCP"
	// ReasonAddressNotAllowed, ReasonNotTrusted and ReasonCredentialsRefused are the runner's too, of a server that runs
	// elsewhere: its address is none that the proxy may connect to; its certificate is not trusted; it refuses what the
	// proxy presents.
	ReasonAddressNotAllowed  = "AddressNotAllowed"
	ReasonNotTrusted         = "NotTrusted"
	ReasonCredentialsRefused = "CredentialsRefused"
	// ReasonDeleting says that the server is being deleted.
	ReasonDeleting = "Deleting"
)

// ReasonValid says of ConditionReady of a configuration that workloads can run with it.
const ReasonValid = "Valid"

// Reasons of the other conditions.
const (
	// ReasonAccepted says that every field of the spec could be rendered.
	ReasonAccepted = "Accepted"
	// ReasonSpecInvalid says that the spec, or a podTemplate in it, states something that no pod or Service can have, or
	// that is not the user's to state.
	ReasonSpecInvalid = "SpecInvalid"
	// ReasonConfigNotFound says that a configuration to which the spec refers does not exist, ReasonConfigDeleting that it
	// is being deleted and the server does not run with it yet, and ReasonConfigInvalid that nothing can be enforced by
	// it. The message names its kind.
	ReasonConfigNotFound = "ConfigNotFound"
	ReasonConfigDeleting = "ConfigDeleting"
	ReasonConfigInvalid  = "ConfigInvalid"
	// ReasonGroupNotFound says that there is no MCPGroup of the name in spec.groupRef.
	ReasonGroupNotFound = "GroupNotFound"
	// ReasonForeignContent says that a pod template carries foreign content.
	ReasonForeignContent = "ForeignContent"
	// ReasonFieldConflict says that fields were overwritten more often than they are repaired at once.
	ReasonFieldConflict = "FieldConflict"
	// ReasonBackendIngressAny says that spec.network.backendIngress is Any.
	ReasonBackendIngressAny = "BackendIngressAny"
	// ReasonRouteTaken, ReasonHTTPRouteNotServed, ReasonRouteNotTaken and ReasonRouteRefused are of ConditionPublished:
	// all parents take the HTTPRoute; the cluster has no such kind; a parent has not answered yet; one refuses it.
	ReasonRouteTaken         = "RouteTaken"
	ReasonHTTPRouteNotServed = "HTTPRouteNotServed"
	ReasonRouteNotTaken      = "RouteNotTaken"
	ReasonRouteRefused       = "RouteRefused"
	// ReasonUnknownWords says that the scope of a policy names an action or a type that no call has.
	ReasonUnknownWords = "UnknownWords"
	// ReasonLaterRelease says that the CustomResourceDefinition is of a later release than the operator.
	ReasonLaterRelease = "LaterRelease"
	// ReasonHeldByOthers says that a condition which is present only while True
	// stays, False, because another manager states it too.
	ReasonHeldByOthers = "HeldByOthers"
	// ReasonApplied, ReasonStandingBack and ReasonBackendBlocked are the runner's: the backend carries its content; newer
	// content stands; an object stands in its place of which nobody can tell whose content it is.
	ReasonApplied        = "Applied"
	ReasonStandingBack   = "StandingBack"
	ReasonBackendBlocked = "BackendBlocked"
	// ReasonAnswers and ReasonNotAsked are the runner's: MCP has answered; the
	// backend does not run this content yet, or was not asked.
	ReasonAnswers  = "Answers"
	ReasonNotAsked = "NotAsked"
	// ReasonRolledOut, ReasonRollingOut and ReasonHeld are of ConditionRolledOut: every workload has the content; they
	// take it a few at a time; one that took it has failed, and holds the others.
	ReasonRolledOut  = "RolledOut"
	ReasonRollingOut = "RollingOut"
	ReasonHeld       = "Held"
)
