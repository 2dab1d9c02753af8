// SPDX-License-Identifier: Apache-2.0

// RpcService is the kind a user deploys: servers that execute RPCs, and the
// routers that place each request on the least loaded worker.
package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RpcService is a replicated RPC server behind a request router, or a replicated
// TCP server behind a balancer of connections.
//
// Clients find it under its own name: `<name>.<namespace>.svc`, port 8000 with
// protocol R2P2. With TCP they are best given `status.address`.
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
// +kubebuilder:printcolumn:name="Address",type=string,priority=1,JSONPath=`.status.address`
// +kubebuilder:printcolumn:name="Forwarding",type=string,priority=1,JSONPath=`.status.forwarding`
// +kubebuilder:printcolumn:name="FastPath",type=string,priority=1,JSONPath=`.status.fastPath.state`
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
// +kubebuilder:validation:XValidation:rule="!has(self.hedging) || self.hedging.mode == 'Off' || (self.router.placement == 'Software' && self.router.policy == 'JBSQ')",message="`hedging` needs `router.placement` Software and `router.policy` JBSQ: that router alone knows that nothing waits for the worker of a hedged request"
// +kubebuilder:validation:XValidation:rule="!has(self.router.fastPath) || self.router.fastPath == 'Off' || !has(self.hedging) || self.hedging.mode == 'Off'",message="`router.fastPath` Auto needs `hedging.mode` Off: a router that may send hedged requests has to see every request itself"
// +kubebuilder:validation:XValidation:rule="!has(self.flowControl) || self.protocol == 'R2P2'",message="`flowControl` needs `protocol` R2P2: replies carry what it says"
// +kubebuilder:validation:XValidation:rule="!has(self.flowControl) || self.router.placement != 'Switch'",message="`flowControl` needs `router.placement` Software or None: what a switch drops says nothing of it"
// +kubebuilder:validation:XValidation:rule="!has(self.flowControl) || self.flowControl.waitMicroseconds < self.requestTimeoutMilliseconds * 1000",message="`flowControl.waitMicroseconds` must be less than `requestTimeoutMilliseconds`: nobody waits for longer"
// +kubebuilder:validation:XValidation:rule="!has(self.scheduling) || self.protocol == 'R2P2'",message="`scheduling` needs `protocol` R2P2: threads of another server are its own"
// +kubebuilder:validation:XValidation:rule="!has(self.scheduling) || self.device.type == 'Kernel'",message="`scheduling` needs `device.type` Kernel: its threads read sockets"
// +kubebuilder:validation:XValidation:rule="!has(self.scheduling) || self.router.placement != 'Switch'",message="`scheduling` needs `router.placement` Software or None: a switch does not follow the cores of a lane"
// +kubebuilder:validation:XValidation:rule="!has(self.scheduling) || self.scheduling.mode != 'WorkStealing' || (self.workersPerReplica <= 4 && self.workersPerReplica <= self.scheduling.maxCores)",message="`workersPerReplica` counts lanes when `scheduling.mode` is WorkStealing: give 1 to 4, and no more than `scheduling.maxCores`, or leave it out"
// +kubebuilder:validation:XValidation:rule="!has(self.scheduling) || self.scheduling.mode != 'RunToCompletion' || self.workersPerReplica in [1, self.scheduling.maxCores]",message="`workersPerReplica` is `scheduling.maxCores` when `scheduling.mode` is RunToCompletion: each core is a worker; leave it out"
// +kubebuilder:validation:XValidation:rule="!has(self.scheduling) || (self.replicas + 1) * self.scheduling.maxCores <= 1024 || self.scheduling.mode == 'WorkStealing'",message="`replicas` plus 1, times `scheduling.maxCores`, must not be more than 1024 when `scheduling.mode` is RunToCompletion: so many workers one router set handles"
// +kubebuilder:validation:XValidation:rule="!has(self.scheduling) || self.scheduling.mode != 'WorkStealing' || (self.replicas + 1) * ((self.scheduling.maxCores + 15) / 16) <= 1024",message="`replicas` plus 1, times the lanes of 16 cores, must not be more than 1024: so many workers one router set handles"
// +kubebuilder:validation:XValidation:rule="!has(self.scheduling) || !has(self.server) || !((has(self.server.resources) && ((has(self.server.resources.requests) && 'cpu' in self.server.resources.requests) || (has(self.server.resources.limits) && 'cpu' in self.server.resources.limits))) || (has(self.server.podTemplate) && has(self.server.podTemplate.spec) && has(self.server.podTemplate.spec.containers) && self.server.podTemplate.spec.containers.exists(c, c.name == 'server' && has(c.resources) && ((has(c.resources.requests) && 'cpu' in c.resources.requests) || (has(c.resources.limits) && 'cpu' in c.resources.limits)))))",message="`cpu` may not be given in the resources of the container `server` with `scheduling`: `minCores` is its request and `maxCores` its limit"
// +kubebuilder:validation:XValidation:rule="self.protocol == oldSelf.protocol",message="`protocol` cannot be changed: clients of the two cannot talk to the same pods; create another RpcService"
// +kubebuilder:validation:XValidation:rule="self.protocol != 'TCP' || self.router.placement == 'None'",message="`router.placement` must be None when `protocol` is TCP: CRAB balances connections by their SYN, and no router sees their requests"
// +kubebuilder:validation:XValidation:rule="(self.protocol == 'TCP') == has(self.tcp)",message="`tcp` must be given when `protocol` is TCP, and only then: it names the port that servers listen on"
// +kubebuilder:validation:XValidation:rule="self.protocol != 'TCP' || (self.workersPerReplica == 1 && !has(self.hedging))",message="`workersPerReplica` and `hedging` may not be specified when `protocol` is TCP: nobody but the server sees its requests"
// +kubebuilder:validation:XValidation:rule="self.protocol != 'TCP' || (self.requestTimeoutMilliseconds == 10000 && self.legacyPeers == 'Deny')",message="`requestTimeoutMilliseconds` and `legacyPeers` may not be specified when `protocol` is TCP: they are about messages of R2P2"
// +kubebuilder:validation:XValidation:rule="self.protocol != 'TCP' || self.device.type == 'Kernel' || !has(self.tcp) || !has(self.tcp.readiness)",message="`tcp.readiness` needs `device.type` Kernel: probes come by the pod network, where such a pod does not listen"
// +kubebuilder:validation:XValidation:rule="self.device.type == 'Kernel' || !has(self.router.fastPath) || self.router.fastPath == 'Off'",message="`router.fastPath` Auto needs `device.type` Kernel: packets of another device do not come by the kernel"
// +kubebuilder:validation:XValidation:rule="self.router.placement != 'Switch' || self.legacyPeers == 'Deny'",message="`legacyPeers` must be Deny when `router.placement` is Switch: the switch does not read the 16-byte FEEDBACK"
// +kubebuilder:validation:XValidation:rule="self.router.placement != 'Switch' || self.router.policy == 'JBSQ' || (self.replicas + 1) * self.workersPerReplica <= 256",message="`replicas` plus 1, times `workersPerReplica`, must not be more than 256 when `router.placement` is Switch and `router.policy` is not JBSQ: the switch counts turns up to 256"
// +kubebuilder:validation:XValidation:rule="self.protocol != 'R2P2' || (!has(self.server) || !has(self.server.podTemplate) || !has(self.server.podTemplate.spec) || !has(self.server.podTemplate.spec.containers) || self.server.podTemplate.spec.containers.all(c, (!has(c.ports) || c.ports.all(p, p.containerPort < 8000 || p.containerPort > 8063))))",message="`ports` in `server.podTemplate` may not be 8000 to 8063: the workers listen there; choose another number"
// +kubebuilder:validation:XValidation:rule="self.protocol != 'TCP' || (!has(self.server) || !has(self.server.podTemplate) || !has(self.server.podTemplate.spec) || !has(self.server.podTemplate.spec.containers) || self.server.podTemplate.spec.containers.all(c, (!has(c.ports) || c.ports.all(p, p.containerPort != self.?tcp.?port.orValue(0)))))",message="`ports` in `server.podTemplate` may not be `tcp.port`: that port is there; choose another number"
// +kubebuilder:validation:XValidation:rule="!self.?tcp.?readiness.hasValue() || !(has(self.server) && has(self.server.podTemplate) && has(self.server.podTemplate.spec) && has(self.server.podTemplate.spec.containers) && self.server.podTemplate.spec.containers.exists(c, c.name == 'server' && has(c.readinessProbe)))",message="`tcp.readiness` and `readinessProbe` of the container `server` of `server.podTemplate` exclude each other: give one"
// +kubebuilder:validation:XValidation:rule="self.protocol != 'TCP' || self.?server.?podTemplate.?spec.?terminationGracePeriodSeconds.orValue(3600) >= self.?tcp.?drainSeconds.orValue(5)",message="`server.podTemplate.spec.terminationGracePeriodSeconds` must not be less than `tcp.drainSeconds`: the drain would be cut short"
// +kubebuilder:validation:XValidation:rule="!has(self.imagePullSecrets) || !(self.?server.?podTemplate.?spec.?imagePullSecrets.hasValue() || self.?router.?podTemplate.?spec.?imagePullSecrets.hasValue())",message="`imagePullSecrets` and those of a `podTemplate` exclude each other: give one"
// +kubebuilder:validation:XValidation:rule="self.device.type == 'Kernel' || !((has(self.server) && has(self.server.podTemplate) && has(self.server.podTemplate.metadata) && has(self.server.podTemplate.metadata.annotations) && self.server.podTemplate.metadata.annotations.exists(k, k == 'k8s.v1.cni.cncf.io/networks')) || (has(self.router) && has(self.router.podTemplate) && has(self.router.podTemplate.metadata) && has(self.router.podTemplate.metadata.annotations) && self.router.podTemplate.metadata.annotations.exists(k, k == 'k8s.v1.cni.cncf.io/networks')))",message="`k8s.v1.cni.cncf.io/networks` in a `podTemplate` needs `device.type` Kernel: the operator writes that annotation for the device"
// +kubebuilder:validation:XValidation:rule="self.protocol != 'TCP' || self.device.type != 'Kernel' || !has(self.sidecarResources)",message="`sidecarResources` may not be specified when `protocol` is TCP and `device.type` is Kernel: those pods have no sidecar"
type RpcServiceSpec struct {
	// replicas is the number of server pods.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=256
	Replicas *int32 `json:"replicas,omitempty"`

	// workersPerReplica is the number of workers in each server pod. Worker i
	// listens on UDP port 8000+i and executes one request at a time. With
	// `scheduling` a worker is a lane of cores; fewer than the cores need, one for 16
	// with WorkStealing and one for each with RunToCompletion, stand for that number.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	WorkersPerReplica int32 `json:"workersPerReplica,omitempty"`

	// protocol is what clients speak. R2P2 has routers that see every request.
	// With TCP the servers are any program that listens on a port, and CRAB
	// balances the connections (docs/guides/crab.md).
	// +optional
	// +kubebuilder:default=R2P2
	Protocol Protocol `json:"protocol,omitempty"`

	// tcp says how connections reach the servers; with protocol TCP, and only
	// with it.
	// +optional
	TCP *RpcServiceTCP `json:"tcp,omitempty"`

	// device says through which network device packets travel.
	// +optional
	// +kubebuilder:default={type: Kernel}
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

	// sidecarResources are the requests and limits of the sidecar in server and
	// router pods. Left out, or left out for one of them: requests of a hundredth of
	// a processor, 32Mi of memory and 16Mi of ephemeral storage, limits of half a
	// processor, 128Mi and 64Mi.
	// +optional
	SidecarResources *Resources `json:"sidecarResources,omitempty"`

	// imagePullSecrets name Secrets of this namespace for pulling the images
	// of server and router pods.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	ImagePullSecrets []SecretReference `json:"imagePullSecrets,omitempty"`

	// flowControl has servers tell clients how much they may send, so that requests
	// do not wait for too long (docs/guides/flow-control.md).
	// +optional
	FlowControl *RpcServiceFlowControl `json:"flowControl,omitempty"`

	// scheduling says how a server uses its cores (docs/guides/work-stealing.md). Left
	// out, a server does as it is built to, and its resources are as given.
	// +optional
	Scheduling *RpcServiceScheduling `json:"scheduling,omitempty"`
}

