// SPDX-License-Identifier: Apache-2.0

// What pods report of their devices, and whether it is what was asked for. Pure.
package rpcservice

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/message"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/netstatus"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// mostDevices is how many pods' devices the status shows.
const mostDevices = 64

// afxdpDriver is DPDK's name of the one that AFXDP uses.
const afxdpDriver = "net_af_xdp"

// reported is what the program of a pod says of its device; nil: nothing.
func reported(s *snapshot, p *corev1.Pod) *dataplane.DeviceState {
	a := s.states[p.Name]
	if !live(p) || a.Reply == nil || a.Reply.Dataplane == nil {
		return nil
	}
	return a.Reply.Dataplane.Device
}

func podDevices(s *snapshot) []v1alpha1.PodDevice {
	var out []v1alpha1.PodDevice
	for _, p := range s.pods() {
		d := reported(s, p)
		if d == nil || d.Driver == "" || len(out) == mostDevices {
			continue
		}
		out = append(out, v1alpha1.PodDevice{
			Pod: p.Name, Driver: message.Bounded(d.Driver, 64), PCIAddress: message.Bounded(d.PCIAddress, 16), MAC: message.Bounded(d.MAC, 17),
			MTU: int32(d.MTU), DeviceNode: int32(d.DeviceNode), MemoryNode: int32(d.MemoryNode), CPUNode: int32(d.CPUNode), // #nosec G115 -- small numbers of our own program
			HugepagesMebibytes: int32(d.HugepagesMebibytes), CPUs: message.Bounded(d.CPUs, 128), // #nosec G115
		})
	}
	slices.SortFunc(out, func(a, b v1alpha1.PodDevice) int { return strings.Compare(a.Pod, b.Pod) })
	return out
}

// decideAsAsked is the verdict of the condition DeviceAsAsked: of pods made for the device
// in effect, each by itself and all of them together.
func decideAsAsked(s *snapshot, d v1alpha1.Device) verdict.Verdict {
	if render.OnKernel(d) {
		return verdict.Verdict{} // DeviceUsable says why
	}
	var refused []verdict.Verdict
	macs, mtus := map[string]string{}, map[int]string{}
	n := 0
	for _, p := range s.pods() {
		got := reported(s, p)
		if !madeFor(s, p, d) {
			continue
		}
		if got == nil {
			refused = append(refused, ended(p))
			continue
		}
		n++
		refused = append(refused, asAskedByItself(p, d, got))
		if other, taken := macs[got.MAC]; taken && got.MAC != "" {
			refused = append(refused, verdict.No(v1alpha1.ReasonMACDuplicated, fmt.Sprintf("pods %s and %s both have the MAC %s: frames of one go to the other", other, p.Name, got.MAC)))
		}
		macs[got.MAC] = p.Name
		if _, seen := mtus[got.MTU]; !seen {
			mtus[got.MTU] = p.Name
		}
	}
	if len(mtus) > 1 {
		refused = append(refused, verdict.No(v1alpha1.ReasonMTUDiffers, "pods have different MTUs: "+eachMTU(mtus)+"; give the network one `mtu`"))
	}
	if v, ok := verdict.Refusals(refused...); !ok {
		return v
	}
	if n == 0 {
		return verdict.Unknown(v1alpha1.ReasonNothingReported, "no running pod has reported its device yet")
	}
	return verdict.Yes(v1alpha1.ReasonAsAsked, fmt.Sprintf("%d running pods report the device that was asked for", n))
}

// ended is what the program of a pod said at its end, if it ended for a fault; none: it did
// not, or runs again and will tell of its device.
func ended(p *corev1.Pod) verdict.Verdict {
	switch end := faultyEnd(p); {
	case end == nil:
		return verdict.Verdict{}
	case end.ExitCode == deviceLostExit:
		return verdict.No(v1alpha1.ReasonDeviceLost, fmt.Sprintf("pod %s lost its device and is replaced: %s; where the node has no other, make its functions again", p.Name, lastWords(end.Message)))
	default:
		return verdict.No(v1alpha1.ReasonProgramEnded, fmt.Sprintf("pod %s: its program ended with code %d: %s", p.Name, end.ExitCode, lastWords(end.Message)))
	}
}

// lastWords is the last line of a log, bounded.
func lastWords(log string) string {
	log = strings.TrimSpace(log)
	if log == "" {
		return "it said nothing"
	}
	return message.Bounded(log[strings.LastIndex(log, "\n")+1:], 400)
}

