// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/netstatus"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// attach does what Multus does for a pod.
func (w *world) attach(s *sidecar, ips string) {
	w.t.Helper()
	w.tell(s, fmt.Sprintf(`[{"name":%q,"interface":"net1","ips":[%s]}]`, w.ns+"/data", ips))
}

// tell writes whatever it is into a pod's network-status.
func (w *world) tell(s *sidecar, status string) {
	w.t.Helper()
	w.patch(&corev1.Pod{}, s.pod, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, netstatus.AnnotationStatus, status))
}

// tellWrongly has a pod's network tell what is not believed, each with a reason of its own.
func (w *world) tellWrongly(s *sidecar) {
	w.t.Helper()
	network := w.ns + "/data"
	for _, wrong := range []struct{ status, reason string }{
		{"{", v1alpha1.ReasonNetworkStatusMalformed},
		{"[]", v1alpha1.ReasonNetworkNotAttached},
		{`[{"name":"` + network + `","interface":"net2","ips":["10.77.0.1"]}]`, v1alpha1.ReasonNetworkNotAttached},
		{`[{"name":"` + network + `","interface":"net1"}]`, v1alpha1.ReasonAddressMissing},
		{`[{"name":"` + network + `","interface":"net1","ips":["10.77.0.1","10.77.0.2"]}]`, v1alpha1.ReasonAddressAmbiguous},
	} {
		w.tell(s, wrong.status)
		w.waitCondition(v1alpha1.ConditionAddressed, metav1.ConditionFalse, wrong.reason)
	}
}

// published are the ready addresses in the slices of a Service that carry this manager.
func (w *world) published(service, by string) []string {
	w.t.Helper()
	list := &discoveryv1.EndpointSliceList{}
	if err := direct.List(context.Background(), list, client.InNamespace(w.ns),
		client.MatchingLabels{discoveryv1.LabelServiceName: service, discoveryv1.LabelManagedBy: by}); err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, slice := range list.Items {
		for _, e := range slice.Endpoints {
			if *e.Conditions.Ready {
				out = append(out, e.Addresses...)
			}
		}
	}
	return out
}

func (w *world) waitPublished(service, want string) {
	w.t.Helper()
	eventually(w.t, "endpoints of "+service+" are "+want, func() (bool, string) {
		got := strings.Join(w.published(service, render.ManagedBy), " ")
		return got == want, got
	})
}

func (w *world) waitSelector(want string) {
	w.t.Helper()
	eventually(w.t, "the Service selects "+want, func() (bool, string) {
		s := &corev1.Service{}
		if err := direct.Get(context.Background(), types.NamespacedName{Namespace: w.ns, Name: w.name}, s); err != nil {
			return false, err.Error()
		}
		got := s.Spec.Selector[v1alpha1.LabelComponent]
		return got == want, got
	})
}

// waitFamilies: the Services of a service have one family of IP, whatever they select. With
// two they could not select again in a cluster of one family.
func (w *world) waitFamilies() {
	w.t.Helper()
	for _, name := range []string{w.name, w.name + "-servers"} {
		eventually(w.t, "Service "+name+" has one family", func() (bool, string) {
			s := &corev1.Service{}
			if err := direct.Get(context.Background(), types.NamespacedName{Namespace: w.ns, Name: name}, s); err != nil {
				return false, err.Error()
			}
			return len(s.Spec.IPFamilies) == 1 && *s.Spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack, fmt.Sprintf("%s %v", *s.Spec.IPFamilyPolicy, s.Spec.IPFamilies)
		})
	}
}

// crabService makes a Service of CRAB's class beside the RpcService.
func (w *world) crabService(selector map[string]string) *corev1.Service {
	w.t.Helper()
	class := v1alpha1.LoadBalancerClass
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "vip"}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: &class, Selector: selector, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(80)}}}}
	if err := direct.Create(context.Background(), s); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = direct.Delete(context.Background(), s) }) // frees its address
	return s
}

