// SPDX-License-Identifier: Apache-2.0

// The device of an RpcService: the network that its routers and servers speak on,
// and what they fall back to where a cluster cannot give it.
package v1alpha1

// RpcServiceDevice says through which network device packets travel.
//
// +kubebuilder:validation:XValidation:rule="!has(self.fallback) || self.type != 'Kernel'",message="`fallback` may not be specified when `type` is Kernel: it works everywhere, so nothing after it is ever taken"
// +kubebuilder:validation:XValidation:rule="!has(self.fallback) || !self.fallback.exists(f, f.type == self.type && has(f.networkAttachment) == has(self.networkAttachment) && (!has(f.networkAttachment) || f.networkAttachment == self.networkAttachment) && has(f.resourceName) == has(self.resourceName) && (!has(f.resourceName) || f.resourceName == self.resourceName) && has(f.resourceClaimTemplateName) == has(self.resourceClaimTemplateName) && (!has(f.resourceClaimTemplateName) || f.resourceClaimTemplateName == self.resourceClaimTemplateName))",message="`fallback` must not list the device itself: what could not be had is not had the second time"
// +kubebuilder:validation:XValidation:rule="!has(self.fallback) || self.fallback.all(f, self.fallback.exists_one(g, f.type == g.type && has(f.networkAttachment) == has(g.networkAttachment) && (!has(f.networkAttachment) || f.networkAttachment == g.networkAttachment) && has(f.resourceName) == has(g.resourceName) && (!has(f.resourceName) || f.resourceName == g.resourceName) && has(f.resourceClaimTemplateName) == has(g.resourceClaimTemplateName) && (!has(f.resourceClaimTemplateName) || f.resourceClaimTemplateName == g.resourceClaimTemplateName)))",message="`fallback` must list every device once: what could not be had is not had the second time"
// +kubebuilder:validation:XValidation:rule="!has(self.fallback) || self.fallback.all(f, f.type != 'Kernel' || self.fallback[self.fallback.size() - 1].type == 'Kernel')",message="`fallback` must have Kernel last: it works everywhere, so nothing after it is ever taken"
type RpcServiceDevice struct {
	Device `json:",inline"`

	// fallback are the devices to take instead, in order, each a whole one: an
	// entry that cannot be had gives way to the next, for all pods of the
	// service. What was taken is kept until `spec.device` or the annotation
	// `bobtail.dev/retry-device` changes. `status.devices` says why an entry
	// failed. Without it the service waits for its device.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:MinItems=1
	Fallback []Device `json:"fallback,omitempty"`
}

// Entries are the device and those to fall back to, in order.
func (d *RpcServiceDevice) Entries() []Device {
	return append([]Device{d.Device}, d.Fallback...)
}

