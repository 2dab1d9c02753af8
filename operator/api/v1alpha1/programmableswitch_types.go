// SPDX-License-Identifier: Apache-2.0

// ProgrammableSwitch is the kind that puts a switch into the operator's hands.
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProgrammableSwitch is a switch that speaks P4Runtime. The operator becomes its
// primary controller, has it run a pipeline of Bobtail, and keeps its entries. The
// switch belongs to the pipeline: nothing else forwards on it. Secret and ConfigMaps
// that are named here are in the operator's namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=programmableswitches,singular=programmableswitch,shortName=psw,categories=bobtail,scope=Cluster
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="`metadata.name` must be no longer than 63 characters: metrics carry it"
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.spec.endpoint`
// +kubebuilder:printcolumn:name="Connection",type=string,JSONPath=`.status.connection`
// +kubebuilder:printcolumn:name="Role",type=string,JSONPath=`.status.role`
// +kubebuilder:printcolumn:name="Entries",type=integer,JSONPath=`.status.entries`
// +kubebuilder:printcolumn:name="Services",type=integer,JSONPath=`.status.serviceCount`,priority=1
// +kubebuilder:printcolumn:name="Repaired",type=integer,JSONPath=`.status.entriesRepaired`,priority=1
// +kubebuilder:printcolumn:name="Cookie",type=string,JSONPath=`.status.cookie`,priority=1
// +kubebuilder:printcolumn:name="Programmed",type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ProgrammableSwitch struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says where the switch is, and what it does.
	// +required
	// +kubebuilder:validation:XValidation:rule="self.transport == 'TLS' ? has(self.tls) : !has(self.tls)",message="`tls` must be given with `transport` TLS, and only with it: it says whom to trust"
	// +kubebuilder:validation:XValidation:rule="self.deviceID == oldSelf.deviceID",message="`deviceID` cannot be changed: entries would be left on the other device; create another ProgrammableSwitch"
	// +kubebuilder:validation:XValidation:rule="!has(self.nextHops) || self.nextHops.all(h, h.port in self.ports)",message="`nextHops` must be behind one of `ports`: the switch knows no others"
	// +kubebuilder:validation:XValidation:rule="(has(self.addressPool) && size(self.addressPool) > 0) == has(self.macAddress)",message="`macAddress` must be given with `addressPool`, and only with it: it is what ARP is answered with"
	Spec ProgrammableSwitchSpec `json:"spec,omitzero"`

	// status says what the switch does. The operator writes it.
	// +optional
	Status ProgrammableSwitchStatus `json:"status,omitempty,omitzero"`
}

// ProgrammableSwitchList is a list of ProgrammableSwitch.
//
// +kubebuilder:object:root=true
type ProgrammableSwitchList struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the switches.
	Items []ProgrammableSwitch `json:"items"`
}

// ProgrammableSwitchSpec says where the switch is, and what it does.
type ProgrammableSwitchSpec struct {
	// endpoint is where its P4Runtime server listens, host:port. A new one is
	// another way to the same switch.
	// +required
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=261
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\]):[0-9]{1,5}$`
	Endpoint string `json:"endpoint,omitempty"`

	// deviceID is the number by which the server knows the device: 1 on most switches,
	// 0 on bmv2 unless it is told otherwise.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	DeviceID int64 `json:"deviceID"`

	// transport is TLS, or Plaintext for trials: whoever can reach the server of a
	// switch in the clear can program it.
	// +optional
	// +kubebuilder:default=TLS
	// +kubebuilder:validation:Enum=TLS;Plaintext
	Transport SwitchTransport `json:"transport,omitempty"`

	// tls says whom to trust, and who we are.
	// +optional
	TLS *SwitchTLS `json:"tls,omitempty"`

	// pipeline is the program that the switch runs.
	// +required
	Pipeline SwitchPipeline `json:"pipeline,omitzero"`

	// ports are those that are in use. Frames for everybody go to all others of them.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Minimum=0
	// +kubebuilder:validation:items:Maximum=511
	Ports []int32 `json:"ports,omitempty"`

	// nextHops are the stations behind the ports: hosts and routers. Frames for
	// others are discarded, as the pipeline learns nothing by itself.
	// +optional
	// +listType=map
	// +listMapKey=macAddress
	// +kubebuilder:validation:MaxItems=1024
	NextHops []SwitchNextHop `json:"nextHops,omitempty"`

	// addressPool holds the IPv4 networks that are the switch's own. It answers ARP
	// for them. What is sent to them and is for no service is discarded and counted,
	// and so is what pretends to come from them. A load generator's is one of 16 bits.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=9
	// +kubebuilder:validation:items:MaxLength=18
	// +kubebuilder:validation:items:Pattern=`^([0-9]{1,3}\.){3}[0-9]{1,3}/(1[6-9]|2[0-9]|3[0-2])$`
	AddressPool []string `json:"addressPool,omitempty"`

	// macAddress is the switch's own, in its answers to ARP; in lower case.
	// +optional
	// +kubebuilder:validation:MinLength=17
	// +kubebuilder:validation:MaxLength=17
	// +kubebuilder:validation:Pattern=`^[0-9a-f][02468ace](:[0-9a-f]{2}){5}$`
	MACAddress string `json:"macAddress,omitempty"`
}

