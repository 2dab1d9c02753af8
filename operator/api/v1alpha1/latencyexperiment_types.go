// SPDX-License-Identifier: Apache-2.0

// LatencyExperiment is the kind that measures a latency percentile once, under
// an offered load, and says how far it may be trusted.
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LatencyExperiment is one measurement of a latency percentile under open-loop
// load, made by Lancet agents in pods. It is run once; its result stays.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=latencyexperiments,singular=latencyexperiment,shortName=lexp,categories=bobtail
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 40",message="`metadata.name` must be no longer than 40 characters: the names of the objects made for it are longer"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="`metadata.name` must be a DNS label that starts with a letter: a Service of that name is made"
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.status.target`
// +kubebuilder:printcolumn:name="P",type=string,JSONPath=`.spec.percentile`
// +kubebuilder:printcolumn:name="Observed",type=string,JSONPath=`.status.observed`
// +kubebuilder:printcolumn:name="Loads",type=integer,JSONPath=`.status.loads`
// +kubebuilder:printcolumn:name="Conclusive",type=string,JSONPath=`.status.conditions[?(@.type=="Conclusive")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Conclusive")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type LatencyExperiment struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what is measured.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="`spec` cannot be changed: an experiment is run once; create another one"
	// +kubebuilder:validation:XValidation:rule="!has(self.latencyAgents) || self.latencyAgents < self.agents",message="`latencyAgents` must be fewer than `agents`: the others make the load"
	// +kubebuilder:validation:XValidation:rule="has(self.widthMicroseconds) != (has(self.load.steps) || has(self.load.sine))",message="`widthMicroseconds` must be given with `load.requestsPerSecond` and `load.sweep`, and only with them: a load that changes is not qualified"
	// +kubebuilder:validation:XValidation:rule="!has(self.arrivalGaps) || !(has(self.load.steps) || has(self.load.sine))",message="`arrivalGaps` may not be specified with `load.steps` or `load.sine`: arrivals of a load that changes are not compared"
	// +kubebuilder:validation:XValidation:rule="!has(self.traces) || self.workload.protocol == 'R2P2'",message="`traces` needs `workload.protocol` R2P2: no other one carries trace ids"
	// +kubebuilder:validation:XValidation:rule="!has(self.latencyRequestsPerSecond) || has(self.latencyAgents)",message="`latencyRequestsPerSecond` may be specified only with `latencyAgents`: it bounds their rate"
	// +kubebuilder:validation:XValidation:rule="!has(self.imagePullSecrets) || !self.?agentPodTemplate.?spec.?imagePullSecrets.hasValue()",message="`imagePullSecrets` and `agentPodTemplate.spec.imagePullSecrets` exclude each other: give one"
	// +kubebuilder:validation:XValidation:rule="[self.placement == 'Switch' ? 0 : self.?load.?requestsPerSecond.orValue(0), self.?load.?sweep.?toRequestsPerSecond.orValue(0), self.?load.?sine.?meanRequestsPerSecond.orValue(0) + self.?load.?sine.?amplitudeRequestsPerSecond.orValue(0)].all(r, r <= 1000000 * self.agents) && (!has(self.load) || !has(self.load.steps) || self.load.steps.all(s, s.requestsPerSecond <= 1000000 * self.agents))",message="`load` must not be above 1,000,000 requests a second for each of `agents`: no agent sends more; give more agents, or a smaller load"
	// +kubebuilder:validation:XValidation:rule="(self.placement == 'Switch') == has(self.switch)",message="`switch` must be given with `placement` Switch, and only with it: it names the switch"
	// +kubebuilder:validation:XValidation:rule="self.placement != 'Switch' || (has(self.load.requestsPerSecond) && has(self.target.addresses) && self.workload.protocol == 'R2P2')",message="`placement` Switch takes `load.requestsPerSecond`, `target.addresses` and `workload.protocol` R2P2: the switch makes one load of datagrams, and finds no names"
	// +kubebuilder:validation:XValidation:rule="self.placement != 'Switch' || !has(self.target.addresses) || self.target.addresses.all(a, isIP(a.split(':')[0]) && ip(a.split(':')[0]).family() == 4)",message="`target.addresses` must be IPv4 addresses with `placement` Switch: the switch's program knows no other"
	// +kubebuilder:validation:XValidation:rule="self.placement != 'Switch' || self.workload.interarrival != 'Trace'",message="`workload.interarrival` must be Poisson or Fixed with `placement` Switch: the switch draws gaps from a table of its own"
	// +kubebuilder:validation:XValidation:rule="self.placement != 'Switch' || !(has(self.latencyAgents) || has(self.traces) || has(self.arrivalGaps) || has(self.agentPodTemplate) || has(self.agentResources))",message="`latencyAgents`, `traces`, `arrivalGaps`, `agentPodTemplate` and `agentResources` may not be specified with `placement` Switch: there are no agents"
	// +kubebuilder:validation:XValidation:rule="self.placement != 'Switch' || !has(self.switch) || !has(self.load.requestsPerSecond) || self.load.requestsPerSecond * 5 <= self.switch.templatesPerSecond",message="`load.requestsPerSecond` must be at most a fifth of `switch.templatesPerSecond`: the gaps between packets are whole numbers of templates"
	Spec LatencyExperimentSpec `json:"spec,omitzero"`

	// status says what was found. The operator writes it.
	// +optional
	Status LatencyExperimentStatus `json:"status,omitempty,omitzero"`
}