// Protocol is what clients speak.
// +kubebuilder:validation:Enum=R2P2;TCP
type Protocol string

const (
	// ProtocolR2P2 is the Request-Response Pair Protocol over UDP.
	ProtocolR2P2 Protocol = "R2P2"
	// ProtocolTCP is whatever the servers speak over TCP.
	ProtocolTCP Protocol = "TCP"
)

// LegacyPeersPolicy says whether untagged peers may take part.
// +kubebuilder:validation:Enum=Deny;Allow
type LegacyPeersPolicy string

const (
	// LegacyPeersDeny requires a valid tag on every control message.
	LegacyPeersDeny LegacyPeersPolicy = "Deny"
	// LegacyPeersAllow also believes untagged control messages.
	LegacyPeersAllow LegacyPeersPolicy = "Allow"
)

// LegacyPeersPolicies are all of them, in the dataplane's order.
var LegacyPeersPolicies = []LegacyPeersPolicy{LegacyPeersDeny, LegacyPeersAllow}

// RpcServiceServer says what runs in the server pods.
//
// The container finds its surroundings in the environment: POD_IP,
// BOBTAIL_PORT, BOBTAIL_WORKERS, with `scheduling` BOBTAIL_SCHEDULING, BOBTAIL_CTL, BOBTAIL_KEY_DIR and
// BOBTAIL_CONFIG_CACHE; with protocol TCP it is POD_IP and BOBTAIL_PORT alone,
// with a device other than Kernel also BOBTAIL_DEVICE and BOBTAIL_ADDRESS_FILE.
// It runs as user 65532 without privileges, with such a device as root with few
// capabilities.
//
// +kubebuilder:validation:XValidation:rule="has(self.image) != (has(self.podTemplate) && has(self.podTemplate.spec) && has(self.podTemplate.spec.containers) && self.podTemplate.spec.containers.exists(c, c.name == 'server' && has(c.image)))",message="`image` must be given here or in the container `server` of `podTemplate`, and not in both: give one"
// +kubebuilder:validation:XValidation:rule="!has(self.nodeSelector) || !self.?podTemplate.?spec.?nodeSelector.hasValue()",message="`nodeSelector` and `podTemplate.spec.nodeSelector` exclude each other: give one"
// +kubebuilder:validation:XValidation:rule="self.?imagePullPolicy.orValue('IfNotPresent') == 'IfNotPresent' || !(has(self.podTemplate) && has(self.podTemplate.spec) && has(self.podTemplate.spec.containers) && self.podTemplate.spec.containers.exists(c, c.name == 'server' && has(c.imagePullPolicy)))",message="`imagePullPolicy` and that of the container `server` of `podTemplate` exclude each other: give one"
// +kubebuilder:validation:XValidation:rule="!has(self.command) || !(has(self.podTemplate) && has(self.podTemplate.spec) && has(self.podTemplate.spec.containers) && self.podTemplate.spec.containers.exists(c, c.name == 'server' && has(c.command)))",message="`command` and that of the container `server` of `podTemplate` exclude each other: give one"
// +kubebuilder:validation:XValidation:rule="!has(self.args) || !(has(self.podTemplate) && has(self.podTemplate.spec) && has(self.podTemplate.spec.containers) && self.podTemplate.spec.containers.exists(c, c.name == 'server' && has(c.args)))",message="`args` and those of the container `server` of `podTemplate` exclude each other: give one"
// +kubebuilder:validation:XValidation:rule="!has(self.env) || !(has(self.podTemplate) && has(self.podTemplate.spec) && has(self.podTemplate.spec.containers) && self.podTemplate.spec.containers.exists(c, c.name == 'server' && has(c.env)))",message="`env` and that of the container `server` of `podTemplate` exclude each other: give one"
// +kubebuilder:validation:XValidation:rule="!has(self.resources) || !(has(self.podTemplate) && has(self.podTemplate.spec) && has(self.podTemplate.spec.containers) && self.podTemplate.spec.containers.exists(c, c.name == 'server' && ((has(c.resources) && has(c.resources.requests)) || (has(c.resources) && has(c.resources.limits)))))",message="`resources` and those of the container `server` of `podTemplate` exclude each other: give one"
// +kubebuilder:validation:XValidation:rule="(!has(self.podTemplate) || !has(self.podTemplate.spec) || !has(self.podTemplate.spec.containers) || self.podTemplate.spec.containers.all(c, !(c.name == 'server') || (!has(c.env) || c.env.all(e, e.name != 'POD_IP' && !e.name.startsWith('BOBTAIL_')))))",message="`env` of the container `server` of `podTemplate` may not have POD_IP or names that start with BOBTAIL_: these are set by the operator"
type RpcServiceServer struct {
	// image is the container image of the server. It is given here or in the
	// container `server` of podTemplate.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9\\\\[]([-A-Za-z0-9._/:\\\\[\\\\]]*[A-Za-z0-9])?(@[A-Za-z0-9+._-]+:[0-9a-fA-F]+)?$')",message="`image` must be the name of an image: give one such as registry.example/app:1.2"
	Image string `json:"image,omitempty"`

	// imagePullPolicy says when the image is pulled.
	// +optional
	// +kubebuilder:default=IfNotPresent
	// +kubebuilder:validation:Enum=IfNotPresent;Always;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// command replaces the entrypoint of the image. When it is empty, the
	// options every Bobtail server understands (--address, --port, --workers,
	// --ctl, --key-dir, --config-cache) are passed before `args`; when it is
	// set, or with protocol TCP, nothing is added, and `args` may refer to the
	// environment as $(POD_IP).
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
	NodeSelector map[string]LabelValue `json:"nodeSelector,omitempty"`

	// podTemplate is merged into the server pods: tolerations, affinity, volumes,
	// more containers and whatever else a Deployment's template takes. The container
	// of the server is the one named `server`; its image, command, args, env and
	// resources mean there what they mean here, and are given in one place only.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.?spec.?restartPolicy.orValue('Always') == 'Always'",message="`spec.restartPolicy` must be Always: pods of a Deployment are started again"
	// +kubebuilder:validation:XValidation:rule="(!has(self.spec) || !has(self.spec.containers) || self.spec.containers.all(c, (!has(c.ports) || c.ports.all(p, !(p.containerPort in [9443, 9464]) && !((has(p.name) && p.name in ['sidecar', 'metrics', 'tcp'])))))) && (!has(self.spec) || !has(self.spec.initContainers) || self.spec.initContainers.all(c, (!has(c.ports) || c.ports.all(p, !(p.containerPort in [9443, 9464]) && !((has(p.name) && p.name in ['sidecar', 'metrics', 'tcp']))))))",message="`ports` may not be 9443 or 9464, or be named sidecar, metrics or tcp: these are the sidecar's and the server's; choose another number and name, such as app-metrics"
	PodTemplate *PodTemplate `json:"podTemplate,omitempty"`
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
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="`name` must be small letters, digits, dashes and dots: give one such as registry-login"
	Name string `json:"name,omitempty"`
}

