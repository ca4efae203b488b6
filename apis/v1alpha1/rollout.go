package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RolloutStrategy is how new content of a backend takes the place of earlier content.
// +kubebuilder:validation:Enum=Replace;Successive
type RolloutStrategy string

// The strategies.
const (
	// StrategyReplace replaces pods in place: of one replica none serves meanwhile.
	StrategyReplace RolloutStrategy = "Replace"
	// StrategySuccessive brings the new content up beside the old, which serves until the new one was checked.
	StrategySuccessive RolloutStrategy = "Successive"
)

// RolloutHold is when new content that was checked waits for an approval.
// +kubebuilder:validation:Enum=Never;LostTools;Always
type RolloutHold string

// When a rollout waits.
const (
	// HoldNever lets content that was checked get the calls at once.
	HoldNever RolloutHold = "Never"
	// HoldLostTools waits where a tool is missing in the new content, or asks for an argument that it did not ask for.
	HoldLostTools RolloutHold = "LostTools"
	// HoldAlways waits in any case.
	HoldAlways RolloutHold = "Always"
)

// RolloutSpec says how new content of the backend takes the place of earlier content.
type RolloutSpec struct {
	// strategy is Replace, by which pods are replaced in place, or Successive, by which the
	// new content comes up beside the old, is checked, gets the calls, and the old goes when
	// its sessions have ended: meanwhile there are twice the pods. A backend that does not
	// serve is replaced in place. The default is Replace where pods have a volume that
	// outlives them (volumeClaimTemplates, a PersistentVolumeClaim, a disk), an extended
	// resource or a resource claim, also by podTemplate, and Successive elsewhere.
	// +optional
	Strategy RolloutStrategy `json:"strategy,omitempty"`

	// hold says when content that was checked waits for approved: Never, LostTools (a tool of
	// the content before is missing, or asks for an argument that it did not ask for, or its
	// pods run different images under one tag) or Always. The default is LostTools.
	// +optional
	Hold RolloutHold `json:"hold,omitempty"`

	// approved is the hash of the content that may get the calls though it is held, as
	// status.rollout.target.hash says it; its first ten digits are enough.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9a-f]{10,64})?$')",message="approved must be the hash of content: write 10 to 64 of the digits of status.rollout.target.hash"
	Approved string `json:"approved,omitempty"`

	// paused stops a rollout where it is. What is left of its deadlines stays.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// sessionsEnd is how long sessions may go on at the content before, for example 8h. Then
	// they end, and their clients have to begin anew. With 0s they end at once. The default
	// is 24h.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('720h')",message="write how long sessions may go on, 0s to 720h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	SessionsEnd *metav1.Duration `json:"sessionsEnd,omitempty"`
}

// BackendContent is the content of a backend, where it runs, and how proxies call it.
type BackendContent struct {
	// slot is the place in which the content runs: 1 for the StatefulSet and Service
	// NAME-backend, 2 for NAME-slot2.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2
	Slot int32 `json:"slot"`

	// hash is the SHA-256 of the pod template of the backend's pods, in lower-case
	// hexadecimal digits. Pods carry it in the annotation freehold.dev/backend-hash.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Hash string `json:"hash"`

	// generation is the workload generation under which the content was placed in the
	// slot. Later ones that change the proxy alone leave it.
	// +required
	// +kubebuilder:validation:Minimum=1
	Generation int64 `json:"generation"`

	// port is the port on which the backend's pods listen.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`

	// path is that of the MCP endpoint of the backend.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Path string `json:"path"`

	// transport is how the image speaks MCP.
	// +required
	Transport Transport `json:"transport"`
}

// ActiveBackend is the content that gets the calls.
type ActiveBackend struct {
	BackendContent `json:",inline"`

	// since is when this content was chosen.
	// +required
	Since metav1.Time `json:"since"`
}

// RolloutStatus is a rollout that is under way.
type RolloutStatus struct {
	// id is a hash of the server's uid, the workload generation and the attempt.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id"`

	// target is the content that is to get the calls.
	// +required
	Target BackendContent `json:"target"`

	// from is the content from which the target takes over the calls, until that is gone.
	// +optional
	From *BackendContent `json:"from,omitempty"`

	// steps are those of the rollout, in their order.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Steps []RolloutStep `json:"steps,omitempty"`
}

// RolloutStepState is how far a step is.
// +kubebuilder:validation:Enum=Waiting;Active;Done;Failed
type RolloutStepState string

// The states of a step.
const (
	// StepWaiting means that a step before it is not done.
	StepWaiting RolloutStepState = "Waiting"
	// StepActive means that it is being done.
	StepActive RolloutStepState = "Active"
	// StepDone means that it is done.
	StepDone RolloutStepState = "Done"
	// StepFailed means that the rollout has failed in it.
	StepFailed RolloutStepState = "Failed"
)