// LatencyExperimentList is a list of LatencyExperiment.
//
// +kubebuilder:object:root=true
type LatencyExperimentList struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the experiments.
	Items []LatencyExperiment `json:"items"`
}

// LatencyExperimentSpec says what is measured.
type LatencyExperimentSpec struct {
	// target is the service that is loaded.
	// +required
	Target ExperimentTarget `json:"target,omitzero"`

	// workload says what is sent.
	// +optional
	// +kubebuilder:default={}
	Workload ExperimentWorkload `json:"workload,omitzero"`

	// load says how much of it.
	// +required
	Load ExperimentLoad `json:"load,omitzero"`

	// placement says who makes the load and measures: Pods of Lancet, or a Switch that
	// runs Bobtail's load generator.
	// +optional
	// +kubebuilder:default=Pods
	// +kubebuilder:validation:Enum=Pods;Switch
	Placement ExperimentPlacement `json:"placement,omitempty"`

	// switch says which one, with placement Switch and only with it.
	// +optional
	Switch *ExperimentSwitch `json:"switch,omitempty"`

	// agents is the number of pods that share the load.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	Agents int32 `json:"agents,omitempty"`

	// agentResources are the requests and limits of each agent; requests of a
	// quarter of a processor and 64 MiB when absent. An agent that asks for
	// nothing comes last on a busy node, and its own lateness is measured.
	// +optional
	AgentResources *Resources `json:"agentResources,omitempty"`

	// coordinatorResources are the requests and limits of the coordinator. Left out:
	// requests of a twentieth of a processor, 64Mi of memory and 16Mi of ephemeral
	// storage, limits of one processor, 256Mi and 64Mi.
	// +optional
	CoordinatorResources *Resources `json:"coordinatorResources,omitempty"`

	// agentPodTemplate is merged into the pods of agents: tolerations, affinity,
	// labels and whatever else a Job's template takes. The agent's own container is
	// the operator's; agentResources are set beside this.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.?spec.?restartPolicy.orValue('Never') == 'Never'",message="`spec.restartPolicy` must be Never: a measurement that was cut short is reported, not begun again"
	// +kubebuilder:validation:XValidation:rule="(!has(self.spec) || !has(self.spec.containers) || self.spec.containers.all(c, (!has(c.ports) || c.ports.all(p, p.containerPort != 5001 && (!has(p.name) || p.name != 'control'))))) && (!has(self.spec) || !has(self.spec.initContainers) || self.spec.initContainers.all(c, (!has(c.ports) || c.ports.all(p, p.containerPort != 5001 && (!has(p.name) || p.name != 'control')))))",message="`ports` may not be 5001 or be named control: that is the agent's; choose another number and name"
	// +kubebuilder:validation:XValidation:rule="(!has(self.spec) || !has(self.spec.containers) || self.spec.containers.all(c, c.name != 'server'))",message="`name` of a container may not be server in the pod of an agent: that name belongs to an RpcService"
	AgentPodTemplate *PodTemplate `json:"agentPodTemplate,omitempty"`

	// imagePullSecrets are Secrets of this namespace for pulling the images of
	// agents and coordinator.
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=name
	ImagePullSecrets []SecretReference `json:"imagePullSecrets,omitempty"`

	// latencyAgents is how many of the agents only measure, with few requests of
	// their own, while the others only make the load. Left out, every agent does both.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=15
	LatencyAgents int32 `json:"latencyAgents,omitempty"`

	// latencyRequestsPerSecond is the most requests that each of the
	// latencyAgents sends: so few that it is never busy itself.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000000
	LatencyRequestsPerSecond int32 `json:"latencyRequestsPerSecond,omitempty"`

	// arrivalGaps is how many gaps between requests of each agent are compared
	// with the distribution asked for; 500 when absent. More of them find
	// smaller faults of the agents: some 2,000 suit agents with processors of
	// their own.
	// +optional
	// +kubebuilder:validation:Minimum=50
	// +kubebuilder:validation:Maximum=100000
	ArrivalGaps int32 `json:"arrivalGaps,omitempty"`

	// measure says which latency is meant: Response, from when a request was
	// due, or Service, from its transmission.
	// +optional
	// +kubebuilder:default=Response
	// +kubebuilder:validation:Enum=Response;Service
	Measure ExperimentLatency `json:"measure,omitempty"`

	// percentile of the latency distribution, from "50" to "99.99".
	// +optional
	// +kubebuilder:default="99"
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:XValidation:rule="self.matches('^[5-9][0-9]([.][0-9]{1,2})?$')",message="`percentile` must be from \"50\" to \"99.99\", with at most two digits behind the point: give one such as \"99\" or \"99.9\""
	Percentile string `json:"percentile,omitempty"`

	// widthMicroseconds is the widest acceptable 95 % confidence interval of a
	// steady load. It is left out with one that changes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000000
	WidthMicroseconds int32 `json:"widthMicroseconds,omitempty"`

	// limitSeconds is the longest each steady load is measured.
	// +optional
	// +kubebuilder:default=900
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=86400
	LimitSeconds int32 `json:"limitSeconds,omitempty"`

	// traces sends OpenTelemetry spans of some of the samples.
	// +optional
	Traces *ExperimentTraces `json:"traces,omitempty"`
}

