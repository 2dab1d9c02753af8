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
// +kubebuilder:printcolumn:name="Interval",type=string,priority=1,JSONPath=`.status.observedRange`
// +kubebuilder:printcolumn:name="RPS",type=integer,JSONPath=`.status.requestsPerSecond`
// +kubebuilder:printcolumn:name="Rejected",type=string,JSONPath=`.status.rejectedShare`
// +kubebuilder:printcolumn:name="Met",type=string,JSONPath=`.status.conditions[?(@.type=="Met")].status`
// +kubebuilder:printcolumn:name="Samples",type=integer,priority=1,JSONPath=`.status.samples`
// +kubebuilder:printcolumn:name="Source",type=string,priority=1,JSONPath=`.status.source`
// +kubebuilder:printcolumn:name="Budget",type=string,priority=1,JSONPath=`.status.errorBudgets[-1:].remaining`
// +kubebuilder:printcolumn:name="Capacity",type=string,priority=1,JSONPath=`.status.capacity.range`
// +kubebuilder:printcolumn:name="Changed",type=date,priority=1,JSONPath=`.status.lastChangeTime`
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
	// targetRef names the RpcService or ReplicationGroup in the same namespace. What
	// requests to a group took is measured by the members that answered them.
	// +required
	TargetRef TargetReference `json:"targetRef,omitzero"`

	// percentile of the latency distribution, from "50" to "99.99".
	// +required
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:XValidation:rule="self.matches('^[5-9][0-9]([.][0-9]{1,2})?$')",message="`percentile` must be from \"50\" to \"99.99\", with at most two digits behind the point: give one such as \"99\" or \"99.9\""
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

	// enforcement says what is done when not every request can meet the
	// objective. Of several objectives that enforce on one service the oldest
	// does; p99 and p99.9 side by side are no conflict while one observes.
	// +optional
	// +kubebuilder:default={mode: Observe}
	Enforcement Enforcement `json:"enforcement,omitempty,omitzero"`
}

// TargetReference names an object in the same namespace.
type TargetReference struct {
	// kind of the target.
	// +optional
	// +kubebuilder:default=RpcService
	// +kubebuilder:validation:Enum=RpcService;ReplicationGroup
	Kind string `json:"kind,omitempty"`

	// name of the target.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
}

// Kinds of a target.
const (
	// TargetService is an RpcService.
	TargetService = "RpcService"
	// TargetGroup is a ReplicationGroup.
	TargetGroup = "ReplicationGroup"
)

// Names says whether the reference is to that object.
func (r TargetReference) Names(kind, name string) bool {
	return r.Name == name && (r.Kind == kind || r.Kind == "" && kind == TargetService)
}

