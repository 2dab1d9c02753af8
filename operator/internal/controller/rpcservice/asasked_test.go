// SPDX-License-Identifier: Apache-2.0

package rpcservice

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/netstatus"
)

// gotVF is a virtual function as a program reports it, all on one node.
func gotVF(mac string) *dataplane.DeviceState {
	return &dataplane.DeviceState{Driver: "net_e1000_igb_vf", PCIAddress: "0000:01:10.0", MAC: mac, MTU: 1500, HugepagesMebibytes: 64, CPUs: "2-3"}
}

const vfGone = "DPDK: 64 MiB of hugepages\nbobtail-serve error: --driver=dpdk: 0000:01:10.0: it was taken away\n"

const vfTaken = "bobtail-serve: drained\nbobtail-serve error: --driver=dpdk: device 0000:01:10.0 was taken away: its driver wants it back and waits for this program\n"

const vfOnKernel = "bobtail-serve error: --driver=dpdk: 0000:01:10.0: no such device; it is on its kernel driver igbvf and must be bound to vfio-pci (dpdk-devbind.py)\n"

// endedWith is what the kubelet shows of a first pod whose program ends again and again.
func endedWith(s *snapshot, code int32, log string) {
	delete(s.states, "s1")
	s.servers[0].Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "server", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: log}},
	}}
}

// networkTells makes the network of the first pod say that of what it gave.
func networkTells(link string) func(s *snapshot, first, second *dataplane.DeviceState) {
	return func(s *snapshot, _, _ *dataplane.DeviceState) {
		a := s.servers[0].Annotations
		a[netstatus.AnnotationNetwork] = "demo/vfs"
		a[netstatus.AnnotationStatus] = `[{"name":"demo/vfs","interface":"net1","ips":["10.77.0.1"],` + link + `}]`
	}
}

// askedWith is the verdict of two pods that have what was asked for, but for a change.
func askedWith(change func(s *snapshot, first, second *dataplane.DeviceState)) verdict.Verdict {
	s := &snapshot{now: start, service: onVFs(), devices: everything(), states: map[string]stateRead{}}
	s.service.Spec.Device.Hugepages = &v1alpha1.Hugepages{PageMebibytes: 2, Pages: 64}
	devices := map[string]*dataplane.DeviceState{"s1": gotVF("02:00:00:00:00:01"), "s2": gotVF("02:00:00:00:00:02")}
	for _, name := range []string{"s1", "s2"} {
		p := runningOn(name, vfDevice, "r")
		p.Spec.NodeName = "n1"
		p.Spec.Containers = []corev1.Container{{Name: "server", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}}}
		s.servers = append(s.servers, p)
		s.states[name] = stateRead{Name: name, Reply: &dataplane.SidecarState{Dataplane: &dataplane.State{Device: devices[name]}}}
	}
	if change != nil {
		change(s, devices["s1"], devices["s2"])
	}
	return decideAsAsked(s, s.service.Spec.Device.Device)
}

// What the network tells of what it gave, beside what the program drives.
func TestDeviceAsTold(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(s *snapshot, first, second *dataplane.DeviceState)
		reason  string
		message string
	}{
		{name: "as its network tells", change: networkTells(`"mac":"02:00:00:00:00:01","mtu":1500,"device-info":{"pci":{"pci-address":"0000:01:10.0"}}`), reason: v1alpha1.ReasonAsAsked},
		{name: "another device than its network took", change: networkTells(`"device-info":{"pci":{"pci-address":"0000:01:10.4"}}`),
			reason: v1alpha1.ReasonDeviceDiffers, message: "pod s1: the PCI address of its device is 0000:01:10.0, and its network gave 0000:01:10.4"},
		{name: "another MAC than its network tells", change: networkTells(`"mac":"02:00:00:00:00:0A"`), reason: v1alpha1.ReasonMACDiffers, message: "is 02:00:00:00:00:01, and its network gave 02:00:00:00:00:0a"},
		{name: "another MTU than its network tells", change: networkTells(`"mtu":9000`), reason: v1alpha1.ReasonMTUDiffers, message: "pod s1: the MTU of its device is 1500, and its network gave 9000"},
		{name: "a network that tells nothing of it", change: networkTells(`"mac":""`), reason: v1alpha1.ReasonAsAsked},
		{name: "an annotation that is not believed", change: networkTells(`"mac":"02"`), reason: v1alpha1.ReasonAsAsked},
	} {
		if v := askedWith(c.change); v.Reason != c.reason || !strings.Contains(v.Message, c.message) {
			t.Errorf("%s: %s: %s", c.name, v.Reason, v.Message)
		}
	}
}