// ExperimentTarget is the service that is loaded.
//
// +kubebuilder:validation:XValidation:rule="has(self.targetRef) != has(self.addresses)",message="`targetRef` and `addresses` exclude each other: give exactly one"
// +kubebuilder:validation:XValidation:rule="!has(self.targetRef) || self.targetRef.kind == 'RpcService'",message="`targetRef.kind` must be RpcService: an experiment's requests are not writes of a ReplicationGroup"
type ExperimentTarget struct {
	// targetRef names an RpcService in the same namespace.
	// +optional
	TargetRef *TargetReference `json:"targetRef,omitempty"`

	// addresses are HOST:PORT of any service; connections are spread over them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=3
	// +kubebuilder:validation:items:MaxLength=300
	// +kubebuilder:validation:items:Pattern=`^(\[[0-9a-fA-F:.]+\]|[^:\s]+):[0-9]{1,5}$`
	Addresses []string `json:"addresses,omitempty"`
}

// ExperimentProtocols is the table of protocols: the word of the agent and of
// load definitions (dataplane/src/lancet/protocols.h) for each of the API's.
var ExperimentProtocols = []ExperimentProtocolWord{
	{ExperimentR2P2, "r2p2"},
	{"Echo", "echo"},
	{"Synthetic", "synthetic"},
	{"Stss", "stss"},
	{"HTTP", "http"},
	{"MemcachedASCII", "memcached-ascii"},
	{"MemcachedBinary", "memcached-binary"},
	{"Redis", "redis"},
}

// ExperimentProtocol is what a target speaks.
// +kubebuilder:validation:Enum=R2P2;Echo;Synthetic;Stss;HTTP;MemcachedASCII;MemcachedBinary;Redis
type ExperimentProtocol string

// ExperimentR2P2 is the protocol of Bobtail's own services: it alone needs no
// connections and carries trace ids.
const ExperimentR2P2 ExperimentProtocol = "R2P2"

// ExperimentProtocolWord is a row of ExperimentProtocols.
// +kubebuilder:object:generate=false
type ExperimentProtocolWord struct {
	Protocol ExperimentProtocol
	Word     string
}

