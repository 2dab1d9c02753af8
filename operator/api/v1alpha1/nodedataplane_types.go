// SPDX-License-Identifier: Apache-2.0

// NodeDataplane is the kind in which the agents of each node tell what CRAB does
// there, and what the node has for services on devices.
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeDataplane says what the node of the same name does for CRAB. The agent of
// that node writes it; there is nothing to specify. It belongs to the Node, and
// goes away with it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=nodedataplanes,singular=nodedataplane,shortName=ndp,categories=bobtail,scope=Cluster
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Owned",type=integer,JSONPath=`.status.ownedVIPs`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.status.devices[?(@.placement=="Uplink")].mode`
// +kubebuilder:printcolumn:name="Agent",type=string,priority=1,JSONPath=`.status.agentVersion`
// +kubebuilder:printcolumn:name="Layout",type=integer,priority=1,JSONPath=`.status.layoutVersion`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeDataplane struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// status says what the node does. Its agent writes it.
	// +optional
	Status NodeDataplaneStatus `json:"status,omitempty,omitzero"`
}

// NodeDataplaneList is a list of NodeDataplane.
//
// +kubebuilder:object:root=true
type NodeDataplaneList struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the nodes.
	Items []NodeDataplane `json:"items"`
}

// Bounds of NodeDataplaneStatus, for those who fill it in.
const (
	// MaxNodeVIPs bounds status.vips; a node's VIP table is no longer either.
	MaxNodeVIPs = 1024
	// MaxNodeDevices bounds status.devices: the uplink comes first, then the
	// pods whose attachment failed, then others.
	MaxNodeDevices = 256
	// MaxNodePeers bounds status.peers.
	MaxNodePeers = 1024
	// MaxNodeCounters bounds status.counters.
	MaxNodeCounters = 64
	// MaxNodeMessage bounds every text for people in the status.
	MaxNodeMessage = 512
)

// NodeDataplaneStatus says what the node does.
type NodeDataplaneStatus struct {
	// observedGeneration is the generation of this object that the status
	// speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Programmed (the maps hold what the cluster asks of this
	// node) and Ready (the programs are where they must be, too).
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// agentVersion is the version of the agent that wrote this.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	AgentVersion string `json:"agentVersion,omitempty"`

	// layoutVersion is the version of the state the programs keep in the kernel.
	// An agent of another layout does not touch it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	LayoutVersion int64 `json:"layoutVersion,omitempty"`

	// ownedVIPs is how many addresses this node announces.
	// +optional
	// +kubebuilder:validation:Minimum=0
	OwnedVIPs int32 `json:"ownedVIPs"`

	// devices are where programs are attached.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Devices []NodeDevice `json:"devices,omitempty"`

	// vips are the entries of the node's VIP table.
	// +optional
	// +listType=map
	// +listMapKey=address
	// +listMapKey=port
	// +kubebuilder:validation:MaxItems=1024
	VIPs []NodeVIP `json:"vips,omitempty"`

	// peers are the agents of other nodes, as their heartbeats tell.
	// +optional
	// +listType=map
	// +listMapKey=node
	// +kubebuilder:validation:MaxItems=1024
	Peers []NodePeer `json:"peers,omitempty"`

	// counters are those of the programs that are not zero, since the state was
	// made. They are written now and then; the agent's metrics are always fresh.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Counters []NodeCounter `json:"counters,omitempty"`

	// host is what the node has for services on devices of their own, and what it lacks.
	// It is there where the chart's `nodes.enabled` is set, with CRAB or without.
	// +optional
	Host *NodeHost `json:"host,omitempty"`
}

// RunsCRAB says whether an agent of CRAB writes this; else only `agent host` does.
func (n *NodeDataplane) RunsCRAB() bool {
	return n.Status.Host == nil || n.Status.AgentVersion != ""
}

