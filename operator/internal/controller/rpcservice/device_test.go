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
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/netstatus"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

const vf = "intel.com/vfs"

// onVFs is a service on virtual functions that may fall back to AF_XDP and Kernel.
func onVFs() *v1alpha1.RpcService {
	s := aService()
	s.Spec.Device = v1alpha1.RpcServiceDevice{
		Device: v1alpha1.Device{Type: v1alpha1.DeviceSRIOV, NetworkAttachment: "vfs", ResourceName: vf},
		Fallback: []v1alpha1.Device{
			{Type: v1alpha1.DeviceAFXDP, NetworkAttachment: "data"}, {Type: v1alpha1.DeviceKernel},
		},
	}
	return s
}

// everything is there: definitions, and more devices than pods.
func everything() deviceFacts {
	return deviceFacts{
		able:        true,
		definitions: map[string]definition{"demo/vfs": {resource: vf}, "demo/data": {}},
		offered:     map[corev1.ResourceName]int64{vf: 8},
	}
}

// madeFor is a pod of that device, waiting since some seconds with the scheduler's words.
func waitingFor(device, text string, seconds int) *corev1.Pod {
	p := aPod("s1", "", "")
	p.Annotations[render.AnnotationDevice] = device
	p.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: text,
		LastTransitionTime: metav1.NewTime(start.Add(-time.Duration(seconds) * time.Second)),
	}}
	return p
}

// strandedOn is a pod that has had a node for some seconds and no network yet.
func strandedOn(device string, seconds int) *corev1.Pod {
	p := aPod("s9", "", "")
	p.Annotations[render.AnnotationDevice] = device
	p.Status.Phase, p.Status.PodIP = corev1.PodPending, ""
	p.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(start.Add(-time.Duration(seconds) * time.Second)),
	}}
	return p
}

func runningOn(name, device, how string) *corev1.Pod {
	p := aPod(name, "10.0.0.1", how)
	p.Annotations[render.AnnotationDevice] = device
	return p
}

const (
	vfDevice   = "SRIOV demo/vfs intel.com/vfs"
	noVF       = "0/2 nodes are available: 2 Insufficient intel.com/vfs."
	dataDevice = "AFXDP demo/data"
)

