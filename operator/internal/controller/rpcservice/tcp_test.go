// SPDX-License-Identifier: Apache-2.0

package rpcservice

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

func overTCP() *v1alpha1.RpcService {
	s := aService()
	s.Spec.Protocol, s.Spec.WorkersPerReplica, s.Spec.Router.Placement = v1alpha1.ProtocolTCP, 1, v1alpha1.PlacementNone
	s.Spec.TCP = &v1alpha1.RpcServiceTCP{Port: 8080, Policy: v1alpha1.TCPJSQ}
	return s
}

// front is the Service as it should be, with the judgement of CRAB's controller
// and addresses.
func front(s *v1alpha1.RpcService, status metav1.ConditionStatus, reason, message string, addresses ...string) *corev1.Service {
	f := render.TCPService(render.Input{Service: s})
	f.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ServiceConditionAccepted, Status: status, Reason: reason, Message: message}}
	for _, a := range addresses {
		f.Status.LoadBalancer.Ingress = append(f.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: a})
	}
	return f
}

func TestDecideProgrammedTCP(t *testing.T) {
	s := overTCP()
	yes := metav1.ConditionTrue
	good := front(s, yes, v1alpha1.ReasonAccepted, "", "192.0.2.1")
	unjudged := good.DeepCopy()
	unjudged.Status.Conditions = nil
	other := good.DeepCopy()
	other.Annotations = map[string]string{v1alpha1.AnnotationPolicy: "Random"}
	stands := standing{crab: true, Verdict: verdict.Yes(v1alpha1.ReasonProgrammed, "3 nodes acknowledge it")}
	says := func(reason, message string) standing {
		return standing{crab: true, Verdict: verdict.No(reason, message)}
	}
	falling := standing{crab: true, Verdict: verdict.Yes(v1alpha1.ReasonFallingBack, "no server takes redirects")}
	const normal = "; clients in the cluster reach it by its ClusterIP, echo.demo.svc:8080"
	for _, c := range []struct {
		name            string
		front           *corev1.Service
		standing        standing
		ok              bool
		reason, message string
		addresses       []string
	}{
		{"no CRAB", good, standing{}, false, v1alpha1.ReasonCRABDisabled, "set crab.enabled and crab.vipPool of the chart" + normal, nil},
		{"no Service yet", nil, standing{crab: true}, false, v1alpha1.ReasonReconciling, "has just been changed", nil},
		{"the Service asks for another policy still", other, stands, false, v1alpha1.ReasonReconciling, "has just been changed", []string{"192.0.2.1:8080"}},
		{"not judged", unjudged, stands, false, v1alpha1.ReasonReconciling, "CRAB has not judged", []string{"192.0.2.1:8080"}},
		{"refused", front(s, metav1.ConditionFalse, v1alpha1.ReasonPoolExhausted, "all addresses are taken"), says(v1alpha1.ReasonReconciling, "1 of 1 nodes"),
			false, v1alpha1.ReasonPoolExhausted, "CRAB refuses Service echo: all addresses are taken" + normal, nil},
		{"no agent", good, says(v1alpha1.ReasonNoAgents, "no node has an agent"), false, v1alpha1.ReasonNoAgents, "no node has an agent" + normal, nil},
		{"an agent lags", good, says(v1alpha1.ReasonReconciling, "1 of 3 nodes have yet to acknowledge: b"), false, v1alpha1.ReasonReconciling, "yet to acknowledge: b" + normal, []string{"192.0.2.1:8080"}},
		{"acknowledged", good, stands, true, v1alpha1.ReasonProgrammed, "Service echo, generation 4: 3 nodes acknowledge it", []string{"192.0.2.1:8080"}},
		{"acknowledged, with a warning", front(s, yes, v1alpha1.ReasonEndpointsExcluded, "2 endpoints", "192.0.2.1"), stands, true, v1alpha1.ReasonProgrammed, "acknowledge it; 2 endpoints", []string{"192.0.2.1:8080"}},
		{"falling back", good, falling, true, v1alpha1.ReasonFallingBack, "no server takes redirects", []string{"192.0.2.1:8080"}},
		{"two families", front(s, yes, v1alpha1.ReasonAccepted, "", "192.0.2.1", "2001:db8::1"), stands, true, v1alpha1.ReasonProgrammed, "", []string{"192.0.2.1:8080", "[2001:db8::1]:8080"}},
	} {
		in := &snapshot{now: start, service: s, front: c.front, standing: c.standing}
		v := decideProgrammedTCP(in, render.TCPService(render.Input{Service: s}))
		if v.OK() != c.ok || v.Reason != c.reason || !strings.Contains(v.Message, c.message) {
			t.Errorf("%s: %+v, want %v %s, %q", c.name, v, c.ok, c.reason, c.message)
		}
		if got := frontAddresses(in); !slices.Equal(got, c.addresses) {
			t.Errorf("%s: addresses %v, want %v", c.name, got, c.addresses)
		}
	}
}

// redirected answers as it is told.
type redirected struct {
	verdict.Verdict
	err   error
	asked *corev1.Service
}

func (r *redirected) Standing(_ context.Context, s *corev1.Service) (bool, string, string, error) {
	r.asked = s
	return r.OK(), r.Reason, r.Message, r.err
}

