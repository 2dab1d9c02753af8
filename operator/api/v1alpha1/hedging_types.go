// SPDX-License-Identifier: Apache-2.0

// Hedging: a request that may be stuck is sent once more, to another worker.
package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RpcServiceHedging says when a router sends a request a second time, to
// another worker. The client takes the first answer. Only requests that any
// worker may execute and that fit in one packet are sent twice; with a mode
// other than Off, all of these are declared to be safe to execute twice.
//
// +kubebuilder:validation:XValidation:rule="self.mode == 'Delayed' || !has(self.delayPercentile)",message="`delayPercentile` may be specified only when `mode` is Delayed: the other modes do not wait"
// +kubebuilder:validation:XValidation:rule="self.mode != 'Auto' || !has(self.probePerMillion) || self.probePerMillion > 0",message="`probePerMillion` must be above 0 when `mode` is Auto: it decides from what probes measure"
// +kubebuilder:validation:XValidation:rule="!has(self.cancellation) || self.cancellation == 'None' || (self.mode != 'Off' && self.mode != 'Probe')",message="`cancellation` must be None when `mode` is Off or Probe: these send no copies that could be taken back"
type RpcServiceHedging struct {
	// mode says when a hedged request is sent. LoadAware: at once, where another
	// worker is idle. Delayed: after a percentile of the measured response
	// time. Probe: only for the few requests that measure how much executions
	// of the same request differ. Auto: as LoadAware, while both what probes
	// measure and a model of the service say that it pays, else as Probe;
	// status.hedging says which, and why.
	// +required
	Mode HedgingMode `json:"mode,omitempty"`

	// busyPercent is the share of workers that may be busy when a copy is
	// sent. It bounds what copies cost the requests that come after them.
	// +optional
	// +kubebuilder:default=50
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	BusyPercent int32 `json:"busyPercent,omitempty"`

	// budgetPercent is the most copies, as a share of requests.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	BudgetPercent int32 `json:"budgetPercent,omitempty"`

	// delayPercentile is the percentile of the response time after which mode
	// Delayed sends a copy; 95 when absent.
	// +optional
	// +kubebuilder:validation:Minimum=50
	// +kubebuilder:validation:Maximum=99
	DelayPercentile *int32 `json:"delayPercentile,omitempty"`

	// cancellation says when a copy is taken back, so that its worker is free
	// again. None: never, both are executed to their end. Answered: when the
	// other one is answered. Preemptive: also when a request arrives and no
	// worker is idle; that request gets the worker of the copy that began
	// last. Servers that know no cancellation, and handlers that go on,
	// execute both. Probes are never taken back.
	// +optional
	// +kubebuilder:default=None
	Cancellation HedgingCancellation `json:"cancellation,omitempty"`

	// probePerMillion requests of a million are copied at once, where another
	// worker is idle, to compare the two executions: status.jitter says what
	// comes of it. 0 turns probes off.
	// +optional
	// +kubebuilder:default=1000
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	ProbePerMillion *int32 `json:"probePerMillion,omitempty"`
}

// HedgingMode says when a hedged request is sent.
// +kubebuilder:validation:Enum=Off;LoadAware;Delayed;Probe;Auto
type HedgingMode string

const (
	// HedgingOff sends every request once.
	HedgingOff HedgingMode = "Off"
	// HedgingLoadAware sends a copy where another worker is idle.
	HedgingLoadAware HedgingMode = "LoadAware"
	// HedgingDelayed sends a copy after a percentile of the response time.
	HedgingDelayed HedgingMode = "Delayed"
	// HedgingProbe sends only what measures jitter.
	HedgingProbe HedgingMode = "Probe"
	// HedgingAuto is LoadAware while it pays, else Probe.
	HedgingAuto HedgingMode = "Auto"
)

// HedgingModes are all of them; those of the dataplane stand first, in its order.
var HedgingModes = []HedgingMode{HedgingOff, HedgingLoadAware, HedgingDelayed, HedgingProbe, HedgingAuto}

// HedgingCancellation says when a copy is taken back.
// +kubebuilder:validation:Enum=None;Answered;Preemptive
type HedgingCancellation string

const (
	// CancellationNone lets both copies run to their end.
	CancellationNone HedgingCancellation = "None"
	// CancellationAnswered takes the other copy back when one is answered.
	CancellationAnswered HedgingCancellation = "Answered"
	// CancellationPreemptive also makes room for requests that find no idle worker.
	CancellationPreemptive HedgingCancellation = "Preemptive"
)

// HedgingCancellations are all of them, in the dataplane's order.
var HedgingCancellations = []HedgingCancellation{CancellationNone, CancellationAnswered, CancellationPreemptive}

// HedgingReason is why hedged requests are sent or not.
// +kubebuilder:validation:Enum=AsSpecified;Pays;TooFewProbes;NoHiccups;TooFewCancels;Overloaded;MedianWouldRise;TailTooLittle;TailRose
type HedgingReason string