// deviceCases are what an entry may meet, and what is taken then.
var deviceCases = []struct {
	name    string
	change  func(s *snapshot)
	device  v1alpha1.DeviceType
	kept    int32 // the entry that is remembered; -1: none
	reason  string
	failed  string // reasons of the entries that failed
	message string
}{
	{name: "Kernel asks nothing", change: func(s *snapshot) { s.service = aService(); s.devices = deviceFacts{} }, device: v1alpha1.DeviceKernel, kept: -1},
	{name: "all is there", device: v1alpha1.DeviceSRIOV, reason: v1alpha1.ReasonDeviceInUse},
	{name: "an operator with the Role of an older chart", change: func(s *snapshot) {
		s.devices.able, s.devices.lacks = false, []string{"the right to list endpointslices.discovery.k8s.io"}
	}, device: v1alpha1.DeviceKernel, kept: 2, reason: v1alpha1.ReasonFellBack, failed: "NotPermitted NotPermitted", message: "lacks the right to list endpointslices"},
	{name: "the same, with pods on the device", change: func(s *snapshot) {
		s.devices.able, s.devices.lacks = false, []string{"the right to list endpointslices.discovery.k8s.io"}
		s.servers = []*corev1.Pod{runningOn("s1", vfDevice, "r")}
	}, device: v1alpha1.DeviceSRIOV, reason: v1alpha1.ReasonNotPermitted, message: "nobody keeps its EndpointSlices"},
	{name: "definition absent", change: func(s *snapshot) {
		s.devices.definitions["demo/vfs"] = definition{against: why{v1alpha1.ReasonDefinitionMissing, "does not exist"}}
	}, device: v1alpha1.DeviceAFXDP, kept: 1, reason: v1alpha1.ReasonFellBack, failed: "DefinitionMissing", message: "AFXDP demo/data is in use"},
	{name: "definition of another resource", change: func(s *snapshot) { s.devices.definitions["demo/vfs"] = definition{resource: "intel.com/other"} },
		device: v1alpha1.DeviceAFXDP, kept: 1, reason: v1alpha1.ReasonFellBack, failed: "DefinitionInvalid", message: "must be intel.com/vfs"},
	{name: "no node offers it", change: func(s *snapshot) { s.devices.offered[vf] = 0 }, device: v1alpha1.DeviceAFXDP, kept: 1,
		reason: v1alpha1.ReasonFellBack, failed: "ResourceMissing", message: "no node offers intel.com/vfs"},
	{name: "nobody may look at nodes", change: func(s *snapshot) { s.devices.offered = nil }, device: v1alpha1.DeviceSRIOV, reason: v1alpha1.ReasonDeviceInUse},
	{name: "no node offers hugepages", change: func(s *snapshot) {
		s.service.Spec.Device.Hugepages = &v1alpha1.Hugepages{PageMebibytes: 2, Pages: 1}
	}, device: v1alpha1.DeviceAFXDP, kept: 1, reason: v1alpha1.ReasonFellBack, failed: "ResourceMissing", message: "hugepages-2Mi"},
	{name: "a namespace that enforces pod security", change: func(s *snapshot) { s.devices.level = "baseline" }, device: v1alpha1.DeviceKernel, kept: 2,
		reason: v1alpha1.ReasonFellBack, failed: "PodSecurity PodSecurity", message: "label it privileged"},
	{name: "a namespace that refuses pods, whatever its label", change: func(s *snapshot) { s.serverDeployment = refusedDeployment(vfDevice) },
		device: v1alpha1.DeviceAFXDP, kept: 1, reason: v1alpha1.ReasonFellBack, failed: "PodSecurity", message: "violates PodSecurity"},
	{name: "which refused pods of another device", change: func(s *snapshot) { s.routerDeployment = refusedDeployment(dataDevice) },
		device: v1alpha1.DeviceSRIOV, reason: v1alpha1.ReasonDeviceInUse},
	{name: "unschedulable for 59 s", change: func(s *snapshot) { s.servers = []*corev1.Pod{waitingFor(vfDevice, noVF, 59)} },
		device: v1alpha1.DeviceSRIOV, reason: v1alpha1.ReasonDeviceInUse},
	{name: "unschedulable for 60 s", change: func(s *snapshot) { s.servers = []*corev1.Pod{waitingFor(vfDevice, noVF, 60)} },
		device: v1alpha1.DeviceAFXDP, kept: 1, reason: v1alpha1.ReasonFellBack, failed: "Unschedulable", message: "Insufficient intel.com/vfs"},
	{name: "a router's pod counts, too", change: func(s *snapshot) { s.routers = []*corev1.Pod{waitingFor(vfDevice, noVF, 60)} },
		device: v1alpha1.DeviceAFXDP, kept: 1, reason: v1alpha1.ReasonFellBack, failed: "Unschedulable"},
	{name: "unschedulable for something else", change: func(s *snapshot) { s.servers = []*corev1.Pod{waitingFor(vfDevice, "2 Insufficient cpu.", 600)} },
		device: v1alpha1.DeviceSRIOV, reason: v1alpha1.ReasonDeviceInUse},
	{name: "unschedulable for the device before", change: func(s *snapshot) { s.servers = []*corev1.Pod{waitingFor("SRIOV demo/old intel.com/vfs", noVF, 600)} },
		device: v1alpha1.DeviceSRIOV, reason: v1alpha1.ReasonDeviceInUse},
	{name: "while a pod gives its device back", change: func(s *snapshot) {
		s.servers = []*corev1.Pod{waitingFor(vfDevice, noVF, 600), runningOn("s2", vfDevice, "rd")}
	}, device: v1alpha1.DeviceSRIOV, reason: v1alpha1.ReasonDeviceInUse},
	{name: "what pods hold stays when its definition goes", change: func(s *snapshot) {
		s.devices.definitions["demo/vfs"] = definition{against: why{v1alpha1.ReasonDefinitionMissing, "does not exist"}}
		s.devices.offered[vf] = 0
		s.servers = []*corev1.Pod{runningOn("s1", vfDevice, "r")}
	}, device: v1alpha1.DeviceSRIOV, reason: v1alpha1.ReasonDeviceInUse},
	{name: "but not when a pod waits for it for 60 s", change: func(s *snapshot) {
		s.devices.definitions["demo/vfs"] = definition{against: why{v1alpha1.ReasonDefinitionMissing, "does not exist"}}
		s.servers = []*corev1.Pod{runningOn("s1", vfDevice, "r"), strandedOn(vfDevice, 60)}
	}, device: v1alpha1.DeviceAFXDP, kept: 1, reason: v1alpha1.ReasonFellBack, failed: "DefinitionMissing"},
	{name: "for 59 s", change: func(s *snapshot) {
		s.devices.definitions["demo/vfs"] = definition{against: why{v1alpha1.ReasonDefinitionMissing, "does not exist"}}
		s.servers = []*corev1.Pod{runningOn("s1", vfDevice, "r"), strandedOn(vfDevice, 59)}
	}, device: v1alpha1.DeviceSRIOV, reason: v1alpha1.ReasonDeviceInUse},
	{name: "or for another reason", change: func(s *snapshot) {
		s.servers = []*corev1.Pod{runningOn("s1", vfDevice, "r"), strandedOn(vfDevice, 600)}
	}, device: v1alpha1.DeviceSRIOV, reason: v1alpha1.ReasonDeviceInUse},
	{name: "an unallocated claim", change: func(s *snapshot) {
		d := &s.service.Spec.Device
		d.ResourceName, d.ResourceClaimTemplateName = "", "vf"
		s.servers = []*corev1.Pod{waitingFor("SRIOV demo/vfs claim vf", "0/1 nodes are available: 1 cannot allocate all claims.", 60)}
	}, device: v1alpha1.DeviceAFXDP, kept: 1, reason: v1alpha1.ReasonFellBack, failed: "Unschedulable"},
	{name: "nothing can be had", change: func(s *snapshot) {
		s.service.Spec.Device.Fallback = nil
		s.devices.offered[vf] = 0
	}, device: v1alpha1.DeviceSRIOV, kept: -1, reason: v1alpha1.ReasonNoUsableDevice, failed: "ResourceMissing", message: "no device can be had, and pods wait for SRIOV"},
	{name: "nothing after what was taken", change: func(s *snapshot) {
		s.service.Spec.Device.Fallback = s.service.Spec.Device.Fallback[:1]
		keep(s, 1)
		s.devices.definitions["demo/data"] = definition{against: why{v1alpha1.ReasonDefinitionMissing, "does not exist"}}
	}, device: v1alpha1.DeviceAFXDP, kept: 1, reason: v1alpha1.ReasonNoUsableDevice, failed: "ResourceMissing DefinitionMissing"},
	{name: "what was taken is kept though the first could be had again", change: func(s *snapshot) { keep(s, 1) },
		device: v1alpha1.DeviceAFXDP, kept: 1, reason: v1alpha1.ReasonFellBack, failed: "ResourceMissing", message: "no node offers it"},
	{name: "through a scaler's change", change: func(s *snapshot) {
		keep(s, 1)
		five := int32(5)
		s.service.Spec.Replicas, s.service.Generation = &five, 9
	}, device: v1alpha1.DeviceAFXDP, kept: 1, reason: v1alpha1.ReasonFellBack, failed: "ResourceMissing"},
	{name: "until the annotation changes", change: func(s *snapshot) {
		keep(s, 1)
		s.service.Annotations = map[string]string{v1alpha1.AnnotationRetryDevice: "now"}
	}, device: v1alpha1.DeviceSRIOV, reason: v1alpha1.ReasonDeviceInUse},
	{name: "or the device", change: func(s *snapshot) {
		keep(s, 2)
		s.service.Spec.Device.Gateway = "10.0.0.1"
	}, device: v1alpha1.DeviceSRIOV, reason: v1alpha1.ReasonDeviceInUse},
	{name: "not until another annotation does", change: func(s *snapshot) {
		keep(s, 1)
		s.service.Annotations = map[string]string{v1alpha1.AnnotationRotateKeys: "now"}
	}, device: v1alpha1.DeviceAFXDP, kept: 1, reason: v1alpha1.ReasonFellBack, failed: "ResourceMissing"},
	{name: "a status of somebody's making", change: func(s *snapshot) {
		keep(s, 1)
		s.service.Status.DeviceChoice.Entry = 4
	}, device: v1alpha1.DeviceSRIOV, reason: v1alpha1.ReasonDeviceInUse},
}

