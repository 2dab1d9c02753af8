// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"bytes"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// What a group does is what its running members tell together: one that does not run is not asked, one that is silent is
// named, and neither hides those behind it. Requests without an answer are no throughput.
func TestTopOfAGroup(t *testing.T) {
	pending := aMember("orders", "orders-member-0")
	pending.Status.Phase = corev1.PodPending
	c := clusterOf(t, pending, aMember("orders", "orders-member-1"), aMember("orders", "orders-member-2"), aMember("orders", "orders-member-3"), aMember("orders", "orders-member-4"))
	some := steps(map[time.Duration]int{time.Millisecond: 300})
	some.RecordInf()
	c.sidecars = answers{"orders-member-2 v1/histogram?latency": reply(some, 0), "orders-member-3 v1/histogram?latency": &dataplane.HistogramReply{}, "orders-member-4 v1/histogram?latency": reply(steps(map[time.Duration]int{time.Millisecond: 100}), 0)}
	for what, row := range map[string]struct {
		ready []metav1.Condition
		want  string
	}{
		"never judged": {nil, "Ready is not True (unknown): kubectl bobtail -n shop explain rg/orders"},
		"not ready":    {[]metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "NoQuorum"}}, "Ready is not True (NoQuorum): kubectl bobtail -n shop explain rg/orders"},
		"ready":        {[]metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}, ""},
	} {
		g := stuckGroup()
		g.Status.Conditions = row.ready
		got, err := c.topGroup(t.Context(), g, 10)
		if err != nil || got.RequestsPerSecond != 40 || !strings.HasPrefix(got.P50, "1") {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
		missing := got.Missing
		if row.want != "" && (len(missing) == 0 || missing[0] != row.want) {
			t.Errorf("%s: %q, want %q first", what, missing, row.want)
		} else if row.want != "" {
			missing = missing[1:]
		}
		if len(missing) != 1 || !strings.Contains(missing[0], "orders-member-1") {
			t.Errorf("%s: %q are missing", what, missing)
		}
	}
}

// A group is given up only when it is known to have lost its quorum: what its condition says once it is ready again, or
// before it ever was, is no such word.
func TestRecoverNeedsAWordOfTheLoss(t *testing.T) {
	for what, conditions := range map[string][]metav1.Condition{
		"never judged": nil,
		"ready again":  {{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonNoQuorum}},
	} {
		g := stuckGroup()
		g.Status.Conditions = conditions
		c := clusterOf(t, g, aClaim("data-orders-member-2"))
		if _, err := recovering(t, c, "orders\n", wished); err == nil || !strings.Contains(err.Error(), "has not lost its quorum") || exists(t, c, "orders") == nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A deployment that says nothing of its replicas wants one.
func TestReplicasThatAreWanted(t *testing.T) {
	three, none := int32(3), int32(0)
	if wantedReplicas(nil) != 1 || wantedReplicas(&three) != 3 || wantedReplicas(&none) != 0 {
		t.Errorf("%d, %d, %d", wantedReplicas(nil), wantedReplicas(&three), wantedReplicas(&none))
	}
}

// The figures of connections are shown when both are there.
func TestHeadOfAnObjectiveOverTCP(t *testing.T) {
	samples := int64(7)
	for n, c := range []struct {
		observed string
		samples  *int64
		shown    bool
	}{{"1ms", &samples, true}, {"", &samples, false}, {"1ms", nil, false}, {"", nil, false}} {
		slo := anSLO()
		slo.Status.Observed, slo.Status.Samples = c.observed, c.samples
		var out bytes.Buffer
		printHeadTCP(streams{&out, &out}, slo)
		if got := strings.Contains(out.String(), "until a connection is established"); got != c.shown {
			t.Errorf("%d: %s", n, out.String())
		}
	}
}

// Nothing is said to be missing where a service and a group are there; where neither is, a program gets an empty answer.
func TestTopOfAllThereIs(t *testing.T) {
	c := clusterOf(t, stuckGroup())
	c.sidecars = answers{}
	both, _ := aCluster(t, false, stuckGroup())
	for what, row := range map[string]struct {
		*cluster
		missing bool
	}{"a group": {c, false}, "a service and a group": {both, false}, "nothing": {clusterOf(t), true}} {
		_, errs, err := execute(t, row.cluster, "top")
		if got := strings.Contains(errs, "No RpcService and no ReplicationGroup"); err != nil || got != row.missing {
			t.Errorf("%s: %v, %s", what, err, errs)
		}
	}
	for format, shown := range map[string]bool{"json": true, "": false} {
		args := []string{"top"}
		if format != "" {
			args = append(args, "-o", format)
		}
		if out, _, err := execute(t, clusterOf(t), args...); err != nil || strings.Contains(out, `"services"`) != shown {
			t.Errorf("as %q: %s, %v", format, out, err)
		}
	}
}

// A rate is shown of whatever was measured: one of which neither latency nor refusal is known has none.
func TestRatesThatAreShown(t *testing.T) {
	for n, c := range []struct{ p99, rejected, want string }{{"-", "-", "-"}, {"-", "0.0%", "42"}, {"1ms", "-", "42"}, {"1ms", "0.0%", "42"}} {
		var out bytes.Buffer
		if err := printTop(streams{&out, &out}, []topRow{{Name: "cart", Workers: "2/2", RequestsPerSecond: 42, P99: c.p99, Rejected: c.rejected}}, false); err != nil {
			t.Fatal(err)
		}
		line := strings.Fields(strings.Split(out.String(), "\n")[1])
		if line[2] != c.want {
			t.Errorf("%d: %q, want %s", n, line, c.want)
		}
	}
}