// Word is the agent's name for the protocol; "": there is no such protocol.
func (p ExperimentProtocol) Word() string {
	for _, row := range ExperimentProtocols {
		if row.Protocol == p {
			return row.Word
		}
	}
	return ""
}

// ExperimentWorkload says what is sent. Distributions are written as in
// docs/reference/lancet-agent.md: "fixed:64", "exp:200", "fb-value".
//
// +kubebuilder:validation:XValidation:rule="(has(self.interarrival) && self.interarrival == 'Trace') == has(self.gapsFrom)",message="`gapsFrom` must be given with `interarrival` Trace, and only with it: no other arrivals are read from a file"
// +kubebuilder:validation:XValidation:rule="!has(self.path) || self.protocol == 'HTTP'",message="`path` may be specified only with `protocol` HTTP: the others have none"
// +kubebuilder:validation:XValidation:rule="!has(self.serviceTimeNanoseconds) || self.protocol in ['Synthetic', 'Stss']",message="`serviceTimeNanoseconds` may be specified only with `protocol` Synthetic or Stss: no other request carries one; servers of R2P2 have theirs from `--service-time`"
// +kubebuilder:validation:XValidation:rule="!has(self.requestBytes) || self.protocol in ['R2P2', 'Echo', 'Stss']",message="`requestBytes` may be specified only with `protocol` R2P2, Echo or Stss: the others have requests of their own"
// +kubebuilder:validation:XValidation:rule="!has(self.replyBytes) || self.protocol == 'Stss'",message="`replyBytes` may be specified only with `protocol` Stss: it alone asks for a size"
// +kubebuilder:validation:XValidation:rule="!has(self.mix) || self.mix != 'YCSBE' || self.protocol == 'Redis'",message="`mix` YCSBE may be specified only with `protocol` Redis: it alone has scans"
// +kubebuilder:validation:XValidation:rule="!(has(self.keys) || has(self.keyOrder) || has(self.keyBytes) || has(self.mix) || has(self.readPercent) || has(self.valueBytes) || (has(self.preload) && self.preload == 'AllKeys')) || self.protocol in ['MemcachedASCII', 'MemcachedBinary', 'Redis']",message="`keys`, `keyOrder`, `keyBytes`, `mix`, `readPercent`, `valueBytes` and `preload` may be specified only with `protocol` MemcachedASCII, MemcachedBinary or Redis: the others have no keys"
// +kubebuilder:validation:XValidation:rule="!has(self.scanLength) || (has(self.mix) && self.mix == 'YCSBE')",message="`scanLength` may be specified only with `mix` YCSBE: there are no other scans"
type ExperimentWorkload struct {
	// protocol is what the target speaks.
	// +optional
	// +kubebuilder:default=R2P2
	Protocol ExperimentProtocol `json:"protocol,omitempty"`

	// interarrival is the distribution of the gaps between requests. Trace
	// replays the gaps of gapsFrom, scaled to the load.
	// +optional
	// +kubebuilder:default=Poisson
	// +kubebuilder:validation:Enum=Poisson;Fixed;Trace
	Interarrival string `json:"interarrival,omitempty"`

	// gapsFrom is where the gaps of Trace come from. They are read once, before
	// the experiment begins.
	// +optional
	GapsFrom *ExperimentGapsSource `json:"gapsFrom,omitempty"`

	// connectionsPerAgent is how many connections (of R2P2: sockets) an agent
	// has. With too few of them the load is no longer open.
	// +optional
	// +kubebuilder:default=16
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16384
	ConnectionsPerAgent int32 `json:"connectionsPerAgent,omitempty"`

	// outstandingPerConnection is how many requests a connection carries at a time.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	OutstandingPerConnection int32 `json:"outstandingPerConnection,omitempty"`

	// timeoutMilliseconds is the time after which a request counts as unanswered.
	// +optional
	// +kubebuilder:default=1000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=600000
	TimeoutMilliseconds int32 `json:"timeoutMilliseconds,omitempty"`

	// requestBytes is the distribution of the sizes of request bodies of R2P2,
	// Echo and Stss.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	RequestBytes string `json:"requestBytes,omitempty"`

	// replyBytes is the distribution of the sizes of replies that Stss asks for.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	ReplyBytes string `json:"replyBytes,omitempty"`

	// serviceTimeNanoseconds is the distribution of the service times that
	// Synthetic and Stss ask for.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	ServiceTimeNanoseconds string `json:"serviceTimeNanoseconds,omitempty"`

	// path of HTTP requests.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/')",message="`path` must begin with a slash: give one such as /index.html"
	Path string `json:"path,omitempty"`

	// keys is how many keys the key-value protocols use.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000000
	Keys int32 `json:"keys,omitempty"`

	// keyOrder says how keys are chosen: "uni", "rr", or "zipf:THETA". When absent it is
	// "zipf:0.99" with the mix YCSBE, else "uni".
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(uni|rr|zipf:0?\.[0-9]{1,6})$`
	KeyOrder string `json:"keyOrder,omitempty"`

	// keyBytes is the distribution of the sizes of keys.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	KeyBytes string `json:"keyBytes,omitempty"`

	// mix of operations: GetSet, or of Redis YCSBE, which is scans and inserts on
	// one sorted set.
	// +optional
	// +kubebuilder:validation:Enum=GetSet;YCSBE
	Mix string `json:"mix,omitempty"`

	// readPercent is the share of gets of GetSet and of scans of YCSBE; 100 and 95
	// when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	ReadPercent *int32 `json:"readPercent,omitempty"`

	// scanLength is the distribution of the lengths of scans.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	ScanLength string `json:"scanLength,omitempty"`

	// valueBytes is the distribution of the sizes of their values.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	ValueBytes string `json:"valueBytes,omitempty"`

	// preload says whether all keys are stored before the load begins.
	// +optional
	// +kubebuilder:default=None
	// +kubebuilder:validation:Enum=None;AllKeys
	Preload string `json:"preload,omitempty"`
}

// ExperimentGapsSource is where recorded gaps between requests come from.
type ExperimentGapsSource struct {
	// configMapKeyRef names a key of a ConfigMap in the same namespace: 1 to
	// 65,536 gaps in whole nanoseconds, separated by white space. They are used
	// in turn, and again from the first.
	// +required
	ConfigMapKeyRef ExperimentKeyReference `json:"configMapKeyRef,omitzero"`
}

// ExperimentKeyReference names a key of a ConfigMap.
type ExperimentKeyReference struct {
	// name of the ConfigMap.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// key in its data.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key,omitempty"`
}