func TestDecideDevice(t *testing.T) {
	for _, c := range deviceCases {
		s := &snapshot{now: start, service: onVFs(), devices: everything()}
		if c.change != nil {
			c.change(s)
		}
		d := decideDevice(s)
		kept := int32(-1)
		if d.choice != nil {
			kept = d.choice.Entry
		}
		var failed []string
		for _, e := range d.entries {
			if e.State == v1alpha1.DeviceFailed {
				failed = append(failed, e.Reason)
			}
		}
		if d.device.Type != c.device || kept != c.kept || d.usable.Reason != c.reason || strings.Join(failed, " ") != c.failed || !strings.Contains(d.usable.Message, c.message) {
			t.Errorf("%s: %s, entry %d kept, %s, failed %v: %s", c.name, d.device.Type, kept, d.usable.Reason, failed, d.usable.Message)
		}
	}
}

// refusedDeployment is one for that device whose pods the API server does not admit.
func refusedDeployment(device string) *appsv1.Deployment {
	d := &appsv1.Deployment{}
	d.Spec.Template.Annotations = map[string]string{render.AnnotationDevice: device}
	d.Status.Conditions = []appsv1.DeploymentCondition{{
		Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: `pods "x" is forbidden: violates PodSecurity "restricted:latest"`,
	}}
	return d
}

