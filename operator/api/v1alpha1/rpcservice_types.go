// SPDX-License-Identifier: Apache-2.0

// RpcService is the kind a user deploys: servers that execute RPCs, and the
// routers that place each request on the least loaded worker.
package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RpcService is a replicated RPC server behind a request router.
//
// Clients find it under its own name: `<name>.<namespace>.svc`, port 8000.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=rpcservices,singular=rpcservice,shortName=rpcsvc,categories=bobtail
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Programmed",type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].status`
// +kubebuilder:printcolumn:name="Workers",type=string,JSONPath=`.status.workers`,description="Workers ready, of those asked for"
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.status.policy`
// +kubebuilder:printcolumn:name="Device",type=string,JSONPath=`.status.device`
// +kubebuilder:printcolumn:name="Forwarding",type=string,priority=1,JSONPath=`.status.forwarding`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 40",message="`metadata.name` must be no longer than 40 characters: the names of the objects made for it are longer"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="`metadata.name` must be a DNS label that starts with a letter: a Service of that name is made"
type RpcService struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what to run.
	// +required
	Spec RpcServiceSpec `json:"spec,omitzero"`

	// status says what is running. The operator writes it.
	// +optional
	Status RpcServiceStatus `json:"status,omitempty,omitzero"`
}

// RpcServiceList is a list of RpcService.
//
// +kubebuilder:object:root=true
type RpcServiceList struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the services.
	Items []RpcService `json:"items"`
}

// RpcServiceSpec says what to run.
//
// +kubebuilder:validation:XValidation:rule="(self.replicas + 1) * self.workersPerReplica <= 1024",message="`replicas` plus 1, times `workersPerReplica`, must not be more than 1024, the most workers one router set handles: during a rollout there is one replica more"
// +kubebuilder:validation:XValidation:rule="self.router.placement == 'None' || self.router.maxQueueMilliseconds <= self.requestTimeoutMilliseconds",message="`router.maxQueueMilliseconds` must not be more than `requestTimeoutMilliseconds`: a request would wait longer than anybody waits for it"
// +kubebuilder:validation:XValidation:rule="!has(self.hedging) || self.hedging.mode == 'Off' || (self.router.placement == 'Software' && self.router.policy == 'JBSQ')",message="`hedging` needs `router.placement` Software and `router.policy` JBSQ: that router alone knows that nothing waits for the worker of a second copy"
type RpcServiceSpec struct {
	// replicas is the number of server pods.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=256
	Replicas *int32 `json:"replicas,omitempty"`

	// workersPerReplica is the number of workers in each server pod. Worker i
	// listens on UDP port 8000+i and executes one request at a time.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	WorkersPerReplica int32 `json:"workersPerReplica,omitempty"`

	// protocol is what clients speak.
	// +optional
	// +kubebuilder:default=R2P2
	Protocol Protocol `json:"protocol,omitempty"`

	// device says through which network device packets travel.
	// +optional
	// +kubebuilder:default={}
	Device RpcServiceDevice `json:"device,omitempty,omitzero"`

	// server says what runs in the server pods.
	// +required
	Server RpcServiceServer `json:"server,omitzero"`

	// router says how requests are placed on workers.
	// +optional
	// +kubebuilder:default={placement: Software, replicas: 2, policy: JBSQ, workerQueueDepth: 3, centralQueueLimit: 65536, maxQueueMilliseconds: 1000, forwarding: Auto}
	Router RpcServiceRouter `json:"router,omitempty,omitzero"`

	// hedging lets routers send a request a second time when it may be stuck.
	// Choose it only for a service whose requests may be executed twice.
	// +optional
	Hedging *RpcServiceHedging `json:"hedging,omitempty"`

	// requestTimeoutMilliseconds is the time after which a request that has
	// seen no completion counts as unanswered: its latency enters the
	// histograms as infinite. It must be at least the timeout of the clients.
	// +optional
	// +kubebuilder:default=10000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=600000
	RequestTimeoutMilliseconds int32 `json:"requestTimeoutMilliseconds,omitempty"`

	// legacyPeers says whether peers that predate message tags may take part.
	// With Allow, the 16-byte feedback that such peers send is believed
	// without a tag: choose it only on a network where nobody forges packets.
	// +optional
	// +kubebuilder:default=Deny
	LegacyPeers LegacyPeersPolicy `json:"legacyPeers,omitempty"`

	// imagePullSecrets name Secrets of this namespace for pulling the images
	// of server and router pods.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	ImagePullSecrets []SecretReference `json:"imagePullSecrets,omitempty"`
}

// Protocol is what clients speak.
// +kubebuilder:validation:Enum=R2P2
type Protocol string

// ProtocolR2P2 is the Request-Response Pair Protocol over UDP.
const ProtocolR2P2 Protocol = "R2P2"

// RpcServiceDevice says through which network device packets travel.
type RpcServiceDevice struct {
	// type is the kind of device. Kernel uses the sockets of the pod network
	// and works everywhere.
	// +optional
	// +kubebuilder:default=Kernel
	Type DeviceType `json:"type,omitempty"`
}

// DeviceType is a kind of network device.
// +kubebuilder:validation:Enum=Kernel
type DeviceType string

// DeviceKernel is the pod network through kernel sockets.
const DeviceKernel DeviceType = "Kernel"

// LegacyPeersPolicy says whether untagged peers may take part.
// +kubebuilder:validation:Enum=Deny;Allow
type LegacyPeersPolicy string

const (
	// LegacyPeersDeny requires a valid tag on every control message.
	LegacyPeersDeny LegacyPeersPolicy = "Deny"
	// LegacyPeersAllow also believes untagged control messages.
	LegacyPeersAllow LegacyPeersPolicy = "Allow"
)

// RpcServiceServer says what runs in the server pods.
//
// The container finds its surroundings in the environment: POD_IP,
// BOBTAIL_PORT, BOBTAIL_WORKERS, BOBTAIL_CTL, BOBTAIL_KEY_DIR and
// BOBTAIL_CONFIG_CACHE. It runs as user 65532 without privileges.
type RpcServiceServer struct {
	// image is the container image of the server.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`

	// imagePullPolicy says when the image is pulled.
	// +optional
	// +kubebuilder:default=IfNotPresent
	// +kubebuilder:validation:Enum=IfNotPresent;Always;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// command replaces the entrypoint of the image. When it is empty, the
	// options every Bobtail server understands (--address, --port, --workers,
	// --ctl, --key-dir, --config-cache) are passed before `args`; when it is
	// set, nothing is added, and `args` may refer to the environment as
	// $(POD_IP).
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	Command []string `json:"command,omitempty"`

	// args are the arguments of the server.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=4096
	Args []string `json:"args,omitempty"`

	// env adds environment variables. The names POD_IP and BOBTAIL_… are
	// taken.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Env []EnvironmentVariable `json:"env,omitempty"`

	// resources are the requests and limits of the server container.
	// +optional
	Resources Resources `json:"resources,omitempty,omitzero"`

	// nodeSelector restricts the nodes of server pods by label.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
}

