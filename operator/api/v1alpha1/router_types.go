// SPDX-License-Identifier: Apache-2.0

// The router of an RpcService: what is asked of it, and what each one does.
package v1alpha1

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RpcServiceRouter says how requests are placed on workers.
//
// +kubebuilder:validation:XValidation:rule="(self.placement == 'None') == (oldSelf.placement == 'None')",message="`placement` cannot be changed to None or from it: clients reach a service with and without a router in different ways; create another RpcService"
// +kubebuilder:validation:XValidation:rule="(self.placement == 'Switch') == has(self.switch)",message="`switch` must be given when `placement` is Switch, and only then: it names the switch and the address"
// +kubebuilder:validation:XValidation:rule="!has(self.switch) || !has(oldSelf.switch) || (self.switch.name == oldSelf.switch.name && self.switch.address == oldSelf.switch.address)",message="`switch.name` and `switch.address` cannot be changed while `placement` is Switch: set Software first, and wait until `status.switch` is gone"
// +kubebuilder:validation:XValidation:rule="self.placement != 'Switch' || self.policy == 'JBSQ' || self.policy == 'RoundRobin' || self.policy == 'Random'",message="`policy` must be JBSQ, RoundRobin or Random when `placement` is Switch: the switch's program knows no other"
// +kubebuilder:validation:XValidation:rule="self.placement != 'Switch' || self.forwarding != 'Encapsulated'",message="`forwarding` may not be Encapsulated when `placement` is Switch: a switch keeps the client's address on the packet"
// +kubebuilder:validation:XValidation:rule="self.placement != 'Switch' || !has(self.holdBack)",message="`holdBack` may not be specified when `placement` is Switch: requests that wait go round the switch's loop"
// +kubebuilder:validation:XValidation:rule="self.placement != 'Switch' || self.centralQueueLimit <= 4096",message="`centralQueueLimit` must be at most 4096 when `placement` is Switch: requests that wait fill the buffer of the switch's loop"
// +kubebuilder:validation:XValidation:rule="self.placement != 'None' || (self.policy == 'JBSQ' && self.workerQueueDepth == 3)",message="`policy` and `workerQueueDepth` may not be specified when `placement` is None: there is no router"
// +kubebuilder:validation:XValidation:rule="self.placement != 'None' || (self.replicas == 2 && !has(self.resources) && self.forwarding == 'Auto')",message="`replicas`, `resources` and `forwarding` may not be specified when `placement` is None: there is no router"
// +kubebuilder:validation:XValidation:rule="self.placement != 'None' || !has(self.podTemplate)",message="`podTemplate` may not be specified when `placement` is None: there is no router"
// +kubebuilder:validation:XValidation:rule="self.placement != 'None' || (self.centralQueueLimit == 65536 && self.maxQueueMilliseconds == 1000 && !has(self.holdBack))",message="`centralQueueLimit`, `maxQueueMilliseconds` and `holdBack` may not be specified when `placement` is None: there is no router"
// +kubebuilder:validation:XValidation:rule="self.policy == 'JBSQ' || self.workerQueueDepth == 3",message="`workerQueueDepth` may not be specified when `policy` is not JBSQ: the other policies know no bound"
// +kubebuilder:validation:XValidation:rule="!has(self.holdBack) || (self.policy == 'JBSQ' && self.workerQueueDepth >= 2)",message="`holdBack` may be specified only when `policy` is JBSQ and `workerQueueDepth` is at least 2: it waits for an idle worker before using a busy one"
// +kubebuilder:validation:XValidation:rule="!has(self.fastPath) || self.fastPath == 'Off' || self.placement != 'None'",message="`fastPath` may not be Auto when `placement` is None: there is no router"
// +kubebuilder:validation:XValidation:rule="!has(self.fastPath) || self.fastPath == 'Off' || self.forwarding != 'Transparent'",message="`fastPath` Auto needs `forwarding` Auto or Encapsulated: the program in the kernel does not send with the client's address"
// +kubebuilder:validation:XValidation:rule="!has(self.fastPath) || self.fastPath == 'Off' || (self.policy == 'JBSQ' && !has(self.holdBack))",message="`fastPath` Auto needs `policy` JBSQ and no `holdBack`: the program in the kernel knows no other way to choose a worker"
type RpcServiceRouter struct {
	// placement says where the router runs: Software in pods; Switch in a
	// programmable switch, for which the pods stand by; or None, when clients
	// address workers themselves. Between Software and Switch it may change while
	// requests are served.
	// +optional
	// +kubebuilder:default=Software
	Placement RouterPlacement `json:"placement,omitempty"`

	// switch says which switch places requests, with placement Switch and only
	// with it.
	// +optional
	Switch *RouterSwitch `json:"switch,omitempty"`

	// replicas is the number of router pods. All of them are active, each
	// with its own share of every worker's queue. A worker set knows 16
	// routers, one of which is the extra one of a rollout.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=15
	Replicas int32 `json:"replicas,omitempty"`

	// policy chooses the worker of a request.
	// +optional
	// +kubebuilder:default=JBSQ
	Policy RouterPolicy `json:"policy,omitempty"`

	// workerQueueDepth is n of JBSQ(n): the most requests a worker holds, the
	// one being executed included. All other requests wait in the router,
	// where any worker can take them.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	WorkerQueueDepth int32 `json:"workerQueueDepth,omitempty"`

	// centralQueueLimit is the most requests a router holds; more are
	// rejected at once.
	// +optional
	// +kubebuilder:default=65536
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1048576
	CentralQueueLimit int32 `json:"centralQueueLimit,omitempty"`

	// maxQueueMilliseconds is the longest a router holds a request before it
	// rejects it.
	// +optional
	// +kubebuilder:default=1000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=600000
	MaxQueueMilliseconds int32 `json:"maxQueueMilliseconds,omitempty"`

	// forwarding says how a server learns the address of the client.
	// Transparent keeps the client's source address on the packet, which most
	// pod networks drop; Encapsulated carries it inside. Auto chooses, and
	// status.forwarding says what.
	// +optional
	// +kubebuilder:default=Auto
	Forwarding ForwardingMode `json:"forwarding,omitempty"`

	// fastPath says whether a program in the kernel of the router's node may
	// decide the plainest requests before any process is woken, which costs a
	// fraction of the processor time. With Auto the router container runs as
	// root with the capabilities BPF and NET_ADMIN and nothing else, and needs
	// Linux 6.6, a namespace that admits such pods, and at most 64 workers with
	// IPv4 addresses; where something is missing it serves as with Off, and
	// status.fastPath says what. Left out it is what the cluster chose
	// (`routers.fastPath` of the chart, Auto unless somebody decides), and Off
	// where this specification leaves the program nothing to do.
	// +optional
	FastPath FastPathMode `json:"fastPath,omitempty"`

	// holdBack lets a router keep requests for a moment in the hope of an
	// idle worker, before it fills the queue of a busy one.
	// +optional
	HoldBack *RouterHoldBack `json:"holdBack,omitempty"`

	// resources are the requests and limits of the router container.
	// +optional
	Resources *Resources `json:"resources,omitempty"`

	// podTemplate is merged into the router pods: tolerations, affinity, priority,
	// labels and whatever else a Deployment's template takes. The container of the
	// router itself is the operator's; `resources` are set beside this.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.?spec.?restartPolicy.orValue('Always') == 'Always'",message="`spec.restartPolicy` must be Always: pods of a Deployment are started again"
	// +kubebuilder:validation:XValidation:rule="(!has(self.spec) || !has(self.spec.containers) || self.spec.containers.all(c, (!has(c.ports) || c.ports.all(p, !(p.containerPort in [8000, 9000, 9443, 9464]) && !((has(p.name) && p.name in ['sidecar', 'metrics', 'requests', 'feedback'])))))) && (!has(self.spec) || !has(self.spec.initContainers) || self.spec.initContainers.all(c, (!has(c.ports) || c.ports.all(p, !(p.containerPort in [8000, 9000, 9443, 9464]) && !((has(p.name) && p.name in ['sidecar', 'metrics', 'requests', 'feedback']))))))",message="`ports` may not be 8000, 9000, 9443 or 9464, or be named sidecar, metrics, requests or feedback: these are the router's and the sidecar's; choose another number and name"
	// +kubebuilder:validation:XValidation:rule="(!has(self.spec) || !has(self.spec.containers) || self.spec.containers.all(c, c.name != 'server'))",message="`name` of a container may not be server in a router pod: that name belongs to `spec.server.podTemplate`"
	PodTemplate *PodTemplate `json:"podTemplate,omitempty"`
}