// keep makes the status say that an entry was taken because no node offered the ones
// before it.
func keep(s *snapshot, entry int32) {
	s.service.Status.DeviceChoice = &v1alpha1.DeviceChoice{Entry: entry, AskedHash: askedHash(s.service)}
	for i := range entry {
		s.service.Status.Devices = append(s.service.Status.Devices, v1alpha1.DeviceStatus{
			Entry: i, Device: "x", State: v1alpha1.DeviceFailed, Reason: v1alpha1.ReasonResourceMissing, Message: "no node offers it",
		})
	}
}

// Four pods and two for a rollout: with fewer devices than six one is taken away first.
func TestWithoutSurge(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(s *snapshot, d *v1alpha1.Device)
		want   bool
	}{
		{name: "two to spare", change: func(s *snapshot, _ *v1alpha1.Device) { s.devices.offered[vf] = 6 }},
		{name: "one to spare, and two rollouts at once", change: func(s *snapshot, _ *v1alpha1.Device) { s.devices.offered[vf] = 5 }, want: true},
		{name: "one to spare, without routers", change: func(s *snapshot, _ *v1alpha1.Device) {
			s.devices.offered[vf], s.service.Spec.Router.Placement = 3, v1alpha1.PlacementNone
		}},
		{name: "as many as pods", change: func(s *snapshot, _ *v1alpha1.Device) { s.devices.offered[vf] = 4 }, want: true},
		{name: "others hold them", change: func(s *snapshot, _ *v1alpha1.Device) { s.devices.others = map[corev1.ResourceName]int64{vf: 3} }, want: true},
		{name: "a pod waits for one", change: func(s *snapshot, _ *v1alpha1.Device) { s.servers = []*corev1.Pod{waitingFor(vfDevice, noVF, 0)} }, want: true},
		{name: "the rollout's own pod takes the spare one", change: func(s *snapshot, _ *v1alpha1.Device) {
			s.devices.offered[vf] = 6
			s.servers = []*corev1.Pod{runningOn("s1", vfDevice, "r"), runningOn("s2", vfDevice, "r"), runningOn("s3", vfDevice, "r")}
		}},
		{name: "claims are not counted", change: func(_ *snapshot, d *v1alpha1.Device) { d.ResourceName, d.ResourceClaimTemplateName = "", "vf" }, want: true},
		{name: "an interface that every pod gets", change: func(_ *snapshot, d *v1alpha1.Device) {
			*d = v1alpha1.Device{Type: v1alpha1.DeviceAFXDP, NetworkAttachment: "data"}
		}},
	} {
		s := &snapshot{now: start, service: onVFs(), devices: everything()}
		d := s.service.Spec.Device.Device
		c.change(s, &d)
		if got := withoutSurge(s, d); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestReadDefinition(t *testing.T) {
	nad := func(config any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{annotationResource: vf}}, "spec": map[string]any{"config": config},
		}}
	}
	for _, c := range []struct {
		name, message string
		config        any
	}{
		{name: "a plugin", config: `{"cniVersion": "1.0.0", "type": "sriov"}`},
		{name: "a chain", config: `{"plugins": [{"type": "bridge"}]}`},
		{name: "a file of the nodes", config: ""},
		{name: "no JSON", config: "type: sriov", message: "must be JSON"},
		{name: "no plugin", config: "{}", message: "must name a CNI plugin"},
		{name: "an object", config: map[string]any{"type": "sriov"}, message: "must be a string"},
		{name: "too long", config: strings.Repeat(" ", 64<<10+1), message: "no longer than 65536"},
	} {
		d := readDefinition("demo/vfs", nad(c.config))
		if (d.against.reason == "") != (c.message == "") || !strings.Contains(d.against.message, c.message) || d.resource != vf {
			t.Errorf("%s: %+v", c.name, d)
		}
		if d.against.reason != "" && d.against.reason != v1alpha1.ReasonDefinitionInvalid {
			t.Errorf("%s: %s", c.name, d.against.reason)
		}
	}
}

