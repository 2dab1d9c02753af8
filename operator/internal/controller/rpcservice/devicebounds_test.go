// SPDX-License-Identifier: Apache-2.0

package rpcservice

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// A pod is without a network that has had a node for so long, and neither runs, nor has an address, nor goes.
func TestNetworkless(t *testing.T) {
	s := &snapshot{now: start}
	long := int(schedulable / time.Second)
	for name, c := range map[string]struct {
		seconds int
		change  func(*corev1.Pod)
		want    bool
	}{
		"so long":                   {long, func(*corev1.Pod) {}, true},
		"not so long":               {long - 1, func(*corev1.Pod) {}, false},
		"it goes":                   {long, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: start} }, false},
		"it runs":                   {long, func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }, false},
		"has an address":            {long, func(p *corev1.Pod) { p.Status.PodIP = "10.0.0.1" }, false},
		"has no node":               {long, func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }, false},
		"is told of something else": {long, func(p *corev1.Pod) { p.Status.Conditions[0].Type = corev1.PodInitialized }, false},
	} {
		p := strandedOn(vfDevice, c.seconds)
		if c.change(p); networkless(s, p) != c.want {
			t.Errorf("%s: %v", name, !c.want)
		}
	}
}

// A pod waits for its device when the scheduler says so of it, and of nothing else.
func TestWaitsForItsDevice(t *testing.T) {
	vfs, claim := onVFs().Spec.Device.Device, v1alpha1.Device{Type: v1alpha1.DeviceSRIOV, NetworkAttachment: "vfs", ResourceClaimTemplateName: "vf"}
	const noClaim = "cannot allocate all CLAIMS"
	for _, c := range []struct {
		name   string
		device v1alpha1.Device
		text   string
		change func(*corev1.PodCondition)
		want   bool
	}{
		{"the device", vfs, noVF, nil, true},
		{"another one", vfs, "Insufficient intel.com/other", nil, false},
		{"a claim of somebody else's", vfs, noClaim, nil, false},
		{"its claim", claim, noClaim, nil, true},
		{"the processors", claim, "Insufficient cpu", nil, false},
		{"it was scheduled", vfs, noVF, func(c *corev1.PodCondition) { c.Status = corev1.ConditionTrue }, false},
		{"not the scheduler", vfs, noVF, func(c *corev1.PodCondition) { c.Type = corev1.PodReady }, false},
	} {
		s := &snapshot{now: start, service: onVFs()}
		p := waitingFor(render.Describe(c.device, "demo"), c.text, 60)
		if c.change != nil {
			c.change(&p.Status.Conditions[0])
		}
		if got := waitsFor(s, p, c.device) != nil; got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// What stands against a device is found in the second place that is looked at, too.
func TestBarredByTheRouters(t *testing.T) {
	s := &snapshot{now: start, service: onVFs(), devices: everything()}
	d := s.service.Spec.Device.Device
	s.routerDeployment = refusedDeployment(vfDevice)
	for _, first := range []*appsv1.Deployment{nil, refusedDeployment(dataDevice)} {
		if s.serverDeployment = first; barredDevice(s, d).reason != v1alpha1.ReasonPodSecurity {
			t.Errorf("%+v", barredDevice(s, d))
		}
	}
	gone := waitingFor(dataDevice, "", 90)
	gone.DeletionTimestamp = &metav1.Time{Time: start}
	late := waitingFor(vfDevice, noVF, 90)
	if s.servers = []*corev1.Pod{gone, late}; unschedulable(s, d).reason != v1alpha1.ReasonUnschedulable {
		t.Errorf("behind a pod of another device that goes: %+v", unschedulable(s, d))
	}
	if n := taken(s.service, "x", 3); n != 0 {
		t.Errorf("entry %d of nothing", n)
	}
	for entry, want := range map[int32]int{2: 2, 3: 0} {
		keep(s, 0)
		s.service.Status.DeviceChoice.Entry = entry
		if n := taken(s.service, askedHash(s.service), 3); n != want {
			t.Errorf("entry %d of 3: %d", entry, n)
		}
	}
}

// What processors a pod has and may run on, as the kubelet writes it.
func TestProcessorsOfAPod(t *testing.T) {
	for list, want := range map[string]int64{"2-3,6": 3, "5": 1, "5-5": 1, "3-2": 0, "x": 0, "x-3": 0, "3-x": 0, "": 0, "0-1,x": 0} {
		if got := countCPUs(list); got != want {
			t.Errorf("%q: %d, want %d", list, got, want)
		}
	}
	for text, want := range map[string]int64{"2": 2, "1500m": 0, "0": 0} {
		p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(text)}}}}}}
		if got := wholeCPUsOf(p); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
	if !apart(1, 0) || !apart(0, 1) || apart(1, 1) || apart(-1, 1) || apart(1, -1) {
		t.Error("nodes that are known and differ are apart, no others")
	}
	shared := askedWith(func(s *snapshot, d, _ *dataplane.DeviceState) {
		d.CPUs = "0-7"
		s.servers[0].Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("500m")
	})
	if shared.Reason != v1alpha1.ReasonAsAsked || !strings.HasPrefix(shared.Message, "2 running pods") {
		t.Errorf("a fraction of a processor is of no one's own: %+v", shared)
	}
	xdp, p := v1alpha1.Device{Type: v1alpha1.DeviceAFXDP}, runningOn("s1", dataDevice, "r")
	for driver, want := range map[string]string{afxdpDriver: "", "net_af_packet": v1alpha1.ReasonDriverDiffers} {
		if v := asAskedByItself(p, xdp, &dataplane.DeviceState{Driver: driver}); v.Reason != want {
			t.Errorf("%s: %+v", driver, v)
		}
	}
}