const (
	// HedgingAsSpecified: the specification names the mode.
	HedgingAsSpecified HedgingReason = "AsSpecified"
	// HedgingPays: the model, with the jitter and the load that were measured,
	// says that the tail gets shorter and the median stays.
	HedgingPays HedgingReason = "Pays"
	// HedgingTooFewProbes: probes have not measured enough yet.
	HedgingTooFewProbes HedgingReason = "TooFewProbes"
	// HedgingNoHiccups: executions of the same request take about the same
	// time, so that a second one gains nothing.
	HedgingNoHiccups HedgingReason = "NoHiccups"
	// HedgingTooFewCancels: hedged requests pay if servers let go of those that
	// are taken back, and nobody knows yet whether they do. Routers send one
	// copy in a hundred requests, to see.
	HedgingTooFewCancels HedgingReason = "TooFewCancels"
	// HedgingOverloaded: workers are busy all the time without any copy.
	HedgingOverloaded HedgingReason = "Overloaded"
	// HedgingMedianRises: typical requests would wait behind copies.
	HedgingMedianRises HedgingReason = "MedianWouldRise"
	// HedgingTailTooLittle: the tail would not get shorter by a tenth.
	HedgingTailTooLittle HedgingReason = "TailTooLittle"
	// HedgingTailRose: the model says that copies pay, but once they were sent
	// the percentile that the routers measured rose. None are sent for a while.
	HedgingTailRose HedgingReason = "TailRose"
)

// HedgingStatus is what routers do about hedged requests, and why.
type HedgingStatus struct {
	// mode in effect. Of mode Auto it is LoadAware or Probe.
	// +required
	Mode HedgingMode `json:"mode,omitempty"`

	// reason for that mode.
	// +required
	Reason HedgingReason `json:"reason,omitempty"`

	// message says it with the numbers it rests on.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// cancellation of the copies that are sent, probes excepted; of mode Auto
	// also of those that it judged and does not send.
	// +optional
	Cancellation HedgingCancellation `json:"cancellation,omitempty"`

	// cancels says what became of copies that could be taken back.
	// +optional
	Cancels *HedgingCancels `json:"cancels,omitempty"`

	// decidedTime is when mode Auto last asked.
	// +optional
	DecidedTime *metav1.Time `json:"decidedTime,omitempty"`

	// loadPercent of the workers was taken up by first copies then.
	// +optional
	// +kubebuilder:validation:Minimum=0
	LoadPercent *int32 `json:"loadPercent,omitempty"`

	// tail is what routers measured before mode Auto switched copies on, and since.
	// +optional
	Tail *HedgingTail `json:"tail,omitempty"`
}

// HedgingTail compares a percentile of the response time without copies and with
// them, so that mode Auto goes back if it rose.
type HedgingTail struct {
	// percentile that is compared: the highest of the service's objectives, 99 at least.
	// +kubebuilder:validation:MaxLength=8
	// +required
	Percentile string `json:"percentile,omitempty"`

	// changedTime is when copies were last switched on or off; absent while they
	// never were.
	// +optional
	ChangedTime *metav1.Time `json:"changedTime,omitempty"`

	// without copies: the last minute before they were switched on.
	// +optional
	Without *HedgingTailMeasured `json:"without,omitempty"`

	// with copies: the last minute in which they were on.
	// +optional
	With *HedgingTailMeasured `json:"with,omitempty"`

	// risenMinutes in a row the percentile with copies was clearly above that
	// without, at no higher load.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RisenMinutes int32 `json:"risenMinutes,omitempty"`

	// heldUntil is when copies may be switched on again after the percentile rose.
	// +optional
	HeldUntil *metav1.Time `json:"heldUntil,omitempty"`
}

// HedgingTailMeasured is the 95 % confidence interval of the percentile in one
// minute, as of status.observedRange of an objective.
type HedgingTailMeasured struct {
	// lowMicroseconds is its lower end.
	// +required
	// +kubebuilder:validation:Minimum=0
	LowMicroseconds int64 `json:"lowMicroseconds"`

	// highMicroseconds is its upper end.
	// +required
	// +kubebuilder:validation:Minimum=0
	HighMicroseconds int64 `json:"highMicroseconds"`

	// loadPercent of the workers was taken up by first copies.
	// +required
	// +kubebuilder:validation:Minimum=0
	LoadPercent int32 `json:"loadPercent"`

	// measuredTime is the end of that minute.
	// +required
	MeasuredTime metav1.Time `json:"measuredTime,omitempty"`
}

// HedgingCancels is what mode Auto knows of whether servers let go of copies, from
// the last 2,000 or so. What is old fades.
type HedgingCancels struct {
	// expected is how many copies would have been let go of if every server
	// heeded every CANCEL, by the model: others end by themselves before.
	// +required
	// +kubebuilder:validation:Minimum=0
	Expected int64 `json:"expected"`

	// takenBack is how many were.
	// +required
	// +kubebuilder:validation:Minimum=0
	TakenBack int64 `json:"takenBack"`
}

// JitterStatus is how much executions of the same request differ, measured by
// the routers from requests that two idle workers began together. Numbers have
// two significant digits.
type JitterStatus struct {
	// compared is the number of requests executed twice at the same time.
	// +required
	// +kubebuilder:validation:Minimum=1
	Compared int64 `json:"compared,omitempty"`

	// hiccupsPerMillion executions of a million last longer than others of the
	// same request by more than four mean service times.
	// +required
	// +kubebuilder:validation:Minimum=0
	HiccupsPerMillion int64 `json:"hiccupsPerMillion"`

	// hiccupMicroseconds is how much longer these last, in the mean.
	// +required
	// +kubebuilder:validation:Minimum=0
	HiccupMicroseconds int64 `json:"hiccupMicroseconds"`

	// serviceMicroseconds is the mean time of the faster execution, from the
	// router and back.
	// +required
	// +kubebuilder:validation:Minimum=0
	ServiceMicroseconds int64 `json:"serviceMicroseconds"`
}