// answering is an API server that says one thing of definitions.
type answering struct {
	client.Reader
	err  error
	gets int
}

func (a *answering) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if u, ok := o.(*unstructured.Unstructured); ok {
		a.gets++
		u.Object["spec"] = map[string]any{"config": `{"type": "bridge"}`}
		return a.err
	}
	return a.Reader.Get(ctx, key, o, opts...)
}

func TestDefinitionsAreReadAndBelievedForAWhile(t *testing.T) {
	nads := schema.GroupResource{Group: "k8s.cni.cncf.io", Resource: "network-attachment-definitions"}
	for _, c := range []struct {
		name, network, reason string
		err                   error
		fails                 bool
	}{
		{name: "there", network: "demo/data"},
		{name: "shared", network: "default/data"},
		{name: "of another namespace", network: "secret/data", reason: v1alpha1.ReasonDefinitionForbidden},
		{name: "absent", network: "demo/data", err: apierrors.NewNotFound(nads, "data"), reason: v1alpha1.ReasonDefinitionMissing},
		{name: "no such kind", network: "demo/data", err: &meta.NoKindMatchError{}, reason: v1alpha1.ReasonDefinitionMissing},
		{name: "an older chart", network: "demo/data", err: apierrors.NewForbidden(nads, "data", nil), reason: v1alpha1.ReasonDefinitionForbidden},
		{name: "an API server that is gone", network: "demo/data", err: errors.New("connection refused"), fails: true},
	} {
		b := newBench(t)
		a := &answering{Reader: b.Live, err: c.err}
		b.Live = a
		d, err := b.definition(context.Background(), "demo", c.network)
		if (err != nil) != c.fails || d.against.reason != c.reason {
			t.Errorf("%s: %+v %v", c.name, d, err)
		}
		asked := a.gets
		_, _ = b.definition(context.Background(), "demo", c.network)
		if again := a.gets - asked; asked > 0 && (again == 0) == c.fails {
			t.Errorf("%s: asked %d times more within the time in which answers are believed", c.name, again)
		}
		b.now = b.now.Add(factsBelieved)
		asked = a.gets
		_, _ = b.definition(context.Background(), "demo", c.network)
		if a.gets == asked && c.reason != v1alpha1.ReasonDefinitionForbidden {
			t.Errorf("%s: believed for too long", c.name)
		}
	}
}