// The names of the steps, in their order. The step Check ends with the write that makes the target the active content.
const (
	// StepProxies ends when proxies run that know both contents.
	StepProxies = "Proxies"
	// StepCandidate ends when all pods of the target are ready.
	StepCandidate = "Candidate"
	// StepCheck ends when the target has answered, and nothing holds it.
	StepCheck = "Check"
	// StepAcknowledge ends when every proxy calls the target.
	StepAcknowledge = "Acknowledge"
	// StepDrain ends when the content before has no sessions any more.
	StepDrain = "Drain"
	// StepTeardown ends when nothing is left of it.
	StepTeardown = "Teardown"
)

// Reasons of steps and of outcomes, beside those of conditions that say why pods are not ready, or do not answer.
const (
	// ReasonProxiesNotAvailable says that proxies which know both contents are on their way.
	ReasonProxiesNotAvailable = "ProxiesNotAvailable"
	// ReasonCandidateNotReady says that pods of the target are on their way.
	ReasonCandidateNotReady = "CandidateNotReady"
	// ReasonLostTools, ReasonImagesDiffer and ReasonApprovalRequired say why the target waits for spec.rollout.approved: a
	// tool is missing, its pods run different images under one tag, or spec.rollout.hold is Always.
	ReasonLostTools        = "LostTools"
	ReasonImagesDiffer     = "ImagesDiffer"
	ReasonApprovalRequired = "ApprovalRequired"
	// ReasonNotAcknowledged says that a proxy does not call the target yet, or does not say so.
	ReasonNotAcknowledged = "NotAcknowledged"
	// ReasonSessionsOpen says that the content before may have sessions.
	ReasonSessionsOpen = "SessionsOpen"
	// ReasonProxiesUnreachable says that no proxy answers what it sees of that.
	ReasonProxiesUnreachable = "ProxiesUnreachable"
	// ReasonBackendTerminating says that the content before is on its way out.
	ReasonBackendTerminating = "BackendTerminating"
	// ReasonDeadlineExceeded says that a step was done with at its deadline.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// ReasonContentChanged, ReasonStrategyChanged and ReasonHalted say why a rollout was cancelled: the spec asks for
	// other content, for another strategy, or for no pods. ReasonPlanUnreadable says that status.rollout was none of ours.
	ReasonContentChanged  = "ContentChanged"
	ReasonStrategyChanged = "StrategyChanged"
	ReasonHalted          = "Halted"
	ReasonPlanUnreadable  = "PlanUnreadable"
)

// NeedsApproval reports whether the reason of a step says that it waits for spec.rollout.approved.
func NeedsApproval(reason string) bool {
	return reason == ReasonLostTools || reason == ReasonImagesDiffer || reason == ReasonApprovalRequired
}

// RolloutStep is a step of a rollout.
type RolloutStep struct {
	// name of the step: Proxies, Candidate, Check, Acknowledge, Drain or Teardown.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// state is how far the step is.
	// +required
	State RolloutStepState `json:"state"`

	// reason is why the step is in this state, for programs.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`

	// message is the same for people.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	Message string `json:"message,omitempty"`

	// startedAt is when the step became Active.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`

	// since is from when on the reason has stood. It begins anew after a pause.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// deadline is when the step ends, whatever has happened until then. A step without
	// one waits.
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`

	// remaining is what is left of the deadline while the rollout is paused, or a quota
	// refuses its pods.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	Remaining *metav1.Duration `json:"remaining,omitempty"`
}

// RolloutState is what a rollout came to.
// +kubebuilder:validation:Enum=Succeeded;Failed;Cancelled
type RolloutState string

// What a rollout came to.
const (
	// RolloutSucceeded means that its target gets the calls.
	RolloutSucceeded RolloutState = "Succeeded"
	// RolloutFailed means that the content before gets the calls on.
	RolloutFailed RolloutState = "Failed"
	// RolloutCancelled means that other content was asked for before it was done.
	RolloutCancelled RolloutState = "Cancelled"
)

// RolloutOutcome is what a rollout came to.
type RolloutOutcome struct {
	// id is that of the rollout.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id"`

	// generation is the workload generation of its target.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Generation int64 `json:"generation,omitempty"`

	// attempt counts the rollouts to that generation, from 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Attempt int32 `json:"attempt,omitempty"`

	// hash is that of its target.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Hash string `json:"hash,omitempty"`

	// state is what it came to.
	// +required
	State RolloutState `json:"state"`

	// reason is why, for programs.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`

	// message is the same for people.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	Message string `json:"message,omitempty"`

	// at is when the rollout ended.
	// +required
	At metav1.Time `json:"at"`
}
