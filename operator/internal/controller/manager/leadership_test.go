// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/internal/switches"
	"github.com/bobtail-dev/bobtail/operator/internal/switches/keeper"
	"github.com/bobtail-dev/bobtail/operator/internal/switches/link"
)

// oneLease answers with a lease, or fails.
type oneLease struct {
	client.Reader
	spec *coordinationv1.LeaseSpec
}

func (l *oneLease) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if l.spec == nil {
		return errors.New("no answer")
	}
	into.(*coordinationv1.Lease).Spec = *l.spec
	return nil
}

// W-20: the term is that of the lease as this process wrote it last; when somebody else
// holds it, or nobody can say, it is over.
func TestLeadership(t *testing.T) {
	now := time.Unix(1000, 0)
	held := func(by string, renewed int64, transitions int32) *coordinationv1.LeaseSpec {
		seconds, at := int32(15), metav1.NewMicroTime(time.Unix(renewed, 0))
		return &coordinationv1.LeaseSpec{HolderIdentity: &by, RenewTime: &at, LeaseDurationSeconds: &seconds, LeaseTransitions: &transitions}
	}
	reader := &oneLease{}
	l := &leadership{reader: reader, namespace: "n", host: "pod-a", now: func() time.Time { return now }}
	if _, err := l.Term(context.Background()); err == nil {
		t.Error("a term without a lease")
	}
	reader.spec = held("pod-b_1", 999, 3)
	if _, err := l.Term(context.Background()); err == nil || !strings.Contains(err.Error(), "pod-b_1 holds the lease") {
		t.Errorf("another's lease: %v", err)
	}
	reader.spec = held("pod-a_1", 999, 4)
	term, err := l.Term(context.Background())
	if err != nil || term.Number != 4 || !term.Until.Equal(time.Unix(1014, 0)) {
		t.Errorf("%+v, %v", term, err)
	}
	reader.spec, now = nil, now.Add(3*time.Second)
	if term, err = l.Term(context.Background()); err != nil || term.Over(now) {
		t.Errorf("an API server that stumbles ended the term: %+v, %v", term, err)
	}
	now = time.Unix(1014, 0)
	if _, err = l.Term(context.Background()); err == nil {
		t.Error("the term outlives its lease")
	}
	reader.spec = held("pod-a_2", 1013, 5)
	if _, err = l.Term(context.Background()); err == nil {
		t.Error("another process of this host is taken for this one")
	}
	alone := &leadership{alone: true}
	if term, err = alone.Term(context.Background()); err != nil || term.Over(time.Now()) {
		t.Errorf("%+v, %v", term, err)
	}
}

// oneReading is of one service on each switch, of which a quarter of class 4 is refused.
type oneReading struct{}

func (oneReading) Counts(string) map[string]keeper.Counted {
	return map[string]keeper.Counted{"demo/echo": {By: map[switches.Fate]uint64{switches.Late: 9}}}
}

func (oneReading) Measured(string) map[string]keeper.Measured {
	m := keeper.Measured{}
	m.Shares[4] = 1 << 14
	return map[string]keeper.Measured{"demo/echo": m}
}

// Every metric of switches stands in the page about them, and is of the states observed.
func TestSwitchMetrics(t *testing.T) {
	page, err := os.ReadFile(filepath.FromSlash("../../../../docs/reference/metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	s := &switchStates{all: map[string]keeper.State{}, readings: oneReading{}}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s)
	s.observe("leaf", keeper.State{Connected: true, Role: link.Role{Primary: true}, Settled: true, Repaired: 3, Pushes: 2, Strange: 1, Used: map[string]int64{"station": 5}}, true)
	s.observe("gone", keeper.State{}, true)
	s.observe("gone", keeper.State{}, false)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		labels := f.GetMetric()[0].GetLabel()
		if len(f.GetMetric()) != 1 || !slices.ContainsFunc(labels, func(l *dto.LabelPair) bool { return l.GetName() == "switch" && l.GetValue() == "leaf" }) {
			t.Errorf("%v", f)
		}
		got[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
	}
	want := map[string]float64{"connected": 1, "primary": 1, "programmed": 1, "entries": 5, "entries_of_others": 1, "entries_repaired_total": 3, "pipeline_pushes_total": 2, "requests_total": 9, "refused_share": 0.25}
	if len(got) != len(want) {
		t.Errorf("%v", got)
	}
	for name, value := range want {
		if got["bobtail_switch_"+name] != value {
			t.Errorf("%s is %v, want %v", name, got["bobtail_switch_"+name], value)
		}
	}
	named := regexp.MustCompile(`fqName: "([a-z_]+)"`)
	for _, d := range switchMetrics {
		if name := named.FindStringSubmatch(d.String())[1]; !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/reference/metrics.md does not name %s", name)
		}
	}
}
