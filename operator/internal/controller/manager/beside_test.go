// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"maps"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// A group that forms has no box yet, and a Raft group never has one: neither is told to lack it, which an alert would wake for.
func TestMetricsBesideTheMembers(t *testing.T) {
	formed := metav1.Now()
	with := func(protocol v1alpha1.ReplicationProtocol, formed *metav1.Time, use v1alpha1.AggregatorUse, reason string) *v1alpha1.ReplicationGroup {
		g := &v1alpha1.ReplicationGroup{Spec: v1alpha1.ReplicationGroupSpec{Protocol: protocol}}
		g.Status.FormedTime, g.Status.Aggregator = formed, use
		if reason != "" {
			g.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Reason: reason}}
		}
		return g
	}
	type shown = map[*prometheus.Desc]float64
	for name, c := range map[string]struct {
		group *v1alpha1.ReplicationGroup
		want  shown
	}{
		"Raft":                  {with(v1alpha1.ReplicationRaft, &formed, "", v1alpha1.ReasonNoBox), shown{}},
		"HovercRaft that forms": {with(v1alpha1.ReplicationHovercRaft, nil, "", v1alpha1.ReasonNoBox), shown{}},
		"nothing known":         {with(v1alpha1.ReplicationHovercRaft, &formed, "", ""), shown{groupHasBox: 1}},
		"with its box":          {with(v1alpha1.ReplicationHovercRaft, &formed, "", v1alpha1.ReasonReady), shown{groupHasBox: 1}},
		"without":               {with(v1alpha1.ReplicationHovercRaft, &formed, "", v1alpha1.ReasonNoBox), shown{groupHasBox: 0}},
		"by way of it":          {with(v1alpha1.ReplicationHovercRaft, &formed, v1alpha1.AggregatorInUse, ""), shown{groupHasBox: 1, groupShared: 1}},
		"not by way of it":      {with(v1alpha1.ReplicationHovercRaft, &formed, "Away", ""), shown{groupHasBox: 1, groupShared: 0}},
	} {
		if got := besideMembers(c.group); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