// ServiceLevelObjectiveStatus says what was measured.
type ServiceLevelObjectiveStatus struct {
	// observedGeneration is the generation this status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Accepted, Programmed, Ready, Met and CapacityKnown.
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
	// of the percentile, which allows for requests that are slow in stretches.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedLowMicroseconds *int64 `json:"observedLowMicroseconds,omitempty"`

	// observedHighMicroseconds is its upper end; absent when that end falls on
	// requests that were never answered, and when nothing bounds it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedHighMicroseconds *int64 `json:"observedHighMicroseconds,omitempty"`

	// observedRange is both ends for people: "11.8ms-12.9ms", or ">=11.8ms" where
	// there is no upper end.
	// +optional
	// +kubebuilder:validation:MaxLength=48
	ObservedRange string `json:"observedRange,omitempty"`

	// samples is the number of requests (of protocol TCP: of connections, here and
	// below) the percentile is taken from.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Samples *int64 `json:"samples,omitempty"`

	// samplesRequired is the least number of requests in the window that
	// lets one speak of this percentile: ten of them beyond it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	SamplesRequired int64 `json:"samplesRequired,omitempty"`

	// unanswered is how many of the samples never completed. A connection that was
	// refused is one of them.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Unanswered *int64 `json:"unanswered,omitempty"`

	// requestsPerSecond is the rate of completed requests.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RequestsPerSecond *int64 `json:"requestsPerSecond,omitempty"`

	// rejectedShare is the share of arrived requests that were rejected, as
	// in "3.1%". It is absent of protocol TCP, where nobody rejects.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	RejectedShare string `json:"rejectedShare,omitempty"`

	// windowSeconds is the time the measurement covers; shorter than asked
	// for while the service is young.
	// +optional
	// +kubebuilder:validation:Minimum=0
	WindowSeconds int32 `json:"windowSeconds,omitempty"`

	// source says who measured: Router, from the arrival of a request to the
	// completion reported by the server; Switch, the same in a programmable switch and
	// the routers that stand by for it; Server, from its first packet in to
	// its last packet out; ClientNode, of protocol TCP, from a connection's first
	// SYN to its being established, as the client's node sees it; or None.
	// +optional
	// +kubebuilder:validation:Enum=Router;Switch;Server;ClientNode;None
	Source MeasurementSource `json:"source,omitempty"`

	// lastChangeTime is when the answer to "is it met?" last changed.
	// +optional
	LastChangeTime *metav1.Time `json:"lastChangeTime,omitempty"`

	// errorBudgets say how much of the error budget is left, over the last hour
	// and over the last day. They are absent while a router (or server) cannot
	// be read.
	// +optional
	// +listType=map
	// +listMapKey=windowSeconds
	// +kubebuilder:validation:MaxItems=4
	ErrorBudgets []ErrorBudget `json:"errorBudgets,omitempty"`

	// historySince is from when on the record behind errorBudgets is whole. A
	// window that reaches further back is covered only in part.
	// +optional
	HistorySince *metav1.Time `json:"historySince,omitempty"`

	// errorRecord is what was counted so far. It outlives routers, sidecars and
	// operators; what a router saw in its last 15 seconds may be missing. It is
	// absent, and errorBudgets end with the pods (of protocol TCP, with the
	// operator), when more than 64 pods or nodes measure.
	// +optional
	ErrorRecord *ErrorRecord `json:"errorRecord,omitempty"`

	// measuredBy is the number of routers (or servers, or nodes of clients) that
	// keep that record.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MeasuredBy int32 `json:"measuredBy,omitempty"`

	// capacity is how many requests a second the workers that are ready can
	// take within the objective. It is absent when it is not known; the
	// condition CapacityKnown says why.
	// +optional
	Capacity *CapacityEstimate `json:"capacity,omitempty"`
}

// ErrorBudget compares the requests that missed the objective with those that
// may: one in a hundred for percentile "99".
type ErrorBudget struct {
	// windowSeconds is the length of the window: 3600 or 86400. It may reach up
	// to five minutes further back.
	// +required
	// +kubebuilder:validation:Minimum=1
	WindowSeconds int32 `json:"windowSeconds,omitempty"`

	// requests that were measured: answered, or never answered.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Requests int64 `json:"requests"`

	// violations are those of them that took longer than the objective or were
	// never answered.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Violations int64 `json:"violations"`

	// rejected requests are not among requests: the client was told at once.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Rejected int64 `json:"rejected"`

	// remaining is the share of the budget that is left, as in "87.3%"; it is
	// below zero when more requests missed the objective than may.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Remaining string `json:"remaining,omitempty"`
}

// ErrorRecord is the last day of an objective in numbers: an hour in slices of
// five minutes, the time before in slices of an hour.
type ErrorRecord struct {
	// latencyMicroseconds is the objective that violations were counted by. A
	// record by another one is thrown away.
	// +required
	// +kubebuilder:validation:Minimum=1
	LatencyMicroseconds int32 `json:"latencyMicroseconds,omitempty"`

	// targetName is the service that was counted. A record of another one is
	// thrown away; one that does not say is taken for the target's.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	TargetName string `json:"targetName,omitempty"`

	// beginTime is when counting began.
	// +required
	BeginTime metav1.Time `json:"beginTime,omitempty,omitzero"`

	// slices, the oldest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Slices []ErrorSlice `json:"slices,omitempty"`

	// marks say how far each pod's own record has been counted.
	// +optional
	// +listType=map
	// +listMapKey=pod
	// +kubebuilder:validation:MaxItems=64
	Marks []ErrorMark `json:"marks,omitempty"`
}