// onTCP is a bench whose service speaks TCP, with one server.
func onTCP(t *testing.T) (*bench, *redirected) {
	t.Helper()
	b, ctx := newBench(t), context.Background()
	service, pod := &v1alpha1.RpcService{}, &corev1.Pod{}
	if err := errors.Join(b.Client.Get(ctx, key, service), b.Client.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: "s1"}, pod)); err != nil {
		t.Fatal(err)
	}
	one := int32(1)
	service.Spec = overTCP().Spec
	service.Spec.Replicas = &one
	pod.Annotations = nil
	if err := errors.Join(b.Client.Update(ctx, service), b.Client.Update(ctx, pod)); err != nil {
		t.Fatal(err)
	}
	crab := &redirected{Verdict: verdict.Yes(v1alpha1.ReasonProgrammed, "2 nodes acknowledge it")}
	b.Redirection = crab
	return b, crab
}

func (b *bench) service() *v1alpha1.RpcService {
	b.t.Helper()
	s := &v1alpha1.RpcService{}
	if err := b.Client.Get(context.Background(), key, s); err != nil {
		b.t.Fatal(err)
	}
	return s
}

// Without a sidecar, a key or a certificate, and by name as long as there is no
// address.
func TestTCPIsProgrammedByCRAB(t *testing.T) {
	b, crab := onTCP(t)
	ctx := context.Background()
	b.must(2)
	if crab.asked == nil || crab.asked.Name != "echo" {
		t.Errorf("asked about %v", crab.asked)
	}
	if st := b.service().Status; st.Address != "echo.demo.svc:8080" || st.Policy != "JSQ" || st.Forwarding != "None" || st.Workers != "1/1" || st.ConfigHash != "" {
		t.Errorf("status %+v", st)
	}
	if c := b.condition(v1alpha1.ConditionProgrammed); c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonReconciling {
		t.Errorf("not judged yet: %+v", c)
	}
	made := &corev1.Service{}
	if err := b.Client.Get(ctx, key, made); err != nil {
		t.Fatal(err)
	}
	made.Status = front(b.service(), metav1.ConditionTrue, v1alpha1.ReasonAccepted, "", "192.0.2.1").Status
	if err := b.Client.Status().Update(ctx, made); err != nil {
		t.Fatal(err)
	}
	b.must(1)
	s := b.service()
	if s.Status.Address != "192.0.2.1:8080" || !slices.Equal(s.Status.Addresses, []string{"192.0.2.1:8080"}) {
		t.Errorf("address %s, %v", s.Status.Address, s.Status.Addresses)
	}
	for _, kind := range []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionProgrammed} {
		if c := b.condition(kind); c.Status != metav1.ConditionTrue || c.ObservedGeneration != s.Generation {
			t.Errorf("%+v", c)
		}
	}
	for _, o := range []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}, &corev1.ServiceAccount{}} {
		for _, suffix := range []string{"-keys", "-tls", "-dataplane", "-sidecar"} {
			if b.Client.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: "echo" + suffix}, o) == nil {
				t.Errorf("%T echo%s was made", o, suffix)
			}
		}
	}
}

// What cannot be asked is tried again, and what CRAB refuses is told.
func TestTCPTellsOfRefusals(t *testing.T) {
	b, crab := onTCP(t)
	b.must(1)
	crab.err = errors.New("the cache is gone")
	if err := b.reconcile(1); err == nil || !strings.Contains(err.Error(), "the cache is gone") {
		t.Errorf("%v", err)
	}
	crab.err = nil
	made := &corev1.Service{}
	if err := b.Client.Get(context.Background(), key, made); err != nil {
		t.Fatal(err)
	}
	made.Status = front(b.service(), metav1.ConditionFalse, v1alpha1.ReasonPoolExhausted, "all are taken").Status
	if err := b.Client.Status().Update(context.Background(), made); err != nil {
		t.Fatal(err)
	}
	b.must(1)
	if c := b.condition(v1alpha1.ConditionProgrammed); c.Reason != v1alpha1.ReasonPoolExhausted {
		t.Errorf("%+v", c)
	}
	for {
		select {
		case e := <-b.events.Events:
			if strings.HasPrefix(e, "Warning PoolExhausted") {
				return
			}
			continue
		default:
		}
		t.Fatal("no warning PoolExhausted")
	}
}

// Servers of TCP on a device are planned as those of R2P2 without a router, and Programmed
// says what CRAB cannot do for them.
func TestPastTheKernel(t *testing.T) {
	said := verdict.Yes(v1alpha1.ReasonProgrammed, "all acknowledged")
	plain := &snapshot{service: aService()}
	if got := unbalanced(plain, said); got.Message != said.Message {
		t.Errorf("R2P2: %q", got.Message)
	}
	s := aService()
	s.Spec.Protocol, s.Spec.TCP = v1alpha1.ProtocolTCP, &v1alpha1.RpcServiceTCP{Port: 6379}
	if !render.ByCRAB(s) {
		t.Error("on the kernel CRAB balances")
	}
	s.Spec.Device.Device = v1alpha1.Device{Type: v1alpha1.DeviceAFXDP, NetworkAttachment: "data"}
	if render.ByCRAB(s) {
		t.Error("on a device CRAB does not balance")
	}
	got := unbalanced(&snapshot{service: s}, said)
	if !strings.Contains(got.Message, "CRAB does not balance") || got.Status != said.Status || got.Reason != said.Reason {
		t.Errorf("on a device: %+v", got)
	}
}
