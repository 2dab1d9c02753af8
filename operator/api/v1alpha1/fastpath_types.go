// SPDX-License-Identifier: Apache-2.0

// The fast path: requests decided in the kernel of the router's node.
package v1alpha1

// FastPathMode says whether a program in the kernel may decide requests.
// +kubebuilder:validation:Enum=Off;Auto
type FastPathMode string

const (
	// FastPathOff takes every packet through the router's sockets.
	FastPathOff FastPathMode = "Off"
	// FastPathAuto lets the kernel decide what it can, where it can.
	FastPathAuto FastPathMode = "Auto"
)

// FastPathChooser says whose choice Auto is.
// +kubebuilder:validation:Enum=Service;Cluster
type FastPathChooser string

const (
	// FastPathByService: `spec.router.fastPath` is Auto.
	FastPathByService FastPathChooser = "Service"
	// FastPathByCluster: the field is left out, and the operator was told Auto.
	FastPathByCluster FastPathChooser = "Cluster"
)

// FastPathState says whether requests are decided in the kernel.
// +kubebuilder:validation:Enum=Active;Partial;Inactive
type FastPathState string

const (
	// FastPathActive: at every router that answers.
	FastPathActive FastPathState = "Active"
	// FastPathPartial: at some of them.
	FastPathPartial FastPathState = "Partial"
	// FastPathInactive: at none; every request goes through the sockets.
	FastPathInactive FastPathState = "Inactive"
)

// Reasons of status.fastPath. Besides these it is the router's own word:
// NotLoaded (its kernel or its container does not allow the program),
// TooManyWorkers, AdmissionControl (an objective is enforced), IPv6Worker,
// LegacyWorker, NoWorkers, OwnAddress, Kernel.
const (
	// FastPathReasonActive: every router that answers decides in the kernel.
	FastPathReasonActive = "Active"
	// FastPathReasonRollingOut: a router was started without it.
	FastPathReasonRollingOut = "RollingOut"
	// FastPathReasonNoAnswer: no router has said anything.
	FastPathReasonNoAnswer = "NoAnswer"
	// FastPathReasonPodSecurity: the namespace does not admit pods with the
	// capabilities it needs, so routers are made without.
	FastPathReasonPodSecurity = "PodSecurity"
)

// FastPathStatus says whether requests are decided in the kernel, and why not.
// That single packets take the other way for a moment does not show here but in
// the metrics bobtail_router_fast_path_….
type FastPathStatus struct {
	// state is Active, Partial or Inactive.
	// +required
	State FastPathState `json:"state,omitempty"`

	// chosenBy says whose choice Auto is: the Service's own field, or the
	// Cluster's, which counts where the field is left out.
	// +optional
	ChosenBy FastPathChooser `json:"chosenBy,omitempty"`

	// activeRouters is the number of routers that decide in the kernel.
	// +required
	// +kubebuilder:validation:Minimum=0
	ActiveRouters int32 `json:"activeRouters"`

	// reason is Active, PodSecurity where pods with the capabilities are not
	// admitted, or what the oldest router that does not says.
	// +required
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9]*$`
	Reason string `json:"reason,omitempty"`

	// message says it to people, with the name of that router or what to do.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}