// RouterHoldBack bounds the hold-back in number and time.
type RouterHoldBack struct {
	// packets is the most requests kept back at a time.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	Packets int32 `json:"packets,omitempty"`

	// microseconds is the longest a request is kept back.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Microseconds int32 `json:"microseconds,omitempty"`
}

// RouterSwitch is a switch that places requests.
type RouterSwitch struct {
	// name of a ProgrammableSwitch.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`

	// address of the switch's `addressPool` to which clients send requests, and
	// servers FEEDBACK. Each service has one of its own. IPv4.
	// +required
	// +kubebuilder:validation:MinLength=7
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^([0-9]{1,3}\.){3}[0-9]{1,3}$`
	Address string `json:"address,omitempty"`

	// feedback says by what a worker's FEEDBACK is believed. A switch cannot check
	// tags: it believes whatever comes from a worker's address and port through the
	// port of the switch that leads there. Choose it only where nobody else can send
	// such packets through that port.
	// +required
	Feedback SwitchFeedback `json:"feedback,omitempty"`
}

// SwitchFeedback says by what FEEDBACK is believed.
// +kubebuilder:validation:Enum=BySource
type SwitchFeedback string

// SwitchFeedbackBySource believes source address, source port and port of the switch.
const SwitchFeedbackBySource SwitchFeedback = "BySource"

// RpcServiceSwitchStatus says how a service stands with a switch.
type RpcServiceSwitchStatus struct {
	// name of the ProgrammableSwitch.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`

	// address that is the service's there.
	// +required
	// +kubebuilder:validation:MinLength=7
	// +kubebuilder:validation:MaxLength=15
	Address string `json:"address,omitempty"`

	// state is Joining until the switch is programmed, Serving while clients are
	// given its address, StandbyServing while they are given the router pods' because
	// the switch is not there, and Leaving while the switch still serves those who
	// knew its address.
	// +required
	State RpcServiceSwitchState `json:"state,omitempty"`

	// sinceTime is since when.
	// +required
	SinceTime metav1.Time `json:"sinceTime,omitempty,omitzero"`

	// unreachableWorkers are some of the workers that the switch knows no way to.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=128
	UnreachableWorkers []string `json:"unreachableWorkers,omitempty"`
}

