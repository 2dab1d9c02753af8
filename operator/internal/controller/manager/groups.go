// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/pki"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/replicationgroup"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/switchboard"
	"github.com/bobtail-dev/bobtail/operator/internal/features"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// addGroups adds the controller of ReplicationGroups.
func addGroups(mgr ctrl.Manager, o Options, store *pki.Store, sidecars replicationgroup.Sidecars, board *switchboard.Board) error {
	shown, err := instrumentGroups()
	if err != nil {
		return err
	}
	r := &replicationgroup.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Sidecars: sidecars, Authority: store.Authority,
		Events: mgr.GetEventRecorder("bobtail-operator"), Observe: shown.observe, Now: time.Now,
		Registry: o.ImageRegistry, Version: o.ImageVersion, OperatorNamespace: o.Namespace, OTLPEndpoint: o.OTLPEndpoint,
		Board: board,
	}
	_, err = await(mgr, features.Groups, r.SetupWithManager)
	return err
}

// groupStates shows groups: it keeps what was observed last.
type groupStates struct {
	mu  sync.Mutex
	all map[types.NamespacedName]v1alpha1.ReplicationGroup
}

func groupMetric(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("bobtail_group_"+name, help, append([]string{"namespace", "group"}, labels...), nil)
}

var (
	groupReady     = groupMetric("ready", "1 while a ReplicationGroup is Ready.")
	groupHasHead   = groupMetric("has_leader", "1 while a member leads with a quorum behind it.")
	groupTerm      = groupMetric("term", "The newest term that a member speaks of.")
	groupVoters    = groupMetric("voters", "Voters of the membership in force, as the leader said last.")
	groupHealthy   = groupMetric("healthy_voters", "Voters that answer, and lead or follow.")
	groupQuorum    = groupMetric("quorum", "How many voters must agree.")
	groupWanted    = groupMetric("wanted_members", "Members that the specification asks for.")
	groupHasBox    = groupMetric("has_box", "1 while clients of a HovercRaft group reach a box that is ready.")
	groupShared    = groupMetric("aggregator_in_use", "1 while the leader of a HovercRaft++ group sends by way of the aggregator.")
	groupUndecided = groupMetric("states_undecided_entry", "The entry after which the members' states differ and no majority has the same; 0: it is not so.")
	groupLag       = groupMetric("member_lag_entries", "Entries that a member has yet to get, by pod.", "pod")
)

var groupMetrics = []*prometheus.Desc{groupReady, groupHasHead, groupTerm, groupVoters, groupHealthy, groupQuorum, groupWanted, groupHasBox, groupShared, groupUndecided, groupLag}

// instrumentGroups registers the metrics of groups.
func instrumentGroups() (*groupStates, error) {
	s := &groupStates{all: map[types.NamespacedName]v1alpha1.ReplicationGroup{}}
	var already prometheus.AlreadyRegisteredError
	err := metrics.Registry.Register(s)
	if errors.As(err, &already) {
		if before, is := already.ExistingCollector.(*groupStates); is {
			return before, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("register the metrics of groups: %w", err)
	}
	return s, nil
}

func (s *groupStates) observe(key types.NamespacedName, group *v1alpha1.ReplicationGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if group == nil {
		delete(s.all, key)
		return
	}
	s.all[key] = *group.DeepCopy()
}

// Describe is of prometheus.Collector.
func (s *groupStates) Describe(to chan<- *prometheus.Desc) {
	for _, d := range groupMetrics {
		to <- d
	}
}

// Collect is of prometheus.Collector.
func (s *groupStates) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, g := range s.all {
		st := g.Status
		for d, v := range map[*prometheus.Desc]float64{
			groupReady: one(meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionReady)), groupHasHead: one(st.Leader != ""),
			groupTerm: float64(st.Term), groupVoters: float64(st.VotersInForce), groupHealthy: float64(st.HealthyVoters),
			groupQuorum: float64(st.Quorum), groupWanted: float64(g.Spec.Members),
			groupUndecided: undecided(&g),
		} {
			to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, key.Namespace, key.Name)
		}
		for d, v := range besideMembers(&g) {
			to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, key.Namespace, key.Name)
		}
		shown := map[string]bool{}
		for i := len(st.Members) - 1; i >= 0; i-- { // the newest member of a pod
			if m := st.Members[i]; m.LagEntries != nil && !shown[m.Pod] {
				shown[m.Pod] = true
				to <- prometheus.MustNewConstMetric(groupLag, prometheus.GaugeValue, float64(*m.LagEntries), key.Namespace, key.Name, m.Pod)
			}
		}
	}
}

// undecided is the entry after which no majority of the members has the same state, 0 when it is not so.
func undecided(g *v1alpha1.ReplicationGroup) float64 {
	if e := g.Status.StatesUndecidedEntry; e != nil {
		return float64(*e)
	}
	return 0
}

// besideMembers are the metrics that a Raft group has not.
func besideMembers(g *v1alpha1.ReplicationGroup) map[*prometheus.Desc]float64 {
	out := map[*prometheus.Desc]float64{}
	if render.HasBox(g) && g.Status.FormedTime != nil {
		ready := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionReady)
		out[groupHasBox] = one(ready == nil || ready.Reason != v1alpha1.ReasonNoBox)
	}
	if g.Status.Aggregator != "" {
		out[groupShared] = one(g.Status.Aggregator == v1alpha1.AggregatorInUse)
	}
	return out
}
