// SPDX-License-Identifier: Apache-2.0

package redirection

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
)

func drained(recorder *events.FakeRecorder) string {
	var out []string
	for len(recorder.Events) > 0 {
		out = append(out, <-recorder.Events)
	}
	return strings.Join(out, "; ")
}

// An event is made of an answer that is new, and warns of what is not as it should be; and one of every new address.
func TestAnnounce(t *testing.T) {
	const accepted, programmed = v1alpha1.ServiceConditionAccepted, v1alpha1.ServiceConditionProgrammed
	of := func(address, kind string, status metav1.ConditionStatus, reason string) corev1.Service {
		s := service("a", 1, address, nil)
		if kind != "" {
			s.Status.Conditions = []metav1.Condition{{Type: kind, Status: status, Reason: reason, Message: "m"}}
		}
		return s
	}
	foreign := of("192.0.2.1", "", "", "")
	foreign.Spec.LoadBalancerClass = ptr("other")
	nothing := of("", "", "", "")
	for _, c := range []struct {
		before, after corev1.Service
		want          string
	}{
		{nothing, of("", accepted, "True", "A"), "Normal A m"},
		{nothing, of("", accepted, "False", "A"), "Warning A m"},
		{nothing, of("", programmed, "False", v1alpha1.ReasonReconciling), "Normal Reconciling m"},
		{nothing, of("", programmed, "True", v1alpha1.ReasonFallingBack), "Warning FallingBack m"},
		{nothing, of("", "Other", "False", "A"), ""},
		{of("", accepted, "True", "A"), of("", accepted, "True", "A"), ""},
		{of("", accepted, "True", "A"), of("", accepted, "True", "B"), "Normal B m"},
		{of("", accepted, "True", "A"), of("", accepted, "False", "A"), "Warning A m"},
		{of("", accepted, "True", "A"), nothing, ""},
		{nothing, of("192.0.2.1", "", "", ""), "Normal AddressGiven the Service has the address 192.0.2.1 of the pool 192.0.2.0/24"},
		{of("192.0.2.1", "", "", ""), of("192.0.2.1", "", "", ""), ""},
		{of("192.0.2.1", "", "", ""), nothing, ""},
		{nothing, foreign, ""},
	} {
		recorder := events.NewFakeRecorder(10)
		r := &Reconciler{Events: recorder, Pool: pool(t, "192.0.2.0/24")}
		r.announce(&c.before, &c.after)
		if got := drained(recorder); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// A status is written and told of when it is new; a Service that has gone is told of nothing.
func TestStatusesAreWritten(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	yes := verdict.Yes(v1alpha1.ReasonAccepted, "m")
	for _, c := range []struct {
		refuse error
		says   string
		told   bool
	}{{nil, "", true}, {errors.New("no"), "write the status of Service shop/a: no", false}, {apierrors.NewNotFound(schema.GroupResource{}, "x"), "", false}} {
		s := service("a", 1, "", nil)
		recorder, writes := events.NewFakeRecorder(10), 0
		w := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&s).WithStatusSubresource(&s).WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
				writes++
				return c.refuse
			},
		}).Build()
		r := &Reconciler{Writer: w, Events: recorder, Now: func() time.Time { return noon }}
		d := decision{service: &s, accepted: yes, programmed: yes}
		err := r.patchStatus(context.Background(), &s, d)
		if (err == nil) != (c.says == "") || err != nil && err.Error() != c.says || (drained(recorder) != "") != c.told || writes != 1 {
			t.Errorf("%v: %v, %d writes", c.refuse, err, writes)
		}
		written := s.DeepCopy()
		writeStatus(written, d, noon)
		if err := r.patchStatus(context.Background(), written, d); err != nil || writes != 1 {
			t.Errorf("nothing new: %v, %d writes", err, writes)
		}
	}
}

