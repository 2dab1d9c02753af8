// SPDX-License-Identifier: Apache-2.0

// What a node has for services on devices of their own, as `agent host` finds it there.
package v1alpha1

// Bounds of NodeHost, for those who fill it in.
const (
	// MaxHostFunctions bounds status.host.virtualFunctions.
	MaxHostFunctions = 256
	// MaxHostHugepages bounds status.host.hugepages.
	MaxHostHugepages = 64
	// MaxHostMissing bounds status.host.missing.
	MaxHostMissing = 32
)

// NodeHost says what a node has for services on AFXDP and SRIOV, and what it lacks. It is
// read there; nothing of it is changed by us.
type NodeHost struct {
	// numaNodes is how many NUMA nodes the machine has; 0 where the kernel does not tell.
	// +optional
	// +kubebuilder:validation:Minimum=0
	NUMANodes int32 `json:"numaNodes"`

	// isolatedCPUs are those that the kernel's scheduler leaves alone: 2-3,6.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	IsolatedCPUs string `json:"isolatedCPUs,omitempty"`

	// exclusiveCPUs are those that the kubelet gives containers for themselves. None are
	// where its CPU manager is not static, or where it was not asked.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	ExclusiveCPUs string `json:"exclusiveCPUs,omitempty"`

	// power is what scheduling of cores finds here; absent from an agent that does not
	// know it.
	// +optional
	Power *HostPower `json:"power,omitempty"`

	// iommu is On where devices reach memory by their own tables only, which vfio-pci needs.
	// +required
	IOMMU HostIOMMU `json:"iommu,omitempty"`

	// afxdp says how frames of the uplink could go past the kernel.
	// +required
	AFXDP HostAFXDP `json:"afxdp,omitempty"`

	// hugepages that were reserved, by size and NUMA node.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Hugepages []HostHugepages `json:"hugepages,omitempty"`

	// virtualFunctions of the machine's network cards, in order of their addresses.
	// +optional
	// +listType=map
	// +listMapKey=pciAddress
	// +kubebuilder:validation:MaxItems=256
	VirtualFunctions []HostFunction `json:"virtualFunctions,omitempty"`

	// missing is what a service on a device would lack here, each with what to add. A
	// machine without a card that has virtual functions lacks none of those.
	// +optional
	// +listType=map
	// +listMapKey=subject
	// +kubebuilder:validation:MaxItems=32
	Missing []HostMissing `json:"missing,omitempty"`
}

// HostPower is who gives processors away, what sets their frequency, and what measures
// their energy.
type HostPower struct {
	// cpuManager is Present where the kubelet gives containers processors for
	// themselves, which `scheduling.cpus` Exclusive needs.
	// +required
	CPUManager HostAbility `json:"cpuManager,omitzero"`

	// cpuFrequency is Present where the kernel can set frequencies.
	// +required
	CPUFrequency HostAbility `json:"cpuFrequency,omitzero"`

	// rapl is Present where the processor counts the energy that it takes.
	// +required
	RAPL HostAbility `json:"rapl,omitzero"`
}

// HostAbility is something that a node has, or why it has not.
type HostAbility struct {
	// state is Present or Absent.
	// +required
	State HostAbilityState `json:"state,omitempty"`

	// value says what is there.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Value string `json:"value,omitempty"`

	// reason says why nothing is.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`
}

// HostAbilityState says whether something is there.
// +kubebuilder:validation:Enum=Present;Absent
type HostAbilityState string

const (
	// AbilityPresent: it can be used.
	AbilityPresent HostAbilityState = "Present"
	// AbilityAbsent: it cannot.
	AbilityAbsent HostAbilityState = "Absent"
)

// HostIOMMU says whether the machine has one that is in use.
// +kubebuilder:validation:Enum=On;Off
type HostIOMMU string

const (
	// IOMMUOn: devices are behind it.
	IOMMUOn HostIOMMU = "On"
	// IOMMUOff: there is none, or the kernel was not told to use it.
	IOMMUOff HostIOMMU = "Off"
)