// ErrorSlice is what happened between two times.
type ErrorSlice struct {
	// beginTime is its beginning.
	// +required
	BeginTime metav1.Time `json:"beginTime,omitempty,omitzero"`

	// endTime is the time of the last count in it.
	// +required
	EndTime metav1.Time `json:"endTime,omitempty,omitzero"`

	ErrorCounts `json:",inline"`
}

// ErrorMark is how far the record of one pod has been counted.
type ErrorMark struct {
	// pod is its name, or that of a node.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Pod string `json:"pod,omitempty"`

	// startTime is when the pod's record began; a sidecar that was restarted
	// begins another one.
	// +required
	StartTime metav1.MicroTime `json:"startTime,omitempty,omitzero"`

	ErrorCounts `json:",inline"`
}

// ErrorCounts are numbers of requests.
type ErrorCounts struct {
	// requests that were measured: answered, or never answered.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Requests int64 `json:"requests"`

	// violations are those of them that missed the objective.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Violations int64 `json:"violations"`

	// rejected requests are not among requests.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Rejected int64 `json:"rejected"`
}

// CapacityEstimate comes from the service times that the servers measured over
// the last ten minutes and a queueing model of the service's policy.
type CapacityEstimate struct {
	// requestsPerSecond is the middle of what the two models say between which
	// the policy lies.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RequestsPerSecond int64 `json:"requestsPerSecond"`

	// lowRequestsPerSecond is the lower end of the estimate: the worse model,
	// and the lower end of the 95 % confidence interval that the sample of
	// service times allows.
	// +optional
	// +kubebuilder:validation:Minimum=0
	LowRequestsPerSecond int64 `json:"lowRequestsPerSecond"`

	// highRequestsPerSecond is its upper end: the better model, and the upper
	// end of the confidence interval.
	// +optional
	// +kubebuilder:validation:Minimum=0
	HighRequestsPerSecond int64 `json:"highRequestsPerSecond"`

	// range is both ends for people: "9100-9700", below 10 requests a second
	// with three digits: "0.528-0.611".
	// +optional
	// +kubebuilder:validation:MaxLength=48
	Range string `json:"range,omitempty"`

	// workers that were ready.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Workers int32 `json:"workers,omitempty"`

	// serviceSamples is the number of service times the estimate rests on.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ServiceSamples int64 `json:"serviceSamples,omitempty"`

	// meanServiceMicroseconds is their mean.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MeanServiceMicroseconds int64 `json:"meanServiceMicroseconds,omitempty"`

	// serviceVariation is their squared coefficient of variation: "0.00" when
	// all are equal, "1.00" when they are exponential, more when a few are
	// much longer.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	ServiceVariation string `json:"serviceVariation,omitempty"`

	// overheadMicroseconds is what a request takes besides waiting and service,
	// last measured over a window of steady load of at most 70 % with nothing
	// rejected and short queues in the routers. It is absent before; it then
	// counts as nothing.
	// +optional
	// +kubebuilder:validation:Minimum=0
	OverheadMicroseconds *int64 `json:"overheadMicroseconds,omitempty"`
}

// MeasurementSource says who measured.
type MeasurementSource string

const (
	// SourceRouter measures from request in to completion reported.
	SourceRouter MeasurementSource = "Router"
	// SourceSwitch measures the same, in a programmable switch and in the routers that
	// stand by for it.
	SourceSwitch MeasurementSource = "Switch"
	// SourceServer measures from first packet in to last packet out.
	SourceServer MeasurementSource = "Server"
	// SourceClientNode measures, on the nodes of clients, from a connection's first
	// SYN to its being established.
	SourceClientNode MeasurementSource = "ClientNode"
	// SourceNone means that nobody measures.
	SourceNone MeasurementSource = "None"
)
