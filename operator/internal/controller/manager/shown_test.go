// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/slo"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// figures are what is shown, by the metric's name and the pod's, if it has one.
func figures(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				if l.GetName() == "pod" || l.GetName() == "name" && l.GetValue() != "orders" {
					name += " " + l.GetValue()
				}
			}
			out[name] = m.GetGauge().GetValue()
		}
	}
	return out
}

// A group is shown as its status says, each pod with the lag of its newest member; one that is gone is shown no more.
func TestGroupsAreShown(t *testing.T) {
	s := &groupStates{all: map[types.NamespacedName]v1alpha1.ReplicationGroup{}}
	key, two, five := types.NamespacedName{Namespace: "shop", Name: "orders"}, int64(2), int64(5)
	g := &v1alpha1.ReplicationGroup{Spec: v1alpha1.ReplicationGroupSpec{Members: 5, Protocol: v1alpha1.ReplicationRaft}}
	st := &g.Status
	st.Leader, st.Term, st.VotersInForce, st.HealthyVoters, st.Quorum = "orders-member-0", 7, 4, 3, 2
	st.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	st.Members = []v1alpha1.GroupMemberStatus{{Pod: "a", LagEntries: &five}, {Pod: "b"}, {Pod: "a", LagEntries: &two}, {Pod: "c", LagEntries: &five}}
	s.observe(key, g)
	want := map[string]float64{"ready": 1, "has_leader": 1, "term": 7, "voters": 4, "healthy_voters": 3, "quorum": 2, "wanted_members": 5,
		"states_undecided_entry": 0, "member_lag_entries a": 2, "member_lag_entries c": 5}
	got := map[string]float64{}
	for name, v := range figures(t, s) {
		got[name[len("bobtail_group_"):]] = v
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	st.Leader, st.Conditions = "", nil
	s.observe(key, g)
	if got := figures(t, s); got["bobtail_group_ready"] != 0 || got["bobtail_group_has_leader"] != 0 {
		t.Errorf("without a leader: %v", got)
	}
	s.observe(key, nil)
	if got := figures(t, s); len(got) != 0 {
		t.Errorf("gone: %v", got)
	}
}

// failing answers every read with the same error.
type failing struct {
	dataplane.Reader
	err error
}

func (f failing) State(context.Context, dataplane.Target) (*dataplane.SidecarState, error) {
	return nil, f.err
}

func (f failing) Histogram(context.Context, dataplane.Target, string, int) (*dataplane.HistogramReply, error) {
	return nil, f.err
}

func (f failing) Parts(context.Context, dataplane.Target, string, int, int) (*dataplane.HistogramReply, error) {
	return nil, f.err
}

func (f failing) History(context.Context, dataplane.Target) (*dataplane.History, error) {
	return nil, f.err
}

func (f failing) Connects(context.Context, dataplane.Target, string, string, int, int) (*dataplane.Connects, error) {
	return nil, f.err
}

// Every read is counted under its operation and its result, and handed on as it was answered.
func TestEveryReadIsCounted(t *testing.T) {
	refused := &dataplane.ReadError{Kind: dataplane.Refused}
	for result, err := range map[string]error{answered: nil, "Error": errors.New("other"), string(dataplane.Refused): fmt.Errorf("read: %w", refused)} {
		r := &reader{
			next:  failing{err: err},
			reads: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "reads"}, []string{"operation", "result"}),
			took:  prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "took"}, []string{"operation"}),
		}
		ctx, target := t.Context(), dataplane.Target{}
		_, state := r.State(ctx, target)
		_, histogram := r.Histogram(ctx, target, "latency", 30)
		_, parts := r.Parts(ctx, target, "latency", 30, 4)
		_, history := r.History(ctx, target)
		_, connects := r.Connects(ctx, target, "shop", "web", 30, 4)
		for operation, got := range map[string]error{"state": state, "histogram": histogram, "parts": parts, "history": history, "connects": connects} {
			if !errors.Is(got, err) {
				t.Errorf("%s: %v instead of %v", operation, got, err)
			}
		}
		registry := prometheus.NewRegistry()
		registry.MustRegister(r.reads, r.took)
		families, failed := registry.Gather()
		if failed != nil {
			t.Fatal(failed)
		}
		counted := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				name := ""
				for _, l := range m.GetLabel() {
					name += " " + l.GetValue()
				}
				counted[f.GetName()+name] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
		want := map[string]float64{
			"reads state " + result: 1, "reads histogram " + result: 2, "reads history " + result: 1, "reads connects " + result: 1,
			"took state": 1, "took histogram": 2, "took history": 1, "took connects": 1,
		}
		if !maps.Equal(counted, want) {
			t.Errorf("%s: %v, want %v", result, counted, want)
		}
	}
}

// Who has no CRAB has nobody to ask; who has it asks too early before its controller is there.
func TestNobodyAsksCRABTooEarly(t *testing.T) {
	s := &standing{awaited: &awaited{}}
	if s.of(Options{}) != nil || s.agents(Options{}) != nil || s.of(Options{CRAB: true}) == nil || s.agents(Options{CRAB: true}) == nil {
		t.Error("who asks CRAB does not go by the options")
	}
	if _, err := s.Agents(t.Context()); !errors.Is(err, slo.ErrEarly) {
		t.Errorf("agents before there is a controller: %v", err)
	}
}