// A service on another network, as the API server has it: what its cluster lacks stands in
// conditions, its pods are configured and published at their addresses there, an address
// that two pods have keeps one of them out, and on Kernel again nothing is left of it.
func TestServiceOnANetworkOfItsOwn(t *testing.T) {
	t.Parallel()
	operator(t)
	w := newWorld(t, "xdp")
	w.create(`{spec: {workersPerReplica: 2, device: {type: AFXDP, networkAttachment: data}}}`)
	s := w.waitCondition(v1alpha1.ConditionDeviceUsable, metav1.ConditionFalse, v1alpha1.ReasonNoUsableDevice)
	if d := s.Status.Devices; len(d) != 1 || d[0].Reason != v1alpha1.ReasonDefinitionMissing || !strings.Contains(d[0].Message, "install Multus") {
		t.Errorf("devices %+v", d)
	}
	w.waitSelector("")
	w.waitFamilies()
	w.template = map[string]string{netstatus.AnnotationNetwork: w.ns + "/data", render.AnnotationDevice: "AFXDP " + w.ns + "/data"}
	// Routers first: of two pods with one address the older keeps it, and a second may pass in between.
	routers := []*sidecar{w.pod(v1alpha1.ComponentRouter, 0), w.pod(v1alpha1.ComponentRouter, 0)}
	w.attach(routers[0], `"10.77.0.3"`)
	w.attach(routers[1], `"10.77.0.4"`)
	servers := []*sidecar{w.pod(v1alpha1.ComponentServer, 2)}
	w.tellWrongly(servers[0])
	w.attach(servers[0], `"10.77.0.1","fd00::1"`)
	servers = append(servers, w.pod(v1alpha1.ComponentServer, 2))
	w.attach(servers[1], `"10.77.0.3"`)
	w.waitCondition(v1alpha1.ConditionAddressed, metav1.ConditionFalse, v1alpha1.ReasonAddressDuplicated)
	w.attach(servers[1], `"10.77.0.2"`)
	w.waitCondition(v1alpha1.ConditionAddressed, metav1.ConditionTrue, v1alpha1.ReasonAddressed)
	for _, p := range append(append([]*sidecar{}, servers...), routers...) {
		p.runsLatest()
	}
	for _, r := range routers {
		r.setReady()
	}
	for _, p := range servers {
		w.waitJoined(p, corev1.ConditionTrue)
		p.setReady()
	}
	w.waitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
	w.waitPublished("xdp", "10.77.0.3 10.77.0.4")
	w.waitPublished("xdp-servers", "10.77.0.1 10.77.0.2")
	doc, _ := w.config()
	if doc.Service.DeviceProfile != "AFXDP" || doc.Members[0].Address != "10.77.0.1" || doc.Routers[1].Address != "10.77.0.4" {
		t.Errorf("document %+v", doc)
	}
	if st := w.service().Status; st.Device != "AFXDP" || st.Routers[0].Address != "10.77.0.3:8000" {
		t.Errorf("status %+v", st)
	}
	vip := w.crabService(map[string]string{v1alpha1.LabelService: "xdp", v1alpha1.LabelComponent: v1alpha1.ComponentServer})
	refused := meta.FindStatusCondition(waitService(t, vip, v1alpha1.ServiceConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonServersOnDevice).Status.Conditions, v1alpha1.ServiceConditionAccepted)
	if !strings.Contains(refused.Message, "RpcService xdp, which are on AFXDP") {
		t.Errorf("refused with %q", refused.Message)
	}
	w.attach(servers[1], `"10.77.0.99"`)
	w.waitCondition(v1alpha1.ConditionAddressed, metav1.ConditionFalse, v1alpha1.ReasonNetworkStatusEdited)
	w.waitPublished("xdp-servers", "10.77.0.1 10.77.0.2")
	w.patch(&v1alpha1.RpcService{}, "xdp", `{"spec":{"device":{"type":"Kernel","networkAttachment":null}}}`)
	w.waitSelector(v1alpha1.ComponentRouter)
	w.waitFamilies()
	w.waitPublished("xdp", "")
	w.waitPublished("xdp-servers", "")
	eventually(t, "the status is that of a service on Kernel", func() (bool, string) { // it is written after the objects
		st := w.service().Status
		return st.Device == "Kernel" && st.Devices == nil && st.DeviceChoice == nil &&
				meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionDeviceUsable) == nil && meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionAddressed) == nil,
			fmt.Sprintf("%+v", st)
	})
	waitService(t, vip, v1alpha1.ServiceConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted)
}

// Kubernetes' own slices are emptied before its selector goes, or clients would be sent to
// addresses on the pod network for ever.
func TestSlicesOfKubernetesAreEmptiedFirst(t *testing.T) {
	t.Parallel()
	operator(t)
	w := newWorld(t, "moved")
	w.create(`{}`)
	w.waitSelector(v1alpha1.ComponentRouter)
	theirs := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "moved-abcde", Labels: map[string]string{
			v1alpha1.LabelService: "moved", discoveryv1.LabelServiceName: "moved", discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io",
		}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.0.7"}}},
	}
	if err := direct.Create(context.Background(), theirs); err != nil {
		t.Fatal(err)
	}
	w.patch(&v1alpha1.RpcService{}, "moved", `{"spec":{"device":{"type":"AFXDP","networkAttachment":"data"}}}`)
	w.waitSelector("nobody")
	theirs.Endpoints = []discoveryv1.Endpoint{}
	if err := direct.Update(context.Background(), theirs); err != nil {
		t.Fatal(err)
	}
	w.waitSelector("")
}

// In a namespace that admits no capabilities the service is on Kernel, and says why.
func TestPodSecurityMakesAServiceFallBack(t *testing.T) {
	t.Parallel()
	operator(t)
	w := newWorld(t, "strict")
	enforce(t, w.ns, "restricted")
	w.create(`{spec: {device: {type: AFXDP, networkAttachment: data, fallback: [{type: Kernel}]}}}`)
	s := w.waitCondition(v1alpha1.ConditionDeviceUsable, metav1.ConditionFalse, v1alpha1.ReasonFellBack)
	if st := s.Status; st.Device != "Kernel" || st.Devices[0].Reason != v1alpha1.ReasonPodSecurity || st.Devices[1].State != v1alpha1.DeviceInUse {
		t.Errorf("status %+v", st)
	}
}
