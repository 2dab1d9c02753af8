// SPDX-License-Identifier: Apache-2.0

// Pods on a device other than Kernel: a second interface from Multus, what they need to
// drive it, and the options by which programs take it. Everything about a device is
// here; a service on Kernel does not pass by.
package render

import (
	"encoding/json"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/netstatus"
)

// AnnotationDevice on a pod is the device it was made for, as Describe says it.
const AnnotationDevice = "bobtail.dev/device"

const (
	networkVolume   = "network"
	hugepagesVolume = "hugepages"
	networkDir      = "/etc/bobtail/network"
	statusFile      = "status"
	hugepagesDir    = "/dev/hugepages"
	// AddressFile and PCIFile are what the sidecar writes below the run volume once it
	// believes network-status; programs read them as `@FILE`.
	addressFile = runDir + "/address"
	pciFile     = runDir + "/pci"

	claimName = "device"
)

// deviceCapabilities are what programs need to drive a device and not one more
// (docs/guides/devices.md says which call fails without each).
var deviceCapabilities = map[v1alpha1.DeviceType][]corev1.Capability{
	v1alpha1.DeviceAFXDP: {"NET_RAW", "NET_ADMIN", "BPF", "IPC_LOCK"},
	v1alpha1.DeviceSRIOV: {"IPC_LOCK"},
}

// OnKernel says whether a device is the pod network.
func OnKernel(d v1alpha1.Device) bool { return d.Type == "" || d.Type == v1alpha1.DeviceKernel }

// DeviceNetwork is the NetworkAttachmentDefinition of a device, as namespace/name.
func DeviceNetwork(d v1alpha1.Device, namespace string) string {
	if OnKernel(d) || strings.Contains(d.NetworkAttachment, "/") {
		return d.NetworkAttachment
	}
	return namespace + "/" + d.NetworkAttachment
}

// Describe is a device in one line. Two entries of a service have different ones.
func Describe(d v1alpha1.Device, namespace string) string {
	words := []string{string(d.Type)}
	if network := DeviceNetwork(d, namespace); network != "" {
		words = append(words, network)
	}
	if d.ResourceName != "" {
		words = append(words, d.ResourceName)
	}
	if d.ResourceClaimTemplateName != "" {
		words = append(words, "claim "+d.ResourceClaimTemplateName)
	}
	return strings.Join(words, " ")
}

// deviceAnnotations ask Multus for the interface, and tell the operator what was asked.
func deviceAnnotations(in Input, out map[string]string) {
	network := DeviceNetwork(in.Device, in.Service.Namespace)
	out[netstatus.AnnotationNetworks] = networksText(network)
	out[netstatus.AnnotationNetwork] = network
	out[AnnotationDevice] = Describe(in.Device, in.Service.Namespace)
}

// InterfaceNetwork is the network of a service that other pods can join with an interface
// of the kernel; empty: its pods are on the pod network, or on
// devices that are counted.
func InterfaceNetwork(s *v1alpha1.RpcService) string {
	at, entries := 0, s.Spec.Device.Entries()
	if c := s.Status.DeviceChoice; c != nil && int(c.Entry) < len(entries) {
		at = int(c.Entry)
	}
	d := entries[at]
	if d.Type != v1alpha1.DeviceAFXDP || d.ResourceName != "" || d.ResourceClaimTemplateName != "" {
		return ""
	}
	return DeviceNetwork(d, s.Namespace)
}

// networksText asks for an interface on a network, given as namespace/name.
func networksText(network string) string {
	namespace, name, _ := strings.Cut(network, "/")
	asked, err := json.Marshal([]struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
		Interface string `json:"interface"`
	}{{name, namespace, netstatus.Interface}})
	if err != nil {
		panic("three strings are always encoded: " + err.Error())
	}
	return string(asked)
}

// onDevice changes a pod of the service into one on its device; main is its first
// container.
func onDevice(in Input, pod *corev1.PodSpec) {
	main, sidecar := &pod.Containers[0], &pod.InitContainers[0]
	grant(main, deviceCapabilities[in.Device.Type]...)
	// What a program says of a device that it cannot have stands in the pod's status then.
	main.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	main.Args = deviceArgs(in, main.Args)
	main.Env = append(main.Env,
		corev1.EnvVar{Name: "BOBTAIL_DEVICE", Value: string(in.Device.Type)},
		corev1.EnvVar{Name: "BOBTAIL_ADDRESS_FILE", Value: addressFile},
	)
	if in.Device.Type == v1alpha1.DeviceSRIOV {
		guarantee(main, wholeCPUs(in, main.Name))
		guarantee(sidecar, sidecarShare(in.Service))
	} else {
		atLeast(&main.Resources)
	}
	requestDevice(in, pod)
	toldByStatus(in, pod)
}

// sidecarShare is what a sidecar beside a device gets of a CPU where nobody says.
func sidecarShare(s *v1alpha1.RpcService) resource.Quantity {
	if given := s.Spec.SidecarResources; given != nil {
		if asked := most(requirements(*given), corev1.ResourceCPU); !asked.IsZero() {
			return asked
		}
	}
	return *resource.NewMilliQuantity(100, resource.DecimalSI)
}

