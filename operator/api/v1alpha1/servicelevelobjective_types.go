// SPDX-License-Identifier: Apache-2.0

// ServiceLevelObjective is the kind that says how fast is fast enough, and
// shows whether it is.
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServiceLevelObjective is a latency objective on one percentile of one
// service, measured by the dataplane itself.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=servicelevelobjectives,singular=servicelevelobjective,shortName=slo,categories=bobtail
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.spec.targetRef.name`
// +kubebuilder:printcolumn:name="P",type=string,JSONPath=`.spec.percentile`
// +kubebuilder:printcolumn:name="Objective",type=string,JSONPath=`.status.objective`
// +kubebuilder:printcolumn:name="Observed",type=string,JSONPath=`.status.observed`
// +kubebuilder:printcolumn:name="RPS",type=integer,JSONPath=`.status.requestsPerSecond`
// +kubebuilder:printcolumn:name="Rejected",type=string,JSONPath=`.status.rejectedShare`
// +kubebuilder:printcolumn:name="Met",type=string,JSONPath=`.status.conditions[?(@.type=="Met")].status`
// +kubebuilder:printcolumn:name="Samples",type=integer,priority=1,JSONPath=`.status.samples`
// +kubebuilder:printcolumn:name="Source",type=string,priority=1,JSONPath=`.status.source`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Met")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ServiceLevelObjective struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what is wanted.
	// +required
	Spec ServiceLevelObjectiveSpec `json:"spec,omitzero"`

	// status says what was measured. The operator writes it.
	// +optional
	Status ServiceLevelObjectiveStatus `json:"status,omitempty,omitzero"`
}

// ServiceLevelObjectiveList is a list of ServiceLevelObjective.
//
// +kubebuilder:object:root=true
type ServiceLevelObjectiveList struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the objectives.
	Items []ServiceLevelObjective `json:"items"`
}

// ServiceLevelObjectiveSpec says what is wanted.
type ServiceLevelObjectiveSpec struct {
	// targetRef names the service in the same namespace.
	// +required
	TargetRef TargetReference `json:"targetRef,omitzero"`

	// percentile of the latency distribution, from "50" to "99.99".
	// +required
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:Pattern=`^[5-9][0-9](\.[0-9]{1,2})?$`
	Percentile string `json:"percentile,omitempty"`

	// latencyMicroseconds is the objective: the percentile should be at or
	// below it. Requests that were rejected are not in the distribution but
	// shown apart; requests that were never answered count as infinite.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000000
	LatencyMicroseconds int32 `json:"latencyMicroseconds,omitempty"`

	// windowSeconds is the time over which the percentile is taken.
	// +optional
	// +kubebuilder:default=30
	// +kubebuilder:validation:Minimum=5
	// +kubebuilder:validation:Maximum=600
	WindowSeconds int32 `json:"windowSeconds,omitempty"`
}

// TargetReference names an object in the same namespace.
type TargetReference struct {
	// kind of the target.
	// +optional
	// +kubebuilder:default=RpcService
	// +kubebuilder:validation:Enum=RpcService
	Kind string `json:"kind,omitempty"`

	// name of the target.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
}

// ServiceLevelObjectiveStatus says what was measured.
type ServiceLevelObjectiveStatus struct {
	// observedGeneration is the generation this status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Accepted, Programmed, Ready and Met.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// objective is spec.latencyMicroseconds written for people.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Objective string `json:"objective,omitempty"`

	// observed is the measured percentile written for people: "12.3ms", or
	// "+Inf" when so many requests went unanswered that the percentile is
	// one of them.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Observed string `json:"observed,omitempty"`

	// observedMicroseconds is the measured percentile. It is absent when
	// nothing was measured, and when the percentile is infinite.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedMicroseconds *int64 `json:"observedMicroseconds,omitempty"`

	// observedLowMicroseconds is the lower end of the 95 % confidence interval
	// of the percentile, requests taken as independent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedLowMicroseconds *int64 `json:"observedLowMicroseconds,omitempty"`

	// observedHighMicroseconds is its upper end; absent when that end falls on
	// requests that were never answered.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedHighMicroseconds *int64 `json:"observedHighMicroseconds,omitempty"`

	// samples is the number of requests the percentile is taken from.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Samples *int64 `json:"samples,omitempty"`

	// samplesRequired is the least number of requests in the window that
	// lets one speak of this percentile: ten of them beyond it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	SamplesRequired int64 `json:"samplesRequired,omitempty"`

	// unanswered is how many of the samples never completed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Unanswered *int64 `json:"unanswered,omitempty"`

	// requestsPerSecond is the rate of completed requests.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RequestsPerSecond *int64 `json:"requestsPerSecond,omitempty"`

	// rejectedShare is the share of arrived requests that were rejected, as
	// in "3.1%".
	// +optional
	// +kubebuilder:validation:MaxLength=16
	RejectedShare string `json:"rejectedShare,omitempty"`

	// windowSeconds is the time the measurement covers; shorter than asked
	// for while the service is young.
	// +optional
	// +kubebuilder:validation:Minimum=0
	WindowSeconds int32 `json:"windowSeconds,omitempty"`

	// source says who measured: Router, from the arrival of a request to the
	// completion reported by the server; Server, from its first packet in to
	// its last packet out; or None.
	// +optional
	// +kubebuilder:validation:Enum=Router;Server;None
	Source MeasurementSource `json:"source,omitempty"`

	// lastChangeTime is when the answer to "is it met?" last changed.
	// +optional
	LastChangeTime *metav1.Time `json:"lastChangeTime,omitempty"`
}

// MeasurementSource says who measured.
type MeasurementSource string

const (
	// SourceRouter measures from request in to completion reported.
	SourceRouter MeasurementSource = "Router"
	// SourceServer measures from first packet in to last packet out.
	SourceServer MeasurementSource = "Server"
	// SourceNone means that nobody measures.
	SourceNone MeasurementSource = "None"
)
