// SPDX-License-Identifier: Apache-2.0

// Which device a service gets: the first entry of `spec.device` that can be had, for all
// of its pods, kept until somebody asks again. Pure.
package rpcservice

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/message"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// schedulable is how long a pod may wait for a device, or for its network, before its
// entry is given up.
const schedulable = 60 * time.Second

// why is what stands against an entry, or for it.
type why struct{ reason, message string }

// definition is what is known of one NetworkAttachmentDefinition; its zero value is one
// that is there and gives what it should.
type definition struct {
	against  why
	resource string // what it wants its device from
}

// deviceFacts are what entries are judged by.
type deviceFacts struct {
	able        bool                          // the operator has the rights, and the watches began
	lacks       []string                      // else: what it lacks
	definitions map[string]definition         // by namespace/name
	offered     map[corev1.ResourceName]int64 // by all nodes together; nil: the operator may not look
	others      map[corev1.ResourceName]int64 // held by pods of other services
	level       string                        // of pod security, by the namespace's label
}

// deviceDecision is the device in effect and how it came to that.
type deviceDecision struct {
	device  v1alpha1.Device
	choice  *v1alpha1.DeviceChoice // nil: Kernel, or nothing can be had yet
	entries []v1alpha1.DeviceStatus
	usable  verdict.Verdict // none for Kernel
}

// decideDevice takes the first entry that nothing stands against, from the one that was
// taken before.
func decideDevice(s *snapshot) deviceDecision {
	spec := &s.service.Spec.Device
	if render.OnKernel(spec.Device) {
		return deviceDecision{device: v1alpha1.Device{Type: v1alpha1.DeviceKernel}}
	}
	entries, asked := spec.Entries(), askedHash(s.service)
	from := taken(s.service, asked, len(entries))
	failed := failedBefore(s.service, from)
	at := from
	for ; at < len(entries); at++ {
		against := unusable(s, entries[at])
		if against.reason == "" {
			break
		}
		failed[at] = against
	}
	d := deviceDecision{choice: &v1alpha1.DeviceChoice{Entry: int32(at), AskedHash: asked}} // 4 at most
	if at == len(entries) {
		// Nothing after it can be had either: the service waits where it is.
		at, d.choice = from, s.service.Status.DeviceChoice
		if from == 0 {
			d.choice = nil
		}
	}
	d.device = entries[at]
	d.entries = entryStatus(s, entries, at, failed)
	d.usable = usable(s, entries, at, failed)
	return d
}

// taken is the entry that was taken for what is asked now; 0: none was.
func taken(service *v1alpha1.RpcService, asked string, n int) int {
	if c := service.Status.DeviceChoice; c != nil && c.AskedHash == asked && int(c.Entry) < n {
		return int(c.Entry)
	}
	return 0
}

// failedBefore is what the status says of the entries before the one that was taken.
func failedBefore(service *v1alpha1.RpcService, from int) map[int]why {
	out := map[int]why{}
	for _, e := range service.Status.Devices {
		if int(e.Entry) < from {
			out[int(e.Entry)] = why{e.Reason, e.Message}
		}
	}
	return out
}

