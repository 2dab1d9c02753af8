// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	objective "github.com/bobtail-dev/bobtail/operator/internal/controller/slo"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

func TestParseOptions(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "sys")
	o, err := ParseOptions(nil, "1.2.3")
	if err != nil || o != (Options{ImageRegistry: "localhost", ImageVersion: "1.2.3", LeaderElect: true, MetricsAddress: ":8080", ProbeAddress: ":8081", AgentPort: 9442, Namespace: "sys", FastPath: "Off"}) {
		t.Errorf("defaults %+v, %v", o, err)
	}
	o, err = ParseOptions([]string{"--namespace=x", "--image-registry=r", "--image-version=v", "--leader-elect=false", "--metrics-bind-address=0", "--otlp-endpoint=http://c:4318", "--router-fast-path=Auto",
		"--crab", "--crab-vip-pool=192.0.2.0/28", "--crab-agent-port=9542"}, "")
	if err != nil || !o.CRAB || o.FastPath != v1alpha1.FastPathAuto || o.AgentPort != 9542 || o.VIPPool != "192.0.2.0/28" || o.Namespace != "x" || o.ImageRegistry != "r" || o.ImageVersion != "v" || o.LeaderElect || o.MetricsAddress != "0" || o.OTLPEndpoint != "http://c:4318" {
		t.Errorf("given %+v, %v", o, err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--image-version="}, "--image-version must not be empty"},
		{[]string{"--log-level=loud"}, "log-level"},
		{[]string{"--otlp-endpoint=collector:4318"}, "--otlp-endpoint=collector:4318: must be a URL"},
		{[]string{"--router-fast-path=auto"}, "--router-fast-path=auto must be Off or Auto"},
		{[]string{"--crab-vip-pool=192.0.2.9/28"}, `--crab-vip-pool: "192.0.2.9/28" has bits beyond its length`},
		{[]string{"--crab-agent-port=65536"}, "--crab-agent-port=65536 must be 1 to 65535"},
		{[]string{"--image-registry="}, "--image-registry must not be empty"},
		{[]string{"--namespace="}, "--namespace must not be empty"},
		{[]string{"extra"}, `unexpected argument "extra"`},
		{[]string{"--unknown"}, "flag provided but not defined"},
	} {
		if _, err := ParseOptions(c.args, "1"); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
	if _, err := ParseOptions([]string{"--help"}, "1"); !errors.Is(err, flag.ErrHelp) || errors.Is(err, ErrUsage) {
		t.Errorf("--help: %v", err)
	}
}

func TestActing(t *testing.T) {
	now := time.Now()
	lease := func(holder string, age time.Duration) *coordinationv1.Lease {
		seconds := int32(15)
		at := metav1.NewMicroTime(now.Add(-age))
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &at, LeaseDurationSeconds: &seconds}}
	}
	if err := acting(lease("a", 14*time.Second), now); err != nil {
		t.Error(err)
	}
	for name, l := range map[string]*coordinationv1.Lease{
		"empty, as the chart makes it": {}, "released": lease("", 0), "expired": lease("a", 16*time.Second),
	} {
		if acting(l, now) == nil {
			t.Errorf("%s: somebody acts", name)
		}
	}
}

type fakeReader struct {
	dataplane.Reader
	err error
}

func (f fakeReader) State(context.Context, dataplane.Target) (*dataplane.SidecarState, error) {
	return &dataplane.SidecarState{}, f.err
}

func TestReadsAreCountedByResult(t *testing.T) {
	for want, err := range map[string]error{
		"Answered": nil, "Untrusted": &dataplane.ReadError{Kind: dataplane.Untrusted, Err: errors.New("x")}, "Error": errors.New("x"),
	} {
		r := &reader{
			next:  fakeReader{err: err},
			reads: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "n"}, []string{"operation", "result"}),
			took:  prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "h"}, []string{"operation"}),
		}
		if _, got := r.State(context.Background(), dataplane.Target{}); !errors.Is(got, err) {
			t.Errorf("%s: the error changed to %v", want, got)
		}
		m := &dto.Metric{}
		if err := r.reads.WithLabelValues("state", want).Write(m); err != nil || m.GetCounter().GetValue() != 1 {
			t.Errorf("%s: counted %v, %v", want, m.GetCounter().GetValue(), err)
		}
	}
}

// K-23: an operator that has nothing to do, and one that does not lead, show that they
// are there, and counters begin before there is something to count.
func TestQuietOperatorShowsItself(t *testing.T) {
	if _, _, err := instrument(fakeReader{}, "1.2.3"); err != nil {
		t.Fatal(err)
	}
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]int{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() != "bobtail_build_info" || m.GetLabel()[0].GetValue() == "operator" {
				shown[f.GetName()]++
			}
		}
	}
	if shown["bobtail_build_info"] != 1 || shown["bobtail_operator_sidecar_reads_total"] < len(operations) {
		t.Errorf("shown at rest: %v", shown)
	}
}