// RpcServiceSwitchState is how a service stands with a switch.
// +kubebuilder:validation:Enum=Joining;Serving;StandbyServing;Leaving
type RpcServiceSwitchState string

// The states of a service at a switch.
const (
	ServiceJoiningSwitch RpcServiceSwitchState = "Joining"
	ServiceOnSwitch      RpcServiceSwitchState = "Serving"
	ServiceOnStandby     RpcServiceSwitchState = "StandbyServing"
	ServiceLeavingSwitch RpcServiceSwitchState = "Leaving"
)

// RouterPlacement says where the router runs.
// +kubebuilder:validation:Enum=Software;Switch;None
type RouterPlacement string

const (
	// PlacementSoftware runs routers in pods.
	PlacementSoftware RouterPlacement = "Software"
	// PlacementSwitch runs them in a programmable switch, for which pods stand by.
	PlacementSwitch RouterPlacement = "Switch"
	// PlacementNone runs no router.
	PlacementNone RouterPlacement = "None"
)

// RouterPlacements are all of them, in the dataplane's order. A switch is a router to
// the dataplane as others are: documents say Software of it.
var RouterPlacements = []RouterPlacement{PlacementSoftware, PlacementNone, PlacementSwitch}

const (
	// PolicyJBSQ joins the shortest queue among those below the bound n and
	// holds the request when there is none.
	PolicyJBSQ RouterPolicy = "JBSQ"
	// PolicyJSQ joins the shortest queue, without a bound.
	PolicyJSQ RouterPolicy = "JSQ"
	// PolicyPowerOfTwo joins the shorter of two random queues.
	PolicyPowerOfTwo RouterPolicy = "PowerOfTwo"
	// PolicyRoundRobin takes workers in turn.
	PolicyRoundRobin RouterPolicy = "RoundRobin"
	// PolicyRandom takes any worker.
	PolicyRandom RouterPolicy = "Random"
)