// Resources are the compute resources of one container.
//
// +kubebuilder:validation:XValidation:rule="!has(self.limits) || !has(self.requests) || self.requests.all(k, !(k in self.limits) || quantity(string(self.requests[k])).compareTo(quantity(string(self.limits[k]))) <= 0)",message="`limits` must not be below `requests` of the same resource: no pod could have both"
// +kubebuilder:validation:XValidation:rule="(!has(self.limits) || self.limits.all(k, !string(self.limits[k]).startsWith('-'))) && (!has(self.requests) || self.requests.all(k, !string(self.requests[k]).startsWith('-')))",message="`limits` and `requests` must not be negative: give 0, or leave the resource out"
// +kubebuilder:validation:XValidation:rule="(!has(self.limits) || self.limits.all(k, k in ['cpu', 'memory', 'ephemeral-storage'] || k.startsWith('hugepages-') || k.contains('/'))) && (!has(self.requests) || self.requests.all(k, k in ['cpu', 'memory', 'ephemeral-storage'] || k.startsWith('hugepages-') || k.contains('/')))",message="`limits` and `requests` must name cpu, memory, ephemeral-storage, hugepages-…, or a resource with a domain such as example.com/card: nodes have no others"
type Resources struct {
	// requests are the amounts the scheduler sets aside.
	// +optional
	// +kubebuilder:validation:MaxProperties=7
	Requests corev1.ResourceList `json:"requests,omitempty"`

	// limits are the amounts the container may not exceed.
	// +optional
	// +kubebuilder:validation:MaxProperties=7
	Limits corev1.ResourceList `json:"limits,omitempty"`
}