func TestObjectivesAreShown(t *testing.T) {
	_, o, err := instrument(fakeReader{}, "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	key := types.NamespacedName{Namespace: "demo", Name: "p99"}
	value := func(g *prometheus.GaugeVec) float64 {
		m := &dto.Metric{}
		if err := g.WithLabelValues(key.Namespace, key.Name, "echo").Write(m); err != nil {
			t.Fatal(err)
		}
		return m.GetGauge().GetValue()
	}
	micro := int64(1500)
	slo := &v1alpha1.ServiceLevelObjective{Spec: v1alpha1.ServiceLevelObjectiveSpec{LatencyMicroseconds: 2000, Percentile: "99"}}
	slo.Spec.TargetRef.Name = "echo"
	for _, c := range []struct {
		status   metav1.ConditionStatus
		micro    *int64
		text     string
		met, obs float64
	}{
		{metav1.ConditionTrue, &micro, "1.5ms", 1, 0.0015},
		{metav1.ConditionFalse, nil, "+Inf", 0, math.Inf(1)},
		{metav1.ConditionUnknown, nil, "", math.NaN(), math.NaN()},
	} {
		slo.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionMet, Status: c.status}}
		slo.Status.ObservedMicroseconds, slo.Status.Observed = c.micro, c.text
		o.observe(key, slo, objective.Counted{Requests: 10, Violations: 3, Rejected: 2})
		if met, obs := value(o.met), value(o.observed); !same(met, c.met) || !same(obs, c.obs) || value(o.objective) != 0.002 {
			t.Errorf("%s: met %v, observed %v, objective %v", c.status, met, obs, value(o.objective))
		}
	}
	if got := value(o.allowed); !same(got, 0.01) {
		t.Errorf("allowed share %v", got)
	}
	if low := value(o.capacityLow); !same(low, math.NaN()) {
		t.Errorf("a capacity that is not known is shown as %v", low)
	}
	slo.Status.Capacity = &v1alpha1.CapacityEstimate{LowRequestsPerSecond: 5, HighRequestsPerSecond: 9}
	o.observe(key, slo, objective.Counted{})
	if low, high := value(o.capacityLow), value(o.capacityHigh); low != 5 || high != 9 {
		t.Errorf("capacity %v..%v", low, high)
	}
	for c, want := range map[*prometheus.CounterVec]float64{o.requests: 30, o.violations: 9, o.rejectedOnes: 6} {
		m := &dto.Metric{}
		if err := c.WithLabelValues(key.Namespace, key.Name, "echo").Write(m); err != nil || m.GetCounter().GetValue() != want {
			t.Errorf("counted %v, want %v (%v)", m.GetCounter().GetValue(), want, err)
		}
	}
	o.observe(key, nil, objective.Counted{})
	if o.met.DeleteLabelValues(key.Namespace, key.Name, "echo") || o.violations.DeleteLabelValues(key.Namespace, key.Name, "echo") {
		t.Error("an objective that is gone is still shown")
	}
}

// K-31: an objective is shown as its service's, and when it is put on another one, as
// that one's alone.
func TestObjectivesNameTheirService(t *testing.T) {
	o := newObjectives()
	key := types.NamespacedName{Namespace: "demo", Name: "p99"}
	slo := &v1alpha1.ServiceLevelObjective{Spec: v1alpha1.ServiceLevelObjectiveSpec{Percentile: "99"}}
	for _, service := range []string{"echo", "cart"} {
		slo.Spec.TargetRef.Name = service
		o.observe(key, slo, objective.Counted{Requests: 3})
	}
	for _, c := range []prometheus.Collector{o.met, o.requests} {
		series := make(chan prometheus.Metric, 10)
		c.Collect(series)
		if n := len(series); n != 1 {
			t.Errorf("%d series of one objective", n)
			continue
		}
		m := &dto.Metric{}
		if err := (<-series).Write(m); err != nil || len(m.GetLabel()) != 3 || m.GetLabel()[2].GetValue() != "cart" || m.GetCounter() != nil && m.GetCounter().GetValue() != 3 {
			t.Errorf("%v, %v", m, err)
		}
	}
}

// A capacity below one request a second is not shown as none, which no load would be
// below; where the objective cannot be attained, none it is.
func TestCapacityBelowOne(t *testing.T) {
	slo := &v1alpha1.ServiceLevelObjective{}
	slo.Status.Capacity = &v1alpha1.CapacityEstimate{}
	for _, attainable := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse} {
		slo.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAttainable, Status: attainable}}
		low, high := capacityOf(slo)
		if none := attainable == metav1.ConditionTrue; math.IsNaN(low) != none || math.IsNaN(high) != none {
			t.Errorf("attainable %s: capacity %v to %v", attainable, low, high)
		}
	}
}

// Every metric of the operator's own stands in the page about them.
func TestMetricsAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.FromSlash("../../../../docs/reference/metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	o := newObjectives()
	all := make(chan *prometheus.Desc, 100)
	for _, g := range o.gauges() {
		g.Describe(all)
	}
	for _, c := range o.counters() {
		c.Describe(all)
	}
	close(all)
	named := regexp.MustCompile(`fqName: "([a-z_]+)"`)
	for d := range all {
		if name := named.FindStringSubmatch(d.String())[1]; !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/reference/metrics.md does not name %s", name)
		}
	}
}

func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }
