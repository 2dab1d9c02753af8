// SPDX-License-Identifier: Apache-2.0

// What is done when an objective cannot be met for every request.
package v1alpha1

// Enforcement says what routers do with requests when the load exceeds what
// the workers can take within the objective.
//
// +kubebuilder:validation:XValidation:rule="self.mode != 'Observe' || (!has(self.controller) && !has(self.classes))",message="`controller` and `classes` may not be specified when `mode` is Observe: nothing is refused"
type Enforcement struct {
	// mode is Observe (measure alone), Reject (refuse so many requests at once
	// that the others meet the objective; clients get DROP and may go
	// elsewhere), or Degrade (mark instead of refusing: servers that read the
	// mark answer at lower quality).
	// +optional
	// +kubebuilder:default=Observe
	// +kubebuilder:validation:Enum=Observe;Reject;Degrade
	Mode EnforcementMode `json:"mode,omitempty"`

	// controller decides how many: Track follows the percentile itself, AIAD is
	// the published loop, which goes up and down by 0.01 every 20 ms. Track when
	// not specified.
	// +optional
	// +kubebuilder:validation:Enum=Track;AIAD
	Controller AdmissionController `json:"controller,omitempty"`

	// classes say which requests may be refused. Those not named keep their
	// default: Sticky and ReplicatedWrite are Deny, all others Allow.
	// +optional
	// +listType=map
	// +listMapKey=policy
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Classes []TrafficClass `json:"classes,omitempty"`
}

// TrafficClass is a class of requests, and whether it may be refused.
type TrafficClass struct {
	// policy names the class: a policy of the request header, or a priority that
	// an unrestricted request asks for. Unrestricted is refused first, then
	// ReplicatedRead, then Priority4 to Priority7, each up to 99 % before the
	// next one is touched.
	// +required
	// +kubebuilder:validation:Enum=Unrestricted;Sticky;ReplicatedWrite;ReplicatedRead;Priority4;Priority5;Priority6;Priority7
	Policy TrafficPolicy `json:"policy,omitempty"`

	// droppable says whether requests of the class may be refused or marked:
	// Allow or Deny. With Deny the objective may be missed for the sake of this
	// class.
	// +required
	// +kubebuilder:validation:Enum=Allow;Deny
	Droppable Droppable `json:"droppable,omitempty"`
}

// EnforcementMode says what happens to requests beyond the capacity.
type EnforcementMode string

const (
	// EnforcementObserve measures alone.
	EnforcementObserve EnforcementMode = "Observe"
	// EnforcementReject refuses requests.
	EnforcementReject EnforcementMode = "Reject"
	// EnforcementDegrade marks requests.
	EnforcementDegrade EnforcementMode = "Degrade"
)

// EnforcementModes are all of them, in the dataplane's order.
var EnforcementModes = []EnforcementMode{EnforcementObserve, EnforcementReject, EnforcementDegrade}

// AdmissionController decides how many requests are refused.
type AdmissionController string

const (
	// ControllerTrack follows the percentile.
	ControllerTrack AdmissionController = "Track"
	// ControllerAIAD is the published loop.
	ControllerAIAD AdmissionController = "AIAD"
)

// AdmissionControllers are all of them, in the dataplane's order.
var AdmissionControllers = []AdmissionController{ControllerTrack, ControllerAIAD}

// TrafficPolicy names a class of requests.
type TrafficPolicy string

// TrafficPolicies are all classes; the index is the class on the wire.
var TrafficPolicies = []TrafficPolicy{
	"Unrestricted", "Sticky", "ReplicatedWrite", "ReplicatedRead", "Priority4", "Priority5", "Priority6", "Priority7",
}

// Droppable says whether requests of a class may be refused.
type Droppable string

const (
	// DroppableAllow allows it.
	DroppableAllow Droppable = "Allow"
	// DroppableDeny forbids it.
	DroppableDeny Droppable = "Deny"
)