// deviceArgs puts the device's options where a program's own address was. A server with
// its own command has none, and gets none.
func deviceArgs(in Input, args []string) []string {
	at := -1
	for i, a := range args {
		if a == ownAddress {
			at = i
		}
	}
	if at < 0 {
		return args
	}
	options := append([]string{"--address=@" + addressFile, "--driver=dpdk"}, devicePort(in.Device)...)
	if in.Device.Gateway != "" {
		options = append(options, "--dpdk-gateway="+in.Device.Gateway)
	}
	hugepages := "off"
	if in.Device.Hugepages != nil {
		hugepages = "auto" // without those it was promised it serves, and DeviceAsAsked says so
	}
	options = append(options, "--dpdk-hugepages="+hugepages)
	return append(append(append([]string{}, args[:at]...), options...), args[at+1:]...)
}

func devicePort(d v1alpha1.Device) []string {
	switch {
	case d.Type == v1alpha1.DeviceAFXDP:
		return []string{"--dpdk-port=net_af_xdp0,iface=" + netstatus.Interface + ",busy_budget=0"}
	case d.ResourceName != "":
		// The program reads the device plugin's variables, and compares them with what the
		// network tells.
		return []string{"--dpdk-port=env:" + pciVariable(d.ResourceName), "--dpdk-pci-file=" + pciFile}
	}
	// The same with the DRA driver's metadata, where it writes some.
	return []string{"--dpdk-port=claim:" + claimName, "--dpdk-pci-file=" + pciFile}
}

// pciVariable is the name under which the SR-IOV device plugin hands a PCI address over.
func pciVariable(resourceName string) string {
	return "PCIDEVICE_" + strings.NewReplacer(".", "_", "/", "_", "-", "_").Replace(strings.ToUpper(resourceName))
}

// requestDevice adds the device and hugepages to the requests of the main container.
func requestDevice(in Input, pod *corev1.PodSpec) {
	d, main := in.Device, &pod.Containers[0]
	if d.ResourceName != "" {
		request(&main.Resources, corev1.ResourceName(d.ResourceName), *resource.NewQuantity(1, resource.DecimalSI))
	}
	if d.ResourceClaimTemplateName != "" {
		pod.ResourceClaims = []corev1.PodResourceClaim{{Name: claimName, ResourceClaimTemplateName: ptr(d.ResourceClaimTemplateName)}}
		main.Resources.Claims = []corev1.ResourceClaim{{Name: claimName}}
	}
	if h := d.Hugepages; h != nil {
		size := pageSize(h)
		request(&main.Resources, corev1.ResourceName(corev1.ResourceHugePagesPrefix+size), *resource.NewQuantity(int64(h.Pages)*int64(h.PageMebibytes)<<20, resource.BinarySI))
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: hugepagesVolume, VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMedium("HugePages-" + size)},
		}})
		main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: hugepagesVolume, MountPath: hugepagesDir})
	}
}

func pageSize(h *v1alpha1.Hugepages) string {
	if h.PageMebibytes == 1024 {
		return "1Gi"
	}
	return strconv.Itoa(int(h.PageMebibytes)) + "Mi"
}

// HugepagesResource is the resource of a device's hugepages; empty: it has none.
func HugepagesResource(d v1alpha1.Device) corev1.ResourceName {
	if d.Hugepages == nil {
		return ""
	}
	return corev1.ResourceName(corev1.ResourceHugePagesPrefix + pageSize(d.Hugepages))
}

// toldByStatus lets the sidecar read network-status as it changes, which a variable
// would not, and holds the program back until it is believed.
func toldByStatus(in Input, pod *corev1.PodSpec) {
	sidecar := &pod.InitContainers[0]
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: networkVolume, VolumeSource: corev1.VolumeSource{
		DownwardAPI: &corev1.DownwardAPIVolumeSource{
			DefaultMode: ptr[int32](0o440),
			Items: []corev1.DownwardAPIVolumeFile{{
				Path: statusFile, FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.annotations['" + netstatus.AnnotationStatus + "']"},
			}},
		},
	}})
	sidecar.VolumeMounts = append(sidecar.VolumeMounts, corev1.VolumeMount{Name: networkVolume, MountPath: networkDir, ReadOnly: true})
	sidecar.Args = append(sidecar.Args,
		"--network="+DeviceNetwork(in.Device, in.Service.Namespace), "--network-status="+networkDir+"/"+statusFile, "--address-file="+addressFile)
	if in.Device.Type == v1alpha1.DeviceSRIOV {
		// The program says so if nobody tells it.
		sidecar.Args = append(sidecar.Args, "--pci-file="+pciFile, "--pci-optional")
	}
	sidecar.StartupProbe = &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: "/addressz", Port: intstr.FromInt32(MetricsPort), Scheme: corev1.URISchemeHTTP,
		}},
		PeriodSeconds: 1, TimeoutSeconds: 2, FailureThreshold: 600, SuccessThreshold: 1,
	}
}