// ExperimentLoad is one load, or several.
//
// +kubebuilder:validation:XValidation:rule="[has(self.requestsPerSecond), has(self.sweep), has(self.steps), has(self.sine)].filter(x, x).size() == 1",message="`requestsPerSecond`, `sweep`, `steps` and `sine` exclude each other: give exactly one"
type ExperimentLoad struct {
	// requestsPerSecond over all agents.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000000
	RequestsPerSecond int32 `json:"requestsPerSecond,omitempty"`

	// sweep measures evenly spaced loads, one after the other.
	// +optional
	Sweep *ExperimentSweep `json:"sweep,omitempty"`

	// steps follows a load that changes, one step after the other without a
	// pause. What is seen during each is reported, not qualified.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=40
	Steps []ExperimentStep `json:"steps,omitempty"`

	// sine follows a load that swings, in steps.
	// +optional
	Sine *ExperimentSine `json:"sine,omitempty"`
}

// ExperimentStep is one stretch of a load that changes.
type ExperimentStep struct {
	// requestsPerSecond over all agents.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000000
	RequestsPerSecond int32 `json:"requestsPerSecond,omitempty"`

	// seconds is how long it lasts.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2160
	Seconds int32 `json:"seconds,omitempty"`
}

// ExperimentSine is a load that swings about a mean.
//
// +kubebuilder:validation:XValidation:rule="self.amplitudeRequestsPerSecond < self.meanRequestsPerSecond",message="`amplitudeRequestsPerSecond` must be below `meanRequestsPerSecond`: a load cannot be negative"
// +kubebuilder:validation:XValidation:rule="self.periodSeconds >= 4 * self.stepSeconds",message="`periodSeconds` must be at least four times `stepSeconds`: fewer steps are no wave"
// +kubebuilder:validation:XValidation:rule="self.seconds <= 40 * self.stepSeconds",message="`seconds` must be at most 40 times `stepSeconds`: the status has room for 40 steps"
type ExperimentSine struct {
	// meanRequestsPerSecond over all agents.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50000000
	MeanRequestsPerSecond int32 `json:"meanRequestsPerSecond,omitempty"`

	// amplitudeRequestsPerSecond is how far the load swings above and below it.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50000000
	AmplitudeRequestsPerSecond int32 `json:"amplitudeRequestsPerSecond,omitempty"`

	// periodSeconds is how long one wave takes.
	// +required
	// +kubebuilder:validation:Minimum=4
	// +kubebuilder:validation:Maximum=86400
	PeriodSeconds int32 `json:"periodSeconds,omitempty"`

	// seconds is how long it lasts in all.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	Seconds int32 `json:"seconds,omitempty"`

	// stepSeconds is how long the load stays the same.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=21600
	StepSeconds int32 `json:"stepSeconds,omitempty"`
}