// Services wake the controller while they are CRAB's, or have a condition of ours to lose.
func TestWhichServicesWake(t *testing.T) {
	ours, other := service("a", 1, "", nil), corev1.Service{}
	left := corev1.Service{Status: corev1.ServiceStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ServiceConditionProgrammed}}}}
	strange := corev1.Service{Status: corev1.ServiceStatus{Conditions: []metav1.Condition{{Type: "Other"}}}}
	p := whenRelevant()
	for _, c := range []struct {
		name                     string
		s                        client.Object
		create, changes, deleted bool
	}{
		{"ours", &ours, true, true, false}, {"another", &other, false, false, false}, {"one that was ours", &left, true, true, true},
		{"one with conditions of others", &strange, false, false, false}, {"no Service", &corev1.Pod{}, false, false, false},
	} {
		if p.Create(event.CreateEvent{Object: c.s}) != c.create || p.Delete(event.DeleteEvent{Object: c.s}) != c.deleted || p.Generic(event.GenericEvent{Object: c.s}) {
			t.Errorf("%s: created %t, deleted %t", c.name, !c.create, p.Delete(event.DeleteEvent{Object: c.s}))
		}
		if p.Update(event.UpdateEvent{ObjectOld: c.s, ObjectNew: &other}) != c.changes || p.Update(event.UpdateEvent{ObjectOld: &other, ObjectNew: c.s}) != c.changes {
			t.Errorf("%s: a change wakes: %t", c.name, !c.changes)
		}
	}
}

// Slices wake the controller when their Service is CRAB's.
func TestWhichSlicesWake(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	ours, other := service("a", 1, "", nil), corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "b"}}
	r := &Reconciler{Cluster: fake.NewClientBuilder().WithScheme(scheme).WithObjects(&ours, &other).Build()}
	for of, want := range map[string]bool{"a": true, "b": false, "gone": false, "": false} {
		slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Labels: map[string]string{discoveryv1.LabelServiceName: of}}}
		if got := r.whenOfOurs().Generic(event.GenericEvent{Object: slice}); got != want {
			t.Errorf("a slice of %q wakes: %t", of, got)
		}
	}
}

// What a node acknowledges wakes the controller; how many servers it counts does not.
func TestWhatOfANodeWakes(t *testing.T) {
	status := func(change func(*v1alpha1.NodeDataplane)) *v1alpha1.NodeDataplane {
		n := agent("x", "r")
		n.Status.Conditions = []metav1.Condition{{Type: "A", Status: "True", Reason: "r", Message: "m"}, {Type: "B", Status: "True"}}
		change(&n)
		return &n
	}
	same := func(*v1alpha1.NodeDataplane) {}
	p := whenDifferent(acknowledged)
	for name, c := range map[string]struct {
		change func(*v1alpha1.NodeDataplane)
		want   bool
	}{
		"nothing":   {same, false},
		"the order": {func(n *v1alpha1.NodeDataplane) { c := n.Status.Conditions; c[0], c[1] = c[1], c[0] }, false},
		"revision":  {func(n *v1alpha1.NodeDataplane) { n.Status.VIPs[0].Revision = "s" }, true},
		"fallback":  {func(n *v1alpha1.NodeDataplane) { n.Status.VIPs[0].FallBack = "s" }, true},
		"status":    {func(n *v1alpha1.NodeDataplane) { n.Status.Conditions[0].Status = "False" }, true},
		"message":   {func(n *v1alpha1.NodeDataplane) { n.Status.Conditions[0].Message = "n" }, true},
		"version": {func(n *v1alpha1.NodeDataplane) {
			n.Status.AgentVersion = map[bool]string{true: "1"}[n.Status.AgentVersion == ""]
		}, true},
	} {
		if got := p.Update(event.UpdateEvent{ObjectOld: status(same), ObjectNew: status(c.change)}); got != c.want {
			t.Errorf("%s: wakes %t", name, got)
		}
	}
	on, off := onA("a", "DPDK"), onA("a", "Kernel")
	labelled := onA("a", "DPDK")
	labelled.Spec.Server.PodTemplate = &v1alpha1.PodTemplate{}
	labelled.Spec.Server.PodTemplate.Metadata.Labels = map[string]v1alpha1.LabelValue{"a": "b"}
	if reflect.DeepEqual(device(&on), device(&off)) || reflect.DeepEqual(device(&on), device(&labelled)) || !reflect.DeepEqual(device(&on), device(on.DeepCopy())) {
		t.Error("what of an RpcService concerns CRAB")
	}
}