// RouterPolicy chooses the worker of a request.
// +kubebuilder:validation:Enum=JBSQ;JSQ;PowerOfTwo;RoundRobin;Random
type RouterPolicy string

// RouterPolicies is the table of policies, in the order of the dataplane's own
// (dataplane/src/router/router_config.h): what programs ask about them.
var RouterPolicies = []RouterPolicyTraits{
	{PolicyJBSQ, SeesBoundedQueues},
	{PolicyJSQ, SeesQueues},
	{PolicyPowerOfTwo, SeesSomeQueues},
	{PolicyRoundRobin, SeesSomeQueues},
	{PolicyRandom, SeesNothing},
}

// RouterPolicyTraits is what tells a policy apart where it is not run.
// +kubebuilder:object:generate=false
type RouterPolicyTraits struct {
	Policy RouterPolicy
	Sight  PolicySight
}

// PolicySight is how much of the workers' queues a policy goes by: what a
// queueing model can tell policies apart by.
type PolicySight int

const (
	// SeesBoundedQueues takes the shortest queue and holds back what would make
	// it longer than workerQueueDepth.
	SeesBoundedQueues PolicySight = iota + 1
	// SeesQueues takes the shortest queue.
	SeesQueues
	// SeesSomeQueues is better than Random and worse than the shortest queue.
	SeesSomeQueues
	// SeesNothing is the same for every worker at any time.
	SeesNothing
)

// Traits are the policy's row of the table; false: there is no such policy.
func (p RouterPolicy) Traits() (RouterPolicyTraits, bool) {
	for _, t := range RouterPolicies {
		if t.Policy == p {
			return t, true
		}
	}
	return RouterPolicyTraits{}, false
}

// RouterPolicyNames are all policies, as a list for people: "A, B or C".
func RouterPolicyNames() string {
	var out strings.Builder
	for i, t := range RouterPolicies {
		switch {
		case i > 0 && i == len(RouterPolicies)-1:
			out.WriteString(" or ")
		case i > 0:
			out.WriteString(", ")
		}
		out.WriteString(string(t.Policy))
	}
	return out.String()
}

// ForwardingMode says how a server learns the address of the client.
// +kubebuilder:validation:Enum=Auto;Transparent;Encapsulated
type ForwardingMode string

const (
	// ForwardingAuto lets the operator choose.
	ForwardingAuto ForwardingMode = "Auto"
	// ForwardingTransparent keeps the client's source address.
	ForwardingTransparent ForwardingMode = "Transparent"
	// ForwardingEncapsulated carries the client's address in a header option.
	ForwardingEncapsulated ForwardingMode = "Encapsulated"
)

// ForwardingModes are all of them; behind Auto those of the dataplane, in its order.
var ForwardingModes = []ForwardingMode{ForwardingAuto, ForwardingEncapsulated, ForwardingTransparent}

// RouterStatus is one live router.
type RouterStatus struct {
	// name of the pod.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// address is the ip:port that takes requests.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Address string `json:"address,omitempty"`

	// state is Ready, Starting, Draining or Unreachable.
	// +optional
	// +kubebuilder:validation:Enum=Ready;Starting;Draining;Unreachable
	State RouterState `json:"state,omitempty"`
}

// RouterState says what a router is doing.
type RouterState string

const (
	// RouterReady takes requests and runs the current configuration.
	RouterReady RouterState = "Ready"
	// RouterStarting has no current configuration or is not ready yet.
	RouterStarting RouterState = "Starting"
	// RouterDraining is shutting down and finishes what it has.
	RouterDraining RouterState = "Draining"
	// RouterUnreachable runs, but its sidecar does not answer.
	RouterUnreachable RouterState = "Unreachable"
)