// HostAFXDP is how AF_XDP would work on the uplink.
// +kubebuilder:validation:Enum=ZeroCopy;Native;Generic;None
type HostAFXDP string

const (
	// AFXDPZeroCopy: the driver writes frames where the program reads them.
	AFXDPZeroCopy HostAFXDP = "ZeroCopy"
	// AFXDPNative: XDP runs in the driver, and frames are copied once.
	AFXDPNative HostAFXDP = "Native"
	// AFXDPGeneric: XDP runs behind the driver, or the kernel does not tell.
	AFXDPGeneric HostAFXDP = "Generic"
	// AFXDPNone: this kernel has no AF_XDP.
	AFXDPNone HostAFXDP = "None"
)

// HostHugepages are the hugepages of one size on one NUMA node.
type HostHugepages struct {
	// pageMebibytes is the size of a page.
	// +required
	// +kubebuilder:validation:Minimum=1
	PageMebibytes int32 `json:"pageMebibytes,omitempty"`

	// numaNode that they are on.
	// +required
	// +kubebuilder:validation:Minimum=0
	NUMANode int32 `json:"numaNode"`

	// pages that were reserved.
	// +required
	// +kubebuilder:validation:Minimum=0
	Pages int64 `json:"pages"`

	// free are those of them that nobody uses.
	// +required
	// +kubebuilder:validation:Minimum=0
	Free int64 `json:"free"`
}

// HostFunction is a virtual function of a network card.
type HostFunction struct {
	// pciAddress is its own.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	PCIAddress string `json:"pciAddress,omitempty"`

	// card is the interface of its physical function, or that one's address where it has none.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	Card string `json:"card,omitempty"`

	// resource is that of the device plugin that hands it out.
	// +optional
	// +kubebuilder:validation:MaxLength=127
	Resource string `json:"resource,omitempty"`

	// driver that it is bound to.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Driver string `json:"driver,omitempty"`

	// link is Up or Down, or Unknown where neither it nor its card tells.
	// +required
	Link HostLink `json:"link,omitempty"`

	// mac is its own address on the link; empty where nobody gave it one.
	// +optional
	// +kubebuilder:validation:MaxLength=17
	MAC string `json:"mac,omitempty"`

	// sameMACAs is another function of this machine with the same address: frames of one go to the other.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	SameMACAs string `json:"sameMACAs,omitempty"`

	// numaNode of the card; -1 where nobody knows.
	// +required
	// +kubebuilder:validation:Minimum=-1
	NUMANode int32 `json:"numaNode"`

	// use is Free, Pod, or Orphan where something holds it and the kubelet gave it to no
	// pod. It is Unknown where the kubelet was not asked.
	// +required
	Use HostUse `json:"use,omitempty"`

	// pod that the kubelet gave it to, as namespace/name.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	Pod string `json:"pod,omitempty"`
}

// HostLink is the state of a link.
// +kubebuilder:validation:Enum=Up;Down;Unknown
type HostLink string

const (
	// LinkUp: it has a carrier.
	LinkUp HostLink = "Up"
	// LinkDown: it has none, or was set down.
	LinkDown HostLink = "Down"
	// LinkUnknown: nobody tells.
	LinkUnknown HostLink = "Unknown"
)

// HostUse is who has a virtual function.
// +kubebuilder:validation:Enum=Free;Pod;Orphan;Unknown
type HostUse string

const (
	// UseFree: nobody.
	UseFree HostUse = "Free"
	// UsePod: a pod.
	UsePod HostUse = "Pod"
	// UseOrphan: something that is no pod of this node.
	UseOrphan HostUse = "Orphan"
	// UseUnknown: the kubelet was not asked.
	UseUnknown HostUse = "Unknown"
)

// HostMissing is one thing that a node lacks.
type HostMissing struct {
	// subject in one word: AFXDP, IOMMU, VirtualFunctions, Module, Driver, Link, Hugepages, CPUManager, Kubelet or
	// FunctionsGone.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	Subject string `json:"subject,omitempty"`

	// message says what is so, and what does not work for it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`

	// add is the line to add, and where. Nobody adds it but its administrator.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Add string `json:"add,omitempty"`
}