// Each thing that can be other than asked, alone.
func TestDeviceAsAsked(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(s *snapshot, first, second *dataplane.DeviceState)
		reason  string
		message string
	}{
		{name: "all is as asked", reason: v1alpha1.ReasonAsAsked, message: "2 running pods"},
		{name: "nobody knows the nodes", change: func(_ *snapshot, d, _ *dataplane.DeviceState) { d.DeviceNode, d.CPUNode = -1, 1 }, reason: v1alpha1.ReasonAsAsked},
		{name: "sockets instead of a VF", change: func(_ *snapshot, d, _ *dataplane.DeviceState) { d.Driver, d.PCIAddress = "net_af_packet", "" },
			reason: v1alpha1.ReasonDriverDiffers, message: "pod s1: SRIOV was asked for, and it drives net_af_packet"},
		{name: "one MAC twice", change: func(_ *snapshot, d, e *dataplane.DeviceState) { e.MAC = d.MAC }, reason: v1alpha1.ReasonMACDuplicated, message: "pods s1 and s2"},
		{name: "two MTUs", change: func(_ *snapshot, d, _ *dataplane.DeviceState) { d.MTU = 9000 }, reason: v1alpha1.ReasonMTUDiffers, message: "1500 at s2, 9000 at s1"},
		{name: "no hugepages", change: func(s *snapshot, d, _ *dataplane.DeviceState) { d.HugepagesMebibytes = 0 },
			reason: v1alpha1.ReasonHugepagesMissing, message: "64 hugepages of 2 MiB were asked for"},
		{name: "memory on another node", change: func(_ *snapshot, d, _ *dataplane.DeviceState) { d.MemoryNode = 1 }, reason: v1alpha1.ReasonNodesDiffer, message: "memory on 1"},
		{name: "CPUs on another node", change: func(_ *snapshot, d, _ *dataplane.DeviceState) { d.CPUNode = 1 }, reason: v1alpha1.ReasonNodesDiffer, message: "CPUs on 1"},
		{name: "more CPUs than it has", change: func(_ *snapshot, d, _ *dataplane.DeviceState) { d.CPUs = "0-7" }, reason: v1alpha1.ReasonCPUsShared, message: "has 2 CPUs for itself and may run on 8"},
		{name: "a list of CPUs that is none", change: func(_ *snapshot, d, _ *dataplane.DeviceState) { d.CPUs = "all" }, reason: v1alpha1.ReasonAsAsked},
		{name: "two things at once", change: func(_ *snapshot, d, e *dataplane.DeviceState) { d.MemoryNode, e.HugepagesMebibytes = 1, 0 },
			reason: v1alpha1.ReasonNodesDiffer, message: "; pod s2: 64 hugepages"},
		{name: "a pod of the device before", change: func(s *snapshot, d, _ *dataplane.DeviceState) {
			d.Driver, d.PCIAddress = "net_af_xdp", ""
			s.servers[0] = runningOn("s1", dataDevice, "r")
		}, reason: v1alpha1.ReasonAsAsked, message: "1 running pods"},
		{name: "a function that is gone", change: func(s *snapshot, _, _ *dataplane.DeviceState) { endedWith(s, 1, vfGone) },
			reason: v1alpha1.ReasonProgramEnded, message: "pod s1: its program ended with code 1: bobtail-serve error: --driver=dpdk: 0000:01:10.0: it was taken away"},
		{name: "a function that was taken from a running program", change: func(s *snapshot, _, _ *dataplane.DeviceState) { endedWith(s, deviceLostExit, vfTaken) },
			reason: v1alpha1.ReasonDeviceLost, message: "pod s1 lost its device and is replaced: bobtail-serve error: --driver=dpdk: device 0000:01:10.0 was taken away: its driver wants it back"},
		{name: "a function that is being taken away", change: func(_ *snapshot, d, _ *dataplane.DeviceState) { d.Link = dataplane.LinkLost },
			reason: v1alpha1.ReasonDeviceLost, message: "pod s1: its device 0000:01:10.0 is taken away on node n1"},
		{name: "a link that is down", change: func(_ *snapshot, d, _ *dataplane.DeviceState) { d.Link = dataplane.LinkDown },
			reason: v1alpha1.ReasonLinkDown, message: "pod s1: its device 0000:01:10.0 has no link; see to its card, cable and switch on node n1"},
		{name: "a link that is up", change: func(_ *snapshot, d, _ *dataplane.DeviceState) { d.Link = "Up" }, reason: v1alpha1.ReasonAsAsked},
		{name: "a function on its kernel driver", change: func(s *snapshot, _, _ *dataplane.DeviceState) { endedWith(s, 1, vfOnKernel) },
			reason: v1alpha1.ReasonProgramEnded, message: "it is on its kernel driver igbvf and must be bound to vfio-pci"},
		{name: "a program that ended well", change: func(s *snapshot, _, _ *dataplane.DeviceState) { endedWith(s, 0, "") }, reason: v1alpha1.ReasonAsAsked, message: "1 running pods"},
		{name: "one that said nothing", change: func(s *snapshot, _, _ *dataplane.DeviceState) { endedWith(s, 139, "") }, reason: v1alpha1.ReasonProgramEnded, message: "code 139: it said nothing"},
		{name: "one that runs again", change: func(s *snapshot, _, _ *dataplane.DeviceState) {
			endedWith(s, 1, vfGone)
			started := true
			s.servers[0].Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
			s.servers[0].Status.ContainerStatuses[0].Started = &started
		}, reason: v1alpha1.ReasonAsAsked, message: "1 running pods"},
		{name: "another container ended", change: func(s *snapshot, _, _ *dataplane.DeviceState) {
			endedWith(s, 1, vfGone)
			s.servers[0].Status.ContainerStatuses[0].Name = "helper"
		}, reason: v1alpha1.ReasonAsAsked, message: "1 running pods"},
		{name: "nobody answers", change: func(s *snapshot, _, _ *dataplane.DeviceState) { s.states = nil }, reason: v1alpha1.ReasonNothingReported},
	} {
		v := askedWith(c.change)
		if v.Reason != c.reason || v.OK() != (c.reason == v1alpha1.ReasonAsAsked) || !strings.Contains(v.Message, c.message) {
			t.Errorf("%s: %s: %s", c.name, v.Reason, v.Message)
		}
	}
}

// The status shows what pods report, bounded and in order; a pod on sockets reports nothing.
func TestPodDevices(t *testing.T) {
	s := &snapshot{now: start, service: onVFs(), states: map[string]stateRead{}}
	for name, d := range map[string]*dataplane.DeviceState{"s2": gotVF("02:00:00:00:00:02"), "s1": gotVF("02:00:00:00:00:01"), "s3": nil} {
		s.servers = append(s.servers, runningOn(name, vfDevice, "r"))
		s.states[name] = stateRead{Name: name, Reply: &dataplane.SidecarState{Dataplane: &dataplane.State{Device: d}}}
	}
	got := podDevices(s)
	if len(got) != 2 || got[0].Pod != "s1" || got[1].MAC != "02:00:00:00:00:02" || got[0].CPUs != "2-3" || got[0].HugepagesMebibytes != 64 {
		t.Errorf("%+v", got)
	}
}