// RpcServiceStatus says what is running.
type RpcServiceStatus struct {
	// observedGeneration is the generation this status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Accepted, Programmed and Ready; with a device other than
	// Kernel also DeviceUsable and Addressed.
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

	// address is what clients are given as the target: with protocol TCP the
	// first of `addresses`, and the name of the Service while there is none.
	// +optional
	// +kubebuilder:validation:MaxLength=300
	Address string `json:"address,omitempty"`

	// addresses are those of the load balancer, as HOST:PORT; with protocol TCP
	// only.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MaxLength=64
	Addresses []string `json:"addresses,omitempty"`

	// routers are the live router pods.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Routers []RouterStatus `json:"routers,omitempty"`

	// policy in effect; None when nobody places requests or connections.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Policy string `json:"policy,omitempty"`

	// device in effect.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Device string `json:"device,omitempty"`

	// devices are the entries of `spec.device` in order, with what became of
	// each; absent while it is Kernel.
	// +optional
	// +listType=map
	// +listMapKey=entry
	// +kubebuilder:validation:MaxItems=5
	Devices []DeviceStatus `json:"devices,omitempty"`

	// podDevices are the devices of running pods, as their programs report them;
	// of at most 64 pods.
	// +optional
	// +listType=map
	// +listMapKey=pod
	// +kubebuilder:validation:MaxItems=64
	PodDevices []PodDevice `json:"podDevices,omitempty"`

	// deviceChoice is the entry that was taken, and what it was taken for;
	// absent while `spec.device` is Kernel.
	// +optional
	DeviceChoice *DeviceChoice `json:"deviceChoice,omitempty"`

	// forwarding in effect: Transparent, Encapsulated, or None when there is
	// no router; with placement Switch that of the pods that stand by.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Forwarding string `json:"forwarding,omitempty"`

	// switch says how the service stands with the switch; absent while none knows
	// of it.
	// +optional
	Switch *RpcServiceSwitchStatus `json:"switch,omitempty"`

	// fastPath says whether requests are decided in the kernel; absent while
	// Off is in effect, by `spec.router.fastPath` or by the cluster's choice.
	// +optional
	FastPath *FastPathStatus `json:"fastPath,omitempty"`

	// jitter is what the probes of `spec.hedging` measured; absent while there
	// are none.
	// +optional
	Jitter *JitterStatus `json:"jitter,omitempty"`

	// hedging is what routers do about hedged requests, and why; absent while
	// `spec.hedging` is.
	// +optional
	Hedging *HedgingStatus `json:"hedging,omitempty"`

	// configHash is the SHA-256 of the configuration that routers and servers
	// should be running.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ConfigHash string `json:"configHash,omitempty"`

	// flowControl is what servers say of it; absent while `spec.flowControl` is.
	// +optional
	FlowControl *FlowControlStatus `json:"flowControl,omitempty"`

	// scheduling is what servers say of their cores; absent while `spec.scheduling`
	// is, or no server says anything.
	// +optional
	Scheduling *SchedulingStatus `json:"scheduling,omitempty"`
}
