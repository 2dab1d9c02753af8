// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// leaseOf is one that somebody renewed at a second of the epoch, for 15 s.
func leaseOf(by string, renewed int64) *coordinationv1.LeaseSpec {
	seconds, at := int32(15), metav1.NewMicroTime(time.Unix(renewed, 0))
	return &coordinationv1.LeaseSpec{HolderIdentity: &by, RenewTime: &at, LeaseDurationSeconds: &seconds}
}

// counting answers with a lease and counts how often.
type counting struct {
	oneLease
	reads int
}

func (c *counting) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	c.reads++
	return c.oneLease.Get(ctx, key, into, opts...)
}

// A lease that was read is believed for two seconds, but only one that is ours.
func TestLeaseIsReadAgain(t *testing.T) {
	now := time.Unix(1000, 0)
	reader := &counting{oneLease: oneLease{spec: leaseOf("pod-b_1", 999)}}
	l := &leadership{reader: reader, host: "pod-a", now: func() time.Time { return now }}
	for i, c := range []struct {
		spec  *coordinationv1.LeaseSpec
		at    time.Duration
		reads int
		leads bool
	}{
		{leaseOf("pod-b_1", 999), 0, 1, false}, {leaseOf("pod-b_1", 999), 0, 2, false}, {leaseOf("pod-a_1", 999), 0, 3, true},
		{leaseOf("pod-a_1", 999), rereadLease - 1, 3, true}, {leaseOf("pod-a_1", 999), rereadLease, 4, true}, {leaseOf("pod-a_1", 999), rereadLease, 4, true},
	} {
		now, reader.spec = time.Unix(1000, 0).Add(c.at), c.spec
		if _, err := l.Term(t.Context()); (err == nil) != c.leads || reader.reads != c.reads {
			t.Errorf("%d: %v after %d reads, want %d", i, err, reader.reads, c.reads)
		}
	}
}

// A lease that lacks something is held by nobody.
func TestLeasesOfNobody(t *testing.T) {
	for name, change := range map[string]func(*coordinationv1.LeaseSpec){
		"holder": func(s *coordinationv1.LeaseSpec) { s.HolderIdentity = nil }, "time": func(s *coordinationv1.LeaseSpec) { s.RenewTime = nil },
		"duration": func(s *coordinationv1.LeaseSpec) { s.LeaseDurationSeconds = nil },
	} {
		spec := leaseOf("pod-a_1", 999)
		change(spec)
		l := &leadership{reader: &oneLease{spec: spec}, host: "pod-a", now: time.Now}
		if _, err := l.Term(t.Context()); err == nil || err.Error() != "nobody holds the lease" {
			t.Errorf("without its %s: %v", name, err)
		}
		if err := acting(&coordinationv1.Lease{Spec: *spec}, time.Unix(1000, 0)); err == nil || err.Error() != "no operator holds the lease yet" {
			t.Errorf("without its %s somebody acts: %v", name, err)
		}
	}
}

// A lease lasts as long as it says, to the second.
func TestActingToTheLastSecond(t *testing.T) {
	lease := &coordinationv1.Lease{Spec: *leaseOf("a", 1000)}
	if err := acting(lease, time.Unix(1015, 0)); err != nil {
		t.Error(err)
	}
	if err := acting(lease, time.Unix(1016, 0)); err == nil || err.Error() != "operator a renewed its lease 16s ago, longer than the 15s it lasts" {
		t.Error(err)
	}
}

// What `helm test` says: which kind is not served, that there is no lease, or nothing.
func TestCheckOnce(t *testing.T) {
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	served := func(kinds ...string) meta.RESTMapper {
		m := meta.NewDefaultRESTMapper(nil)
		for _, kind := range kinds {
			m.Add(v1alpha1.GroupVersion.WithKind(kind), meta.RESTScopeNamespace)
		}
		m.Add(schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}, meta.RESTScopeNamespace)
		return m
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "sys", Name: LeaseName}, Spec: *leaseOf("a", 1000)}
	for _, c := range []struct {
		kinds []string
		lease []client.Object
		want  string
	}{
		{nil, nil, "the API server does not serve RpcService.bobtail.dev: install the CRDs (crds.install=true)"},
		{[]string{"RpcService"}, nil, "the API server does not serve ServiceLevelObjective.bobtail.dev: install the CRDs (crds.install=true)"},
		{[]string{"RpcService", "ServiceLevelObjective"}, nil, "read the lease that operators hold while they act: "},
		{[]string{"RpcService", "ServiceLevelObjective"}, []client.Object{lease}, ""},
	} {
		k := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(served(c.kinds...)).WithObjects(c.lease...).Build()
		if err := checkOnce(t.Context(), k, "sys", time.Unix(1001, 0)); (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.kinds, err, c.want)
		}
	}
}

// Who asks before CRAB's controller is there is told what it waits for.
func TestStandingBeforeThereIsAController(t *testing.T) {
	s := &standing{awaited: &awaited{}}
	for want, missing := range map[string][]string{
		"the operator has just started": nil, "the operator waits for kind X; a right; if that lasts, upgrade its chart, CRDs included (crds.install=true)": {"kind X", "a right"},
	} {
		s.awaited.note(missing)
		if ok, reason, message, err := s.Standing(t.Context(), &corev1.Service{}); ok || reason != v1alpha1.ReasonReconciling || message != want || err != nil {
			t.Errorf("%v %s %q %v", ok, reason, message, err)
		}
	}
}

// The ends of ports, and each part of an address of a collector.
func TestOptionsAtTheirBounds(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "sys")
	for arg, ok := range map[string]bool{
		"--crab-agent-port=1": true, "--crab-agent-port=0": false, "--crab-agent-port=65535": true,
		"--otlp-endpoint=https://c": true, "--otlp-endpoint=ftp://c": false, "--otlp-endpoint=http://": false, "--otlp-endpoint=http://%zz": false,
	} {
		if _, err := ParseOptions([]string{arg}, "1"); (err == nil) != ok || err != nil && !errors.Is(err, ErrUsage) {
			t.Errorf("%s: %v", arg, err)
		}
	}
}