// NodeDevice is a device with programs of CRAB on it.
type NodeDevice struct {
	// name of the device.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	Name string `json:"name,omitempty"`

	// placement is Uplink, through which packets leave the node, or Pod, the
	// node's end of a pod's veth.
	// +required
	// +kubebuilder:validation:Enum=Uplink;Pod
	Placement DevicePlacement `json:"placement,omitempty"`

	// mode is how SYNs are balanced on an uplink: Native or Generic XDP, or TC.
	// It is None where nothing is balanced.
	// +required
	// +kubebuilder:validation:Enum=Native;Generic;TC;None
	Mode DeviceMode `json:"mode,omitempty"`

	// reason says why the mode is not Native, or why the attachment failed.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Reason string `json:"reason,omitempty"`
}

// DevicePlacement is where a device stands between the node's pods and the wire.
type DevicePlacement string

const (
	// PlacementUplink carries what leaves the node.
	PlacementUplink DevicePlacement = "Uplink"
	// PlacementPod is the node's end of a pod's veth.
	PlacementPod DevicePlacement = "Pod"
)

// DeviceMode is how SYNs are balanced on a device.
type DeviceMode string

const (
	// DeviceModeNative: by XDP in the driver.
	DeviceModeNative DeviceMode = "Native"
	// DeviceModeGeneric: by XDP behind the driver.
	DeviceModeGeneric DeviceMode = "Generic"
	// DeviceModeTC: by the tc program alone; slower, same rules.
	DeviceModeTC DeviceMode = "TC"
	// DeviceModeNone: nothing is balanced on this device.
	DeviceModeNone DeviceMode = "None"
)

// NodeVIP is one entry of the node's VIP table.
type NodeVIP struct {
	// address that clients dial, of IPv4 or IPv6.
	// +required
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=39
	Address string `json:"address,omitempty"`

	// port that clients dial.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// namespace of the Service.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// service is its name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Service string `json:"service,omitempty"`

	// revision of the Service's redirection that the maps of this node hold.
	// Pods that come and go do not change it.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Revision string `json:"revision,omitempty"`

	// role is Balancer where SYNs to this address are balanced: on the node that
	// announces it, or whose own address it is. Elsewhere it is Client.
	// +required
	// +kubebuilder:validation:Enum=Balancer;Client
	Role NodeVIPRole `json:"role,omitempty"`

	// upCRAB is how many servers of the pool take redirects. Only a balancer
	// asks them.
	// +optional
	// +kubebuilder:validation:Minimum=0
	UpCRAB int32 `json:"upCRAB,omitempty"`

	// upPlain is how many servers answer but do not know redirects: their nodes
	// have no agent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	UpPlain int32 `json:"upPlain,omitempty"`

	// draining is how many servers get no new connection because they terminate.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Draining int32 `json:"draining,omitempty"`

	// down is how many servers are not ready, or do not answer.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Down int32 `json:"down,omitempty"`

	// fallBack says why connections do not leave the balancer, or why it sends
	// them nowhere; empty when all is well.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	FallBack string `json:"fallBack,omitempty"`
}

// NodeVIPRole is what a node does for a VIP.
type NodeVIPRole string

const (
	// VIPRoleBalancer: SYNs to the address are balanced here.
	VIPRoleBalancer NodeVIPRole = "Balancer"
	// VIPRoleClient: clients of this node may dial the address.
	VIPRoleClient NodeVIPRole = "Client"
)

// NodePeer is the agent of another node.
type NodePeer struct {
	// node is the other node's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node,omitempty"`

	// state is Alive while its heartbeats arrive, or Silent.
	// +required
	// +kubebuilder:validation:Enum=Alive;Silent
	State NodePeerState `json:"state,omitempty"`
}

// NodePeerState says whether heartbeats of a peer arrive.
type NodePeerState string

const (
	// PeerAlive: its heartbeats arrive.
	PeerAlive NodePeerState = "Alive"
	// PeerSilent: they do not; its addresses belong to others.
	PeerSilent NodePeerState = "Silent"
)

// NodeCounter is one counter of the node's programs.
type NodeCounter struct {
	// name of the reason, as in dataplane/bpf/crab_reasons.h.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name,omitempty"`

	// count of packets, or of pieces of state.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Count int64 `json:"count"`
}