const given = `[{"name":"demo/data","interface":"net1","ips":["10.77.0.%d"]}]`

// onData is a pod on the network demo/data.
func onData(name, how, status string) *corev1.Pod {
	p := runningOn(name, dataDevice, how)
	p.Annotations[netstatus.AnnotationNetwork] = "demo/data"
	if status != "" {
		p.Annotations[netstatus.AnnotationStatus] = status
	}
	return p
}

// Members, routers, joined checks, endpoints and status have one address of a pod; only
// sidecars are read at another.
func TestOneAddressForEverything(t *testing.T) {
	server, router := onData("s1", "rRJ", fmt.Sprintf(given, 1)), onData("r1", "rR", fmt.Sprintf(given, 2))
	router.Status.PodIP = "10.0.1.1"
	server.Labels, router.Labels = render.Selector("echo", v1alpha1.ComponentServer), render.Selector("echo", v1alpha1.ComponentRouter)
	s := &snapshot{now: start, service: aService(), servers: []*corev1.Pod{server}, routers: []*corev1.Pod{router},
		states: map[string]stateRead{"r1": runs(hash, "10.77.0.1"), "s1": runs(hash)}}
	s.peers = judgedPeers(s)
	d := decide(t, s, true, []int{1})
	doc := readLive(stored(t, s, d)).doc
	if doc.Members[0].Address != "10.77.0.1" || doc.Routers[0].Address != "10.77.0.2" {
		t.Errorf("document: %+v %+v", doc.Members, doc.Routers)
	}
	if v := decideJoined(s, d)["s1"]; !v.OK() {
		t.Errorf("joined: %+v", v)
	}
	if r := routerStatus(s, d); len(r) != 1 || r[0].Address != "10.77.0.2:8000" {
		t.Errorf("status: %+v", r)
	}
	if e := endpoints(s); len(e) != 2 || e[0].Address.String() != "10.77.0.1" || e[1].Address.String() != "10.77.0.2" || !e[1].Ready {
		t.Errorf("endpoints: %+v", e)
	}
	if at := sidecarsOf(s, s.pods()); !strings.Contains(fmt.Sprint(at[0].Target), "10.0.0.1") || !strings.Contains(fmt.Sprint(at[1].Target), "10.0.1.1") {
		t.Errorf("sidecars: %+v", at)
	}
}