func eachMTU(mtus map[int]string) string {
	var all []string
	for mtu, pod := range mtus {
		all = append(all, fmt.Sprintf("%d at %s", mtu, pod))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// asAskedByItself says what of a pod's device was not asked for; none: all was.
func asAskedByItself(p *corev1.Pod, d v1alpha1.Device, got *dataplane.DeviceState) verdict.Verdict {
	no := func(reason, format string, args ...any) verdict.Verdict {
		return verdict.No(reason, "pod "+p.Name+": "+fmt.Sprintf(format, args...))
	}
	virtual := d.Type == v1alpha1.DeviceSRIOV
	if virtual && got.PCIAddress == "" || !virtual && got.Driver != afxdpDriver {
		return no(v1alpha1.ReasonDriverDiffers, "%s was asked for, and it drives %s", d.Type, message.Bounded(got.Driver, 64))
	}
	if v := asTold(p, virtual, got); v.Reason != "" {
		return v
	}
	if v := linked(p, got); v.Reason != "" {
		return v
	}
	if h := d.Hugepages; h != nil && got.HugepagesMebibytes == 0 {
		return no(v1alpha1.ReasonHugepagesMissing, "%d hugepages of %d MiB were asked for, and it runs on ordinary memory", h.Pages, h.PageMebibytes)
	}
	if apart(got.DeviceNode, got.MemoryNode) || apart(got.DeviceNode, got.CPUNode) {
		return no(v1alpha1.ReasonNodesDiffer, "its device is on NUMA node %d, its memory on %d, its CPUs on %d; let the kubelet's topology manager be single-numa-node",
			got.DeviceNode, got.MemoryNode, got.CPUNode)
	}
	if virtual {
		if own, may := wholeCPUsOf(p), countCPUs(got.CPUs); own > 0 && may > own {
			return no(v1alpha1.ReasonCPUsShared, "it has %d CPUs for itself and may run on %d (%s); let the kubelet's CPU manager be static", own, may, message.Bounded(got.CPUs, 128))
		}
	}
	return verdict.Verdict{}
}

// linked says what is amiss with the link of a pod's device; none: nothing that it told.
func linked(p *corev1.Pod, got *dataplane.DeviceState) verdict.Verdict {
	device := cmp.Or(message.Bounded(got.PCIAddress, 16), netstatus.Interface)
	switch got.Link {
	case dataplane.LinkDown:
		return verdict.No(v1alpha1.ReasonLinkDown, fmt.Sprintf("pod %s: its device %s has no link; see to its card, cable and switch on node %s", p.Name, device, p.Spec.NodeName))
	case dataplane.LinkLost:
		return verdict.No(v1alpha1.ReasonDeviceLost, fmt.Sprintf("pod %s: its device %s is taken away on node %s, and its program is about to end", p.Name, device, p.Spec.NodeName))
	}
	return verdict.Verdict{}
}

// unlinked says that a pod reports that nobody reaches it.
func unlinked(s *snapshot, p *corev1.Pod) bool {
	got := reported(s, p)
	return got != nil && (got.Link == dataplane.LinkDown || got.Link == dataplane.LinkLost)
}

// asTold compares what a program drives with what the network says it gave the pod. What
// the annotation does not tell is not asked.
func asTold(p *corev1.Pod, virtual bool, got *dataplane.DeviceState) verdict.Verdict {
	told, refusal := netstatus.JudgePod(p)
	if !refusal.None() {
		return verdict.Verdict{} // the condition Addressed says why
	}
	no := func(reason, what string, drives, gave any) verdict.Verdict {
		return verdict.No(reason, fmt.Sprintf("pod %s: %s of its device is %v, and its network gave %v", p.Name, what, drives, gave))
	}
	if virtual && told.PCI != "" && !strings.EqualFold(told.PCI, got.PCIAddress) {
		return no(v1alpha1.ReasonDeviceDiffers, "the PCI address", message.Bounded(got.PCIAddress, 16), told.PCI)
	}
	if told.MAC != nil && got.MAC != "" && !strings.EqualFold(told.MAC.String(), got.MAC) {
		return no(v1alpha1.ReasonMACDiffers, "the MAC", message.Bounded(got.MAC, 17), told.MAC)
	}
	if told.MTU != 0 && got.MTU != 0 && told.MTU != got.MTU {
		return no(v1alpha1.ReasonMTUDiffers, "the MTU", got.MTU, told.MTU)
	}
	return verdict.Verdict{}
}

// apart says that two NUMA nodes are known and differ.
func apart(a, b int) bool { return a >= 0 && b >= 0 && a != b }

// wholeCPUsOf are those that the first container requests; 0: a fraction, or none.
func wholeCPUsOf(p *corev1.Pod) int64 {
	if len(p.Spec.Containers) == 0 {
		return 0
	}
	q := p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU]
	if q.MilliValue()%1000 != 0 {
		return 0
	}
	return q.Value()
}

// countCPUs counts "2-3,6"; 0: it is no such list.
func countCPUs(list string) int64 {
	var n int64
	for _, part := range strings.Split(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		a, e1 := strconv.ParseInt(first, 10, 32)
		b, e2 := strconv.ParseInt(last, 10, 32)
		if e1 != nil || e2 != nil || b < a {
			return 0
		}
		n += b - a + 1
	}
	return n
}