// SwitchTransport is how the connection is protected.
type SwitchTransport string

const (
	// TransportTLS: both sides are known.
	TransportTLS SwitchTransport = "TLS"
	// TransportPlaintext: neither is.
	TransportPlaintext SwitchTransport = "Plaintext"
)

// SwitchTLS says whom to trust, and who we are.
type SwitchTLS struct {
	// secretName is a Secret with ca.crt, the authority of the switch's certificate,
	// and, where the switch asks for one, tls.crt and tls.key of ours.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`

	// serverName is the name in the switch's certificate; the host of the endpoint
	// when absent.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ServerName string `json:"serverName,omitempty"`
}

// SwitchPipeline is a compiled program.
//
// +kubebuilder:validation:XValidation:rule="self.mode == 'Push' ? has(self.deviceConfig) : !has(self.deviceConfig)",message="`deviceConfig` must be given with `mode` Push, and only with it: nothing else is pushed"
type SwitchPipeline struct {
	// mode Push puts the pipeline on the switch whenever it runs another one, which
	// interrupts everything on the switch for seconds. Verify waits for somebody else
	// to have put it there.
	// +optional
	// +kubebuilder:default=Push
	// +kubebuilder:validation:Enum=Push;Verify
	Mode SwitchPipelineMode `json:"mode,omitempty"`

	// p4Info is the compiler's description of the tables, in protobuf's text format.
	// +required
	P4Info SwitchPipelinePart `json:"p4Info,omitzero"`

	// deviceConfig is what the compiler made for the switch: one part, or several
	// that are put together in this order, as a ConfigMap holds a mebibyte at most.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	DeviceConfig []SwitchPipelinePart `json:"deviceConfig,omitempty"`
}

// SwitchPipelineMode says whether a pipeline may be pushed.
type SwitchPipelineMode string

const (
	// PipelinePush pushes it where another one runs.
	PipelinePush SwitchPipelineMode = "Push"
	// PipelineVerify only compares.
	PipelineVerify SwitchPipelineMode = "Verify"
)

// SwitchPipelinePart is a key of a ConfigMap, and what it must hold.
type SwitchPipelinePart struct {
	// configMapName is a ConfigMap in the operator's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ConfigMapName string `json:"configMapName,omitempty"`

	// key in its data or binaryData.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key,omitempty"`

	// sha256 of the value, in hexadecimal digits. Another value is not used.
	// +required
	// +kubebuilder:validation:MinLength=64
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	SHA256 string `json:"sha256,omitempty"`
}

// SwitchNextHop is a station behind a port.
type SwitchNextHop struct {
	// macAddress is its own, in lower case.
	// +required
	// +kubebuilder:validation:MinLength=17
	// +kubebuilder:validation:MaxLength=17
	// +kubebuilder:validation:Pattern=`^[0-9a-f][02468ace](:[0-9a-f]{2}){5}$`
	MACAddress string `json:"macAddress,omitempty"`

	// port is where it is.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=511
	Port int32 `json:"port"`

	// networks are the IPv4 networks that are reached by way of it: a host's own
	// address as a /32, or the pods of a node. Workers in none of them get no requests.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=9
	// +kubebuilder:validation:items:MaxLength=18
	// +kubebuilder:validation:items:Pattern=`^([0-9]{1,3}\.){3}[0-9]{1,3}/([0-9]|[12][0-9]|3[0-2])$`
	Networks []string `json:"networks,omitempty"`
}