// A pod whose address is not believed is no member, cannot join, and says why; what was
// accepted before stays when somebody edits the annotation.
func TestAddressesThatAreNotBelieved(t *testing.T) {
	for _, c := range []struct {
		name, status string
		known        bool // it was a member at 10.77.0.1 before
		after        time.Duration
		reason       string
		members      int
	}{
		{name: "good", status: fmt.Sprintf(given, 1), reason: v1alpha1.ReasonAddressed, members: 1},
		{name: "not yet", reason: v1alpha1.ReasonNetworkStatusMissing},
		{name: "late", after: time.Minute, reason: v1alpha1.ReasonNetworkStatusLate},
		{name: "malformed", status: "{", reason: v1alpha1.ReasonNetworkStatusMalformed},
		{name: "another network", status: strings.Replace(fmt.Sprintf(given, 1), "data", "other", 1), reason: v1alpha1.ReasonNetworkNotAttached},
		{name: "no address", status: `[{"name":"demo/data","interface":"net1"}]`, reason: v1alpha1.ReasonAddressMissing},
		{name: "two", status: `[{"name":"demo/data","interface":"net1","ips":["10.0.0.1","10.0.0.2"]}]`, reason: v1alpha1.ReasonAddressAmbiguous},
		{name: "a router's", status: fmt.Sprintf(given, 9), reason: v1alpha1.ReasonAddressDuplicated},
		{name: "edited", status: fmt.Sprintf(given, 2), known: true, reason: v1alpha1.ReasonNetworkStatusEdited, members: 1},
	} {
		server, router := onData("s1", "r", c.status), onData("r1", "r", fmt.Sprintf(given, 9))
		server.CreationTimestamp, router.CreationTimestamp = metav1.NewTime(start), metav1.NewTime(start.Add(-time.Hour))
		server.Status.StartTime = &metav1.Time{Time: start}
		s := &snapshot{now: start, service: aService(), servers: []*corev1.Pod{server}, routers: []*corev1.Pod{router}}
		if c.known {
			before := onData("s1", "r", fmt.Sprintf(given, 1))
			s.servers = []*corev1.Pod{before}
			s.peers = judgedPeers(s)
			s.live = readLive(stored(t, s, decide(t, s, true, []int{1})))
			s.servers = []*corev1.Pod{server}
		}
		s.now = s.now.Add(c.after)
		s.peers = judgedPeers(s)
		if v := decideAddressed(s); v.Reason != c.reason || v.OK() != (c.reason == v1alpha1.ReasonAddressed) {
			t.Errorf("%s: %+v", c.name, v)
		}
		doc := readLive(stored(t, s, decide(t, s, true, []int{1}))).doc
		if len(doc.Members) != c.members || c.members == 1 && doc.Members[0].Address != "10.77.0.1" {
			t.Errorf("%s: members %+v", c.name, doc.Members)
		}
		if joined := decideJoined(s, desired{})["s1"]; c.members == 0 && (joined.OK() || joined.Reason != c.reason || joined.Message == "") {
			t.Errorf("%s: joined %+v", c.name, joined)
		}
	}
}

// A pod whose network cannot be made, such as for a function that left vfio-pci, never runs. It is named
// after a while, beside pods that serve.
func TestANetworkThatIsNotMade(t *testing.T) {
	for seconds, reason := range map[int]string{59: v1alpha1.ReasonAddressed, 60: v1alpha1.ReasonNetworkNotMade} {
		late := strandedOn(dataDevice, seconds)
		late.Spec.NodeName = "node-b"
		s := &snapshot{now: start, service: aService(), servers: []*corev1.Pod{onData("s1", "r", fmt.Sprintf(given, 1)), late}}
		s.peers = judgedPeers(s)
		v := decideAddressed(s)
		if v.Reason != reason || reason == v1alpha1.ReasonNetworkNotMade && (v.OK() || !strings.Contains(v.Message, "pod s9: node node-b has not made its network for 1m0s")) {
			t.Errorf("after %d s: %+v", seconds, v)
		}
	}
}

func TestSeeSlices(t *testing.T) {
	slice := func(by string, endpoints int) discoveryv1.EndpointSlice {
		return discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{discoveryv1.LabelManagedBy: by}}, Endpoints: make([]discoveryv1.Endpoint, endpoints),
		}
	}
	const controller = "endpointslice-controller.k8s.io"
	for _, c := range []struct {
		all  []discoveryv1.EndpointSlice
		want slicesSeen
	}{
		{nil, slicesSeen{}},
		{[]discoveryv1.EndpointSlice{slice(controller, 0)}, slicesSeen{}},
		{[]discoveryv1.EndpointSlice{slice(controller, 1), slice(render.ManagedBy, 2)}, slicesSeen{ours: true, theirs: true}},
		{[]discoveryv1.EndpointSlice{slice(render.ManagedBy, 0)}, slicesSeen{ours: true}},
	} {
		if got := seeSlices(c.all); got != c.want {
			t.Errorf("%+v: %+v", c.all, got)
		}
	}
}

// fallingBack is a bench with one virtual function on its one node, and the network of it.
type fallingBack struct {
	*bench
	api *answering
}