// ExperimentSweep is evenly spaced loads.
//
// +kubebuilder:validation:XValidation:rule="self.toRequestsPerSecond > self.fromRequestsPerSecond",message="`toRequestsPerSecond` must be above `fromRequestsPerSecond`: the loads rise"
type ExperimentSweep struct {
	// fromRequestsPerSecond is the first load.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000000
	FromRequestsPerSecond int32 `json:"fromRequestsPerSecond,omitempty"`

	// toRequestsPerSecond is the last.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000000
	ToRequestsPerSecond int32 `json:"toRequestsPerSecond,omitempty"`

	// points is the number of loads.
	// +required
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=12
	Points int32 `json:"points,omitempty"`
}

// ExperimentLatency says between which two moments a latency lies.
type ExperimentLatency string

const (
	// MeasureResponse is from when the request was due until its reply.
	MeasureResponse ExperimentLatency = "Response"
	// MeasureService is from its transmission.
	MeasureService ExperimentLatency = "Service"
)

// LatencyExperimentStatus says what was found.
type LatencyExperimentStatus struct {
	// observedGeneration is the generation this status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Accepted, Programmed, Ready and Conclusive.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// target is what is loaded, written for people.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Target string `json:"target,omitempty"`

	// observed is the percentile with its interval at the highest conclusive
	// load, or the highest percentile of a load that changes, written for people.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Observed string `json:"observed,omitempty"`

	// loads is how many loads were measured.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Loads int32 `json:"loads,omitempty"`

	// results are the loads in the order in which they were measured.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=40
	Results []ExperimentResult `json:"results,omitempty"`
}

// ExperimentVerdict says whether a result may be trusted.
type ExperimentVerdict string

const (
	// VerdictConclusive: every check passed and the interval is as narrow as wanted.
	VerdictConclusive ExperimentVerdict = "Conclusive"
	// VerdictInconclusive: the reason says which check failed, with its statistic.
	VerdictInconclusive ExperimentVerdict = "Inconclusive"
	// VerdictFollowed: the load was meant to change, so there is no steady state
	// to qualify; the interval takes the samples as independent.
	VerdictFollowed ExperimentVerdict = "Followed"
)

// ExperimentResult is one load.
type ExperimentResult struct {
	// startSeconds is when it began, since the first, where the load changes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	StartSeconds *int64 `json:"startSeconds,omitempty"`

	// offeredRequestsPerSecond is what was asked for.
	// +optional
	// +kubebuilder:validation:Minimum=0
	OfferedRequestsPerSecond int64 `json:"offeredRequestsPerSecond,omitempty"`

	// achievedRequestsPerSecond is what was sent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	AchievedRequestsPerSecond int64 `json:"achievedRequestsPerSecond,omitempty"`

	// observedMicroseconds is the percentile. It is absent when it falls on
	// requests that were never answered.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedMicroseconds *int64 `json:"observedMicroseconds,omitempty"`

	// observedLowMicroseconds is the lower end of its 95 % confidence interval.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedLowMicroseconds *int64 `json:"observedLowMicroseconds,omitempty"`

	// observedHighMicroseconds is its upper end.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedHighMicroseconds *int64 `json:"observedHighMicroseconds,omitempty"`

	// verdict says whether the result may be trusted.
	// +optional
	// +kubebuilder:validation:Enum=Conclusive;Inconclusive;Followed
	Verdict ExperimentVerdict `json:"verdict,omitempty"`

	// reason says why it may not; of a followed phase, what there is to doubt about
	// its load.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Reason string `json:"reason,omitempty"`
}