// Bounds of ProgrammableSwitchStatus, for those who fill it in.
const (
	// MaxSwitchTables bounds status.tables.
	MaxSwitchTables = 32
	// MaxSwitchServices bounds status.services, and with it how many services a switch
	// may have.
	MaxSwitchServices = 256
	// MaxSwitchUnreachable bounds the names of workers that the switch knows no way to.
	MaxSwitchUnreachable = 8
	// MaxSwitchStrangers bounds status.strangers.
	MaxSwitchStrangers = 8
)

// ProgrammableSwitchStatus says what the switch does.
type ProgrammableSwitchStatus struct {
	// observedGeneration is the generation of this object that the status
	// speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Accepted, Programmed and Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// connection is Connected while the operator has a session with the switch.
	// +optional
	// +kubebuilder:validation:Enum=Connected;Disconnected
	Connection SwitchConnection `json:"connection,omitempty"`

	// role is Primary while the operator may write.
	// +optional
	// +kubebuilder:validation:Enum=Primary;Backup
	Role SwitchRole `json:"role,omitempty"`

	// electionID is the operator's, high and low half.
	// +optional
	// +kubebuilder:validation:MaxLength=48
	ElectionID string `json:"electionID,omitempty"`

	// cookie is of the pipeline that the switch says it runs, in hexadecimal digits.
	// +optional
	// +kubebuilder:validation:MaxLength=18
	Cookie string `json:"cookie,omitempty"`

	// pipelinePushes is how often this operator has pushed a pipeline.
	// +optional
	// +kubebuilder:validation:Minimum=0
	PipelinePushes int64 `json:"pipelinePushes,omitempty"`

	// entries is how many the switch holds, as read back.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Entries int64 `json:"entries,omitempty"`

	// entriesRepaired is how many had to be written again because the switch had
	// lost or changed them, since this operator began to lead.
	// +optional
	// +kubebuilder:validation:Minimum=0
	EntriesRepaired int64 `json:"entriesRepaired,omitempty"`

	// entriesOfOthers is how many are not the operator's. They stay.
	// +optional
	// +kubebuilder:validation:Minimum=0
	EntriesOfOthers int64 `json:"entriesOfOthers,omitempty"`

	// strangers are some of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=128
	Strangers []string `json:"strangers,omitempty"`

	// serviceCount is how many services the switch holds, as read back.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ServiceCount int32 `json:"serviceCount"`

	// services are those that ask for this switch, and what became of each.
	// +optional
	// +listType=map
	// +listMapKey=namespace
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Services []SwitchService `json:"services,omitempty"`

	// tables say how full they are.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Tables []SwitchTable `json:"tables,omitempty"`
}

// SwitchConnection says whether there is a session.
type SwitchConnection string

// The two of them.
const (
	SwitchConnected    SwitchConnection = "Connected"
	SwitchDisconnected SwitchConnection = "Disconnected"
)

// SwitchRole is what arbitration made of the operator.
type SwitchRole string

// The two of them.
const (
	SwitchPrimary SwitchRole = "Primary"
	SwitchBackup  SwitchRole = "Backup"
)

// SwitchService is a service of a switch.
type SwitchService struct {
	// namespace of the RpcService.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// name of the RpcService.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`

	// address that is the service's here.
	// +optional
	// +kubebuilder:validation:MaxLength=15
	Address string `json:"address,omitempty"`

	// workers that the switch was asked to place requests on.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Workers int32 `json:"workers"`

	// configHash is of the configuration that the switch holds, as read back; empty
	// while it holds none.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ConfigHash string `json:"configHash,omitempty"`

	// reason says what is in the way; empty: nothing.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`

	// message says it for people.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`

	// unreachableWorkers are some of the workers that are in no network of `nextHops`.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=128
	UnreachableWorkers []string `json:"unreachableWorkers,omitempty"`
}

// SwitchTable says how full a table is.
type SwitchTable struct {
	// name of the table.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name,omitempty"`

	// used entries, whoever wrote them.
	// +required
	// +kubebuilder:validation:Minimum=0
	Used int64 `json:"used"`

	// free entries.
	// +required
	// +kubebuilder:validation:Minimum=0
	Free int64 `json:"free"`
}