func newFallingBack(t *testing.T) *fallingBack {
	b := newBench(t)
	s := &v1alpha1.RpcService{}
	f := &fallingBack{bench: b, api: &answering{Reader: b.Live}}
	f.get(s, "echo")
	s.Spec.Device = onVFs().Spec.Device
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{vf: resource.MustParse("1")}}}
	if err := errors.Join(b.Client.Update(t.Context(), s), b.Client.Create(t.Context(), node)); err != nil {
		t.Fatal(err)
	}
	b.Live = definitionsOf(f.api)
	return f
}

func (f *fallingBack) get(o client.Object, name string) {
	f.t.Helper()
	if err := f.Client.Get(f.t.Context(), client.ObjectKey{Namespace: "demo", Name: name}, o); err != nil {
		f.t.Fatal(err)
	}
}

// at turns the clock, reconciles twice and says which device the status shows; why is the
// reason of its first entry.
func (f *fallingBack) at(after time.Duration, device, why string) {
	f.t.Helper()
	f.now = start.Add(after)
	f.must(2)
	s := &v1alpha1.RpcService{}
	f.get(s, "echo")
	if s.Status.Device != device || s.Status.Devices[0].Reason != why {
		f.t.Fatalf("after %s: %s, want %s; %+v", after, s.Status.Device, device, s.Status.Devices)
	}
}

// The whole way through the reconciler: virtual functions that no pod gets give way to
// AF_XDP after 60 s, which is kept by the next reconciliation and by another leader,
// and given up for the first device when somebody asks for that.
func TestReconcileFallsBack(t *testing.T) {
	b := newFallingBack(t)
	b.at(0, "SRIOV", v1alpha1.ReasonDeviceInUse)
	stuck := waitingFor(vfDevice, noVF, 0)
	stuck.Name, stuck.Namespace, stuck.Labels = "s9", "demo", render.Selector("echo", v1alpha1.ComponentServer)
	if err := b.Client.Create(t.Context(), stuck); err != nil {
		t.Fatal(err)
	}
	b.at(schedulable-time.Second, "SRIOV", v1alpha1.ReasonDeviceInUse)
	b.at(schedulable, "AFXDP", v1alpha1.ReasonUnschedulable)
	if c := b.condition(v1alpha1.ConditionDeviceUsable); c.Reason != v1alpha1.ReasonFellBack || !b.told(v1alpha1.ReasonFellBack) {
		t.Errorf("condition %+v", c)
	}
	service := &corev1.Service{}
	if b.get(service, "echo"); service.Spec.Selector != nil {
		t.Errorf("the Service selects %v", service.Spec.Selector)
	}
	if err := b.Client.Delete(t.Context(), stuck); err != nil {
		t.Fatal(err)
	}
	b.definitions, b.nodes = recent[definition]{}, recent[map[corev1.ResourceName]int64]{}
	b.at(time.Hour, "AFXDP", v1alpha1.ReasonUnschedulable)
	s := &v1alpha1.RpcService{}
	b.get(s, "echo")
	s.Annotations = map[string]string{v1alpha1.AnnotationRetryDevice: "1"}
	if err := b.Client.Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	b.at(time.Hour, "SRIOV", v1alpha1.ReasonDeviceInUse)
}

// An API server that does not answer for ten minutes changes nothing.
func TestDevicesStayWhileNobodyAnswers(t *testing.T) {
	b := newFallingBack(t)
	b.at(0, "SRIOV", v1alpha1.ReasonDeviceInUse)
	b.api.err = errors.New("connection refused")
	b.now = start.Add(10 * time.Minute)
	if b.reconcile(1) == nil {
		t.Error("no error")
	}
	b.api.err = nil
	b.at(10*time.Minute, "SRIOV", v1alpha1.ReasonDeviceInUse)
}

// definitionsOf lets virtual functions come from the resource that pods request.
func definitionsOf(a *answering) client.Reader { return &withResource{a} }

type withResource struct{ *answering }

func (w *withResource) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if u, ok := o.(*unstructured.Unstructured); ok && key.Name == "vfs" {
		u.SetAnnotations(map[string]string{annotationResource: vf})
	}
	return w.answering.Get(ctx, key, o, opts...)
}