// Device is a network device and what pods need to have one.
//
// +kubebuilder:validation:XValidation:rule="self.type == 'Kernel' || has(self.networkAttachment)",message="`networkAttachment` must be given when `type` is AFXDP or SRIOV: it names the network that the device is on"
// +kubebuilder:validation:XValidation:rule="self.type != 'Kernel' || !(has(self.networkAttachment) || has(self.resourceName) || has(self.resourceClaimTemplateName) || has(self.hugepages) || has(self.gateway))",message="`networkAttachment`, `resourceName`, `resourceClaimTemplateName`, `hugepages` and `gateway` may not be specified when `type` is Kernel: its packets travel on the pod network"
// +kubebuilder:validation:XValidation:rule="!(has(self.resourceName) && has(self.resourceClaimTemplateName))",message="`resourceName` and `resourceClaimTemplateName` exclude each other: a pod gets its device from a device plugin or by a claim"
// +kubebuilder:validation:XValidation:rule="self.type != 'SRIOV' || has(self.resourceName) || has(self.resourceClaimTemplateName)",message="`resourceName` or `resourceClaimTemplateName` must be given when `type` is SRIOV: without a request no pod gets a virtual function"
type Device struct {
	// type is the kind of device. Kernel uses the sockets of the pod network
	// and works everywhere. AFXDP takes the frames of a second interface past
	// the kernel; SRIOV drives a virtual function of a card with DPDK. Both
	// run router and server containers as root with few capabilities.
	// +optional
	// +kubebuilder:default=Kernel
	Type DeviceType `json:"type,omitempty"`

	// networkAttachment names the NetworkAttachmentDefinition of the second
	// interface, as NAME or NAMESPACE/NAME. Its namespace is that of the
	// service or `default`. It needs IPAM: the address that
	// `k8s.v1.cni.cncf.io/network-status` tells is the one that peers and
	// clients use.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=127
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/)?[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`
	NetworkAttachment string `json:"networkAttachment,omitempty"`

	// resourceName is the extended resource of which router and server
	// containers request one, such as `intel.com/sriov_vfs`.
	// +optional
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=127
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	ResourceName string `json:"resourceName,omitempty"`

	// resourceClaimTemplateName is the ResourceClaimTemplate of this namespace
	// by which pods claim the device, where nodes have a DRA driver.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ResourceClaimTemplateName string `json:"resourceClaimTemplateName,omitempty"`

	// hugepages are those of each router and server container. Left out,
	// packet buffers lie in ordinary memory.
	// +optional
	Hugepages *Hugepages `json:"hugepages,omitempty"`

	// gateway is the next hop for addresses outside the network of the device:
	// the first 24 bits of an IPv4 address, the first 64 of an IPv6 address.
	// Left out, only that network is reached.
	// +optional
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="isIP(self)",message="`gateway` must be an IP address, such as 10.0.0.1: it is the next hop, and nobody looks a name up"
	Gateway string `json:"gateway,omitempty"`
}

// Hugepages are huge pages of one size.
type Hugepages struct {
	// pageMebibytes is the size of a page.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Enum=2;1024
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=1024
	PageMebibytes int32 `json:"pageMebibytes,omitempty"`

	// pages is their number in each container. The default number of packet
	// buffers takes 34 pages of 2 MiB.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=32768
	Pages int32 `json:"pages,omitempty"`
}

// DeviceType is a kind of network device.
// +kubebuilder:validation:Enum=Kernel;AFXDP;SRIOV
type DeviceType string

const (
	// DeviceKernel is the pod network through kernel sockets.
	DeviceKernel DeviceType = "Kernel"
	// DeviceAFXDP is a second interface whose frames go past the kernel.
	DeviceAFXDP DeviceType = "AFXDP"
	// DeviceSRIOV is a virtual function of a card, driven by DPDK.
	DeviceSRIOV DeviceType = "SRIOV"
)

// DeviceTypes are all of them, in the dataplane's order.
var DeviceTypes = []DeviceType{DeviceKernel, DeviceAFXDP, DeviceSRIOV}

// DeviceStatus is what became of one entry of `spec.device`.
type DeviceStatus struct {
	// entry is its place: 0 is the device itself, 1 the first of `fallback`.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4
	Entry int32 `json:"entry"`

	// device describes the entry in one line.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=400
	Device string `json:"device,omitempty"`

	// state is InUse, Failed or Waiting.
	// +required
	State DeviceState `json:"state,omitempty"`

	// reason is a word for why: DefinitionMissing, for instance.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`

	// message says it to people.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// DeviceState says what is done with an entry.
// +kubebuilder:validation:Enum=InUse;Failed;Waiting
type DeviceState string

const (
	// DeviceInUse: pods are made for it.
	DeviceInUse DeviceState = "InUse"
	// DeviceFailed: it could not be had; the reason stands beside it.
	DeviceFailed DeviceState = "Failed"
	// DeviceWaiting: an entry before it is in use.
	DeviceWaiting DeviceState = "Waiting"
)

// PodDevice is the device of one pod, as its program found it. NUMA nodes are -1
// where nobody knows, and for CPUs that lie on several.
type PodDevice struct {
	// pod is the pod's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Pod string `json:"pod,omitempty"`

	// driver is DPDK's name for it: net_af_xdp, net_e1000_igb_vf.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Driver string `json:"driver,omitempty"`

	// pciAddress of a PCI device.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	PCIAddress string `json:"pciAddress,omitempty"`

	// mac is its own address on the link.
	// +optional
	// +kubebuilder:validation:MaxLength=17
	MAC string `json:"mac,omitempty"`

	// mtu is the largest IP packet that the program sends by it, in bytes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MTU int32 `json:"mtu,omitempty"`

	// deviceNode is the NUMA node of the device.
	// +required
	// +kubebuilder:validation:Minimum=-1
	DeviceNode int32 `json:"deviceNode"`

	// memoryNode is the NUMA node of the packet buffers.
	// +required
	// +kubebuilder:validation:Minimum=-1
	MemoryNode int32 `json:"memoryNode"`

	// cpuNode is the NUMA node of the CPUs.
	// +required
	// +kubebuilder:validation:Minimum=-1
	CPUNode int32 `json:"cpuNode"`

	// hugepagesMebibytes is what the program took; 0 is ordinary memory.
	// +optional
	// +kubebuilder:validation:Minimum=0
	HugepagesMebibytes int32 `json:"hugepagesMebibytes,omitempty"`

	// cpus are those the program may run on: 2-3,6.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	CPUs string `json:"cpus,omitempty"`
}

// DeviceChoice is what was decided, and for what.
type DeviceChoice struct {
	// entry is the place of the entry that pods are made for.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4
	Entry int32 `json:"entry"`

	// askedHash stands for `spec.device` and the annotation
	// `bobtail.dev/retry-device` as they were; another value starts over.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	AskedHash string `json:"askedHash,omitempty"`
}