// EnvironmentVariable is a name and its value.
// +kubebuilder:validation:XValidation:rule="self.name != 'POD_IP' && !self.name.startsWith('BOBTAIL_')",message="`name` must not be POD_IP or start with BOBTAIL_: these are set by the operator"
type EnvironmentVariable struct {
	// name of the variable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_]*$`
	Name string `json:"name,omitempty"`

	// value of the variable; $(NAME) refers to another one.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	Value string `json:"value,omitempty"`
}

// SecretReference names a Secret in the namespace of the object.
type SecretReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// Resources are the compute resources of one container.
type Resources struct {
	// requests are the amounts the scheduler sets aside.
	// +optional
	// +kubebuilder:validation:MaxProperties=8
	Requests corev1.ResourceList `json:"requests,omitempty"`

	// limits are the amounts the container may not exceed.
	// +optional
	// +kubebuilder:validation:MaxProperties=8
	Limits corev1.ResourceList `json:"limits,omitempty"`
}

// RpcServiceRouter says how requests are placed on workers.
//
// +kubebuilder:validation:XValidation:rule="self.placement == oldSelf.placement",message="`placement` cannot be changed: clients reach a service with and without a router in different ways; create another RpcService"
// +kubebuilder:validation:XValidation:rule="self.placement != 'None' || (self.policy == 'JBSQ' && self.workerQueueDepth == 3)",message="`policy` and `workerQueueDepth` may not be specified when `placement` is None: there is no router"
// +kubebuilder:validation:XValidation:rule="self.placement != 'None' || (self.replicas == 2 && !has(self.resources) && self.forwarding == 'Auto')",message="`replicas`, `resources` and `forwarding` may not be specified when `placement` is None: there is no router"
// +kubebuilder:validation:XValidation:rule="self.placement != 'None' || (self.centralQueueLimit == 65536 && self.maxQueueMilliseconds == 1000 && !has(self.holdBack))",message="`centralQueueLimit`, `maxQueueMilliseconds` and `holdBack` may not be specified when `placement` is None: there is no router"
// +kubebuilder:validation:XValidation:rule="self.policy == 'JBSQ' || self.workerQueueDepth == 3",message="`workerQueueDepth` may not be specified when `policy` is not JBSQ: the other policies know no bound"
// +kubebuilder:validation:XValidation:rule="!has(self.holdBack) || (self.policy == 'JBSQ' && self.workerQueueDepth >= 2)",message="`holdBack` may be specified only when `policy` is JBSQ and `workerQueueDepth` is at least 2: it waits for an idle worker before using a busy one"
type RpcServiceRouter struct {
	// placement says where the router runs: Software in pods, or None, when
	// clients address workers themselves.
	// +optional
	// +kubebuilder:default=Software
	Placement RouterPlacement `json:"placement,omitempty"`

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

	// holdBack lets a router keep requests for a moment in the hope of an
	// idle worker, before it fills the queue of a busy one.
	// +optional
	HoldBack *RouterHoldBack `json:"holdBack,omitempty"`

	// resources are the requests and limits of the router container.
	// +optional
	Resources *Resources `json:"resources,omitempty"`
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

// RouterPlacement says where the router runs.
// +kubebuilder:validation:Enum=Software;None
type RouterPlacement string

const (
	// PlacementSoftware runs routers in pods.
	PlacementSoftware RouterPlacement = "Software"
	// PlacementNone runs no router.
	PlacementNone RouterPlacement = "None"
)

// RouterPolicy chooses the worker of a request.
// +kubebuilder:validation:Enum=JBSQ;JSQ;PowerOfTwo;RoundRobin;Random
type RouterPolicy string

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

// RpcServiceStatus says what is running.
type RpcServiceStatus struct {
	// observedGeneration is the generation this status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Accepted, Programmed and Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// replicas is the number of server pods that exist.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas,omitempty"`

	// selector selects the server pods, for autoscalers.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Selector string `json:"selector,omitempty"`

	// workers is "ready/asked for", for people.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Workers string `json:"workers,omitempty"`

	// readyWorkers is the number of workers that take requests.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ReadyWorkers int32 `json:"readyWorkers"`

	// desiredWorkers is the number of workers asked for.
	// +optional
	// +kubebuilder:validation:Minimum=0
	DesiredWorkers int32 `json:"desiredWorkers"`

	// address is what clients are given as the target.
	// +optional
	// +kubebuilder:validation:MaxLength=300
	Address string `json:"address,omitempty"`

	// routers are the live router pods.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Routers []RouterStatus `json:"routers,omitempty"`

	// policy in effect; None when there is no router.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Policy string `json:"policy,omitempty"`

	// device in effect.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Device string `json:"device,omitempty"`

	// forwarding in effect: Transparent, Encapsulated, or None when there is
	// no router.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Forwarding string `json:"forwarding,omitempty"`

	// jitter is what the probes of `spec.hedging` measured; absent while there
	// are none.
	// +optional
	Jitter *JitterStatus `json:"jitter,omitempty"`

	// hedging is what routers do about second copies, and why; absent while
	// `spec.hedging` is.
	// +optional
	Hedging *HedgingStatus `json:"hedging,omitempty"`

	// configHash is the SHA-256 of the configuration that routers and servers
	// should be running.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ConfigHash string `json:"configHash,omitempty"`
}

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