// askedHash changes when somebody asks for another device, or for the same once more. A
// change of anything else, such as an autoscaler's of `replicas`, is no such question.
func askedHash(service *v1alpha1.RpcService) string {
	text, err := json.Marshal(struct {
		Device v1alpha1.RpcServiceDevice
		Retry  string
	}{service.Spec.Device, service.Annotations[v1alpha1.AnnotationRetryDevice]})
	if err != nil {
		panic("a specification that was read is always encoded: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// unusable says what stands against an entry.
func unusable(s *snapshot, d v1alpha1.Device) why {
	if render.OnKernel(d) {
		return why{}
	}
	if against := barredDevice(s, d); against.reason != "" {
		return against
	}
	// What pods hold, they hold: a definition that is replaced is away for a moment, and a
	// node that restarts offers nothing for a while. But a pod that cannot start for want of
	// its network will not be the last one.
	if !held(s, d) || stranded(s, d) {
		for _, against := range []why{permitted(s, d), judgeDefinition(s, d), offered(s, d)} {
			if against.reason != "" {
				return against
			}
		}
	}
	return unschedulable(s, d)
}

// barredDevice says that the namespace admits no pods with the capabilities of a device.
func barredDevice(s *snapshot, d v1alpha1.Device) why {
	if level := s.devices.level; level != "" && level != privileged {
		return why{v1alpha1.ReasonPodSecurity, fmt.Sprintf("namespace %s has the label %s=%s, which admits no pod with the capabilities that %s needs; label it %s",
			s.service.Namespace, enforceLabel, level, d.Type, privileged)}
	}
	for _, made := range []*appsv1.Deployment{s.serverDeployment, s.routerDeployment} {
		if made == nil || made.Spec.Template.Annotations[render.AnnotationDevice] != render.Describe(d, s.service.Namespace) {
			continue
		}
		if denial := notAdmitted(made); denial != "" {
			return why{v1alpha1.ReasonPodSecurity, fmt.Sprintf("namespace %s refused a pod with the capabilities that %s needs: %s", s.service.Namespace, d.Type, message.Bounded(denial, 512))}
		}
	}
	return why{}
}

// held says that a pod of the service runs on a device.
func held(s *snapshot, d v1alpha1.Device) bool {
	for _, p := range s.pods() {
		if live(p) && madeFor(s, p, d) {
			return true
		}
	}
	return false
}

// stranded says that a pod for the device is without a network. Whether it is for the
// definition is for others to say.
func stranded(s *snapshot, d v1alpha1.Device) bool {
	return slices.ContainsFunc(s.pods(), func(p *corev1.Pod) bool { return madeFor(s, p, d) && networkless(s, p) })
}

// networkless says that a pod has a node since a while, and no address on any network: what
// makes its interfaces fails.
func networkless(s *snapshot, p *corev1.Pod) bool {
	if p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodPending || p.Status.PodIP != "" {
		return false
	}
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue && s.now.Sub(c.LastTransitionTime.Time) >= schedulable
	})
}

func madeFor(s *snapshot, p *corev1.Pod, d v1alpha1.Device) bool {
	return p.Annotations[render.AnnotationDevice] == render.Describe(d, s.service.Namespace)
}

// permitted says what the operator lacks for any device.
func permitted(s *snapshot, d v1alpha1.Device) why {
	if s.devices.able {
		return why{}
	}
	return why{v1alpha1.ReasonNotPermitted, fmt.Sprintf("the operator lacks %s for %s; upgrade its chart", strings.Join(s.devices.lacks, "; "), d.Type)}
}

func judgeDefinition(s *snapshot, d v1alpha1.Device) why {
	network := render.DeviceNetwork(d, s.service.Namespace)
	known, ok := s.devices.definitions[network]
	switch {
	case !ok:
		return why{v1alpha1.ReasonDefinitionMissing, "NetworkAttachmentDefinition " + network + " was not read"}
	case known.against.reason != "":
		return known.against
	case d.ResourceName != "" && known.resource != d.ResourceName:
		return why{v1alpha1.ReasonDefinitionInvalid, fmt.Sprintf("NetworkAttachmentDefinition %s: annotation %s must be %s, which the pods request; got %q",
			network, annotationResource, d.ResourceName, known.resource)}
	}
	return why{}
}

// offered says whether any node has what pods request.
func offered(s *snapshot, d v1alpha1.Device) why {
	if s.devices.offered == nil {
		return why{} // then a pod that waits shows it
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceName(d.ResourceName), render.HugepagesResource(d)} {
		if name != "" && s.devices.offered[name] == 0 {
			return why{v1alpha1.ReasonResourceMissing, fmt.Sprintf("no node offers %s", name)}
		}
	}
	return why{}
}

// unschedulable says that a pod has waited for a device too long. While a pod is on its
// way out its device is not free, and one that waits may get it.
func unschedulable(s *snapshot, d v1alpha1.Device) why {
	var longest *corev1.Pod
	for _, p := range s.pods() {
		if p.DeletionTimestamp != nil {
			if madeFor(s, p, d) {
				return why{}
			}
			continue
		}
		c := waitsFor(s, p, d)
		if longest == nil && c != nil && s.now.Sub(c.LastTransitionTime.Time) >= schedulable {
			longest = p
		}
	}
	if longest == nil {
		return why{}
	}
	return why{v1alpha1.ReasonUnschedulable, fmt.Sprintf("pod %s could not be scheduled for %s: %s", longest.Name, schedulable, waitsFor(s, longest, d).Message)}
}

// waitsFor is the scheduler's word that a pod waits for its device; nil: it does not.
func waitsFor(s *snapshot, p *corev1.Pod, d v1alpha1.Device) *corev1.PodCondition {
	if !madeFor(s, p, d) || p.DeletionTimestamp != nil {
		return nil
	}
	for i, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && namesDevice(c.Message, d) {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// namesDevice says whether the scheduler's message is about the device. Other reasons,
// as a node that is full, are not the device's.
func namesDevice(text string, d v1alpha1.Device) bool {
	for _, name := range []string{d.ResourceName, string(render.HugepagesResource(d))} {
		if name != "" && strings.Contains(text, "Insufficient "+name) {
			return true
		}
	}
	return d.ResourceClaimTemplateName != "" && strings.Contains(strings.ToLower(text), "claim")
}

// entryStatus is what became of each entry.
func entryStatus(s *snapshot, entries []v1alpha1.Device, at int, failed map[int]why) []v1alpha1.DeviceStatus {
	const longest = 1000 // the field takes 1024
	var out []v1alpha1.DeviceStatus
	for i, e := range entries {
		st := v1alpha1.DeviceStatus{Entry: int32(i), Device: render.Describe(e, s.service.Namespace), State: v1alpha1.DeviceWaiting, Reason: v1alpha1.ReasonNotTried}
		against, ok := failed[i]
		switch {
		case ok:
			st.State, st.Reason, st.Message = v1alpha1.DeviceFailed, against.reason, message.Bounded(against.message, longest)
		case i == at:
			st.State, st.Reason = v1alpha1.DeviceInUse, v1alpha1.ReasonDeviceInUse
		}
		out = append(out, st)
	}
	return out
}

// usable is the verdict of the condition DeviceUsable.
func usable(s *snapshot, entries []v1alpha1.Device, at int, failed map[int]why) verdict.Verdict {
	name := func(i int) string { return render.Describe(entries[i], s.service.Namespace) }
	var against []string
	for i := range entries {
		if w, ok := failed[i]; ok {
			against = append(against, fmt.Sprintf("%s (%s): %s", name(i), w.reason, w.message))
		}
	}
	told := strings.Join(against, "; ")
	switch _, out := failed[at]; {
	case out:
		return verdict.No(v1alpha1.ReasonNoUsableDevice, fmt.Sprintf("no device can be had, and pods wait for %s: %s", name(at), told))
	case at > 0:
		return verdict.No(v1alpha1.ReasonFellBack, fmt.Sprintf("%s is in use until `spec.device` or the annotation %s changes: %s", name(at), v1alpha1.AnnotationRetryDevice, told))
	case !s.devices.able:
		return verdict.No(v1alpha1.ReasonNotPermitted, fmt.Sprintf("%s is in use, but nobody keeps its EndpointSlices: %s", name(at), permitted(s, entries[at]).message))
	}
	return verdict.Yes(v1alpha1.ReasonDeviceInUse, name(at)+" is in use")
}

// withoutSurge says that a rollout has no device for a pod more: it takes one away first.
// Devices of a claim cannot be counted. Those of the service count as many as it has
// pods when it is whole, so that the answer does not change in the middle of a rollout.
func withoutSurge(s *snapshot, d v1alpha1.Device) bool {
	if d.ResourceClaimTemplateName != "" {
		return true
	}
	if d.ResourceName == "" {
		return false
	}
	for _, p := range s.pods() {
		if waitsFor(s, p, d) != nil {
			return true
		}
	}
	surge, need := int64(1), int64(render.Replicas(s.service))
	if render.HasRouter(s.service) {
		surge, need = surge+1, need+int64(s.service.Spec.Router.Replicas)
	}
	name := corev1.ResourceName(d.ResourceName)
	return s.devices.offered[name]-s.devices.others[name]-need < surge
}
