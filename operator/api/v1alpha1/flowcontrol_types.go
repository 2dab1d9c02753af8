// SPDX-License-Identifier: Apache-2.0

// Flow control by waiting time: how much clients may send.
package v1alpha1

// RpcServiceFlowControl says how long a request may wait at a server. Servers
// measure how long requests take, and tell each client that asks how many it may
// send, or for how long to be silent. Clients that do not ask are not held back.
type RpcServiceFlowControl struct {
	// waitMicroseconds is the longest that requests wait, before they are executed,
	// up to the percentile. It is about waiting alone: what executing takes comes on
	// top.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000000
	WaitMicroseconds int32 `json:"waitMicroseconds,omitempty"`

	// percentile of the requests wait no longer, from "50" to "99.99".
	// +optional
	// +kubebuilder:default="99"
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:XValidation:rule="self.matches('^[5-9][0-9]([.][0-9]{1,2})?$')",message="`percentile` must be from \"50\" to \"99.99\", with at most two digits behind the point: give one such as \"99\" or \"99.9\""
	Percentile string `json:"percentile,omitempty"`

	// model says how the load is found at which the objective is just met. Refined
	// counts the requests that do not wait at all. Paper is the published form, which
	// admits more load, and lets more requests wait for too long than the objective
	// says.
	// +optional
	// +kubebuilder:default=Refined
	Model FlowControlModel `json:"model,omitempty"`
}

// FlowControlModel is how the load is found at which the objective is just met.
// +kubebuilder:validation:Enum=Refined;Paper
type FlowControlModel string

const (
	// FlowControlRefined counts the requests that do not wait at all.
	FlowControlRefined FlowControlModel = "Refined"
	// FlowControlPaper takes all waits for exponential.
	FlowControlPaper FlowControlModel = "Paper"
)

// FlowControlModels are all of them, in the dataplane's order.
var FlowControlModels = []FlowControlModel{FlowControlRefined, FlowControlPaper}

// FlowControlReason is whether flow control works, or why not.
// +kubebuilder:validation:Enum=InForce;NotReported;WaitNotBelowObjective;TooDispersed
type FlowControlReason string

const (
	// FlowControlInForce: servers measure and tell.
	FlowControlInForce FlowControlReason = "InForce"
	// FlowControlNotReported: no server says that it measures. It is not ready, or its
	// program knows no flow control.
	FlowControlNotReported FlowControlReason = "NotReported"
	// FlowControlWaitNotBelowObjective: a ServiceLevelObjective that routers enforce
	// allows less time in all than requests may wait here. Nothing is told to servers.
	FlowControlWaitNotBelowObjective FlowControlReason = "WaitNotBelowObjective"
	// FlowControlTooDispersed: it is in force, but requests take so different times
	// that the load it admits says little.
	FlowControlTooDispersed FlowControlReason = "TooDispersed"
)

// FlowControlStatus is what servers say of flow control.
type FlowControlStatus struct {
	// reason says whether it works.
	// +required
	Reason FlowControlReason `json:"reason,omitempty"`

	// message says it in a sentence.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// replicas that report, and throttling how many of them hold clients back.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas,omitempty"`

	// throttling is how many replicas hold clients back.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Throttling int32 `json:"throttling,omitempty"`

	// loadPercent of a core is offered, and admittedPercent is the load at which the
	// objective is just met: of the replica closest to it, in steps of 5. Absent
	// until servers have seen enough.
	// +optional
	// +kubebuilder:validation:Minimum=0
	LoadPercent *int32 `json:"loadPercent,omitempty"`

	// admittedPercent of a core's time may be taken up.
	// +optional
	// +kubebuilder:validation:Minimum=0
	AdmittedPercent *int32 `json:"admittedPercent,omitempty"`

	// refused requests came though their client had been told to be silent, of all
	// servers that run now, to two significant digits.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Refused int64 `json:"refused,omitempty"`
}