// Until it is known what the operator may do, a device is neither taken nor given up; Kernel needs nothing.
func TestAbilities(t *testing.T) {
	for _, c := range []struct {
		name    string
		devices func() (bool, []string)
		kernel  bool
		able    bool
		err     error
	}{
		{"nobody looks", nil, false, true, nil},
		{"able", func() (bool, []string) { return true, nil }, false, true, nil},
		{"lacks something", func() (bool, []string) { return false, []string{"x"} }, false, false, nil},
		{"not known yet", func() (bool, []string) { return false, nil }, false, false, errEarly},
		{"not known yet, on Kernel", func() (bool, []string) { return false, nil }, true, false, nil},
	} {
		s := &snapshot{service: onVFs()}
		if c.kernel {
			s.service = aService()
		}
		if err := (&Reconciler{Devices: c.devices}).gatherAbilities(s); !errors.Is(err, c.err) || s.devices.able != c.able {
			t.Errorf("%s: able %v, %v", c.name, s.devices.able, err)
		}
	}
}

// offers are a node's devices, holds a pod that has some.
func offers(name, devices string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{vf: resource.MustParse(devices)}}}
}

func holds(namespace, service, name, devices string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{v1alpha1.LabelService: service}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{vf: resource.MustParse(devices)}}}}},
	}
}

// What all nodes offer is counted, and what pods of others hold that may still run; only where an entry asks for what can be
// counted.
func TestDevicesAreCounted(t *testing.T) {
	ended := holds("demo", "other", "p4", "100")
	ended.Status.Phase = corev1.PodSucceeded
	for name, c := range map[string]struct {
		change func(*v1alpha1.RpcServiceDevice)
		want   string
	}{
		"a resource": {func(*v1alpha1.RpcServiceDevice) {}, "5 offered, 7 held by others, 2 definitions"},
		"hugepages": {func(d *v1alpha1.RpcServiceDevice) {
			d.ResourceName, d.Hugepages = "", &v1alpha1.Hugepages{PageMebibytes: 2, Pages: 8}
		}, "5 offered, 7 held by others, 2 definitions"},
		"neither":              {func(d *v1alpha1.RpcServiceDevice) { d.ResourceName = "" }, "0 offered, 0 held by others, 2 definitions"},
		"Kernel before others": {func(d *v1alpha1.RpcServiceDevice) { d.Fallback[0], d.Fallback[1] = d.Fallback[1], d.Fallback[0] }, "5 offered, 7 held by others, 2 definitions"},
		"Kernel":               {func(d *v1alpha1.RpcServiceDevice) { *d = aService().Spec.Device }, "0 offered, 0 held by others, 0 definitions"},
	} {
		b := newBench(t)
		for _, o := range []client.Object{offers("n1", "2"), offers("n2", "3"), holds("demo", "echo", "p1", "50"), holds("demo", "other", "p2", "3"), holds("shop", "echo", "p3", "4"), ended} {
			o.SetResourceVersion("")
			if err := b.Client.Create(context.Background(), o); err != nil {
				t.Fatal(err)
			}
		}
		b.Live = &answering{Reader: b.Live}
		s := &snapshot{now: start, service: onVFs()}
		c.change(&s.service.Spec.Device)
		if err := b.gatherDevices(context.Background(), s); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%d offered, %d held by others, %d definitions", s.devices.offered[vf], s.devices.others[vf], len(s.devices.definitions)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	b := newBench(t)
	b.Live = &answering{Reader: b.Live, err: errors.New("gone")}
	if err := b.gatherDevices(context.Background(), &snapshot{now: start, service: onVFs()}); err == nil || !strings.Contains(err.Error(), "read NetworkAttachmentDefinition demo/vfs: gone") {
		t.Errorf("%v", err)
	}
}

// The longest configuration of a network is read.
func TestLongestDefinition(t *testing.T) {
	text := `{"type": "sriov"}` + strings.Repeat(" ", 64<<10-len(`{"type": "sriov"}`))
	found := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"config": text}}}
	if d := readDefinition("demo/vfs", found); d.against.reason != "" {
		t.Errorf("%+v", d)
	}
}
