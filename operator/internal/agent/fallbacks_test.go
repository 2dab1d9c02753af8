// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/events"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

// Every counter that the events go by is one that programs count.
func TestFallBackCountersExist(t *testing.T) {
	known := map[string]bool{}
	for _, name := range redirect.Reasons {
		known[name] = true
	}
	for _, r := range whyClientsFallBack {
		if !known[r.counter] {
			t.Errorf("no program counts %s", r.counter)
		}
	}
}

// C-8, C-40, C-105: a reason is told when it appears and then at most once in tellAgain, each for itself.
func TestClientsThatFallBackAreTold(t *testing.T) {
	start, f := time.Unix(1000, 0), &fallBacks{}
	for _, c := range []struct {
		after    time.Duration
		counters map[string]uint64
		want     []string
	}{
		{0, nil, nil},
		{0, map[string]uint64{"client_syn_no_space": 7}, nil}, // of a former process
		{time.Second, map[string]uint64{"client_syn_no_space": 7, "client_syn_marked": 9}, nil},
		{2 * time.Second, map[string]uint64{"client_syn_no_space": 8}, []string{"1 SYNs had no room"}},
		{3 * time.Second, map[string]uint64{"client_syn_no_space": 20}, nil},
		{4 * time.Second, map[string]uint64{"client_syn_no_space": 20, "client_syn_unmarked_retry": 2}, []string{"2 SYNs got no answer twice"}},
		{3*time.Second + tellAgain, map[string]uint64{"client_syn_no_space": 20, "client_syn_unmarked_retry": 2}, []string{"12 SYNs had no room"}},
		{5*time.Second + 2*tellAgain, map[string]uint64{"client_syn_no_space": 20, "client_syn_unmarked_retry": 2}, nil},
	} {
		got := f.news(start.Add(c.after), c.counters, false)
		if len(got) != len(c.want) {
			t.Errorf("after %v: %q, want %q", c.after, got, c.want)
			continue
		}
		for i := range got {
			if !strings.HasPrefix(got[i], c.want[i]) {
				t.Errorf("after %v: %q, want %q", c.after, got, c.want)
			}
		}
	}
}

// C-43: a balancer that relays answers for servers without agent, which is no news of its clients; what came meanwhile is
// not told afterwards, and other reasons are.
func TestRelayedConnectionsAreNoNews(t *testing.T) {
	now, f := time.Unix(1000, 0), &fallBacks{}
	f.news(now, map[string]uint64{answeredByVIP: 1}, true)
	if got := f.news(now, map[string]uint64{answeredByVIP: 50, "client_syn_no_space": 1}, true); len(got) != 1 || !strings.HasPrefix(got[0], "1 SYNs had no room") {
		t.Errorf("%q", got)
	}
	if got := f.news(now, map[string]uint64{answeredByVIP: 53, "client_syn_no_space": 1}, false); len(got) != 1 || !strings.HasPrefix(got[0], "3 connections were answered") {
		t.Errorf("%q", got)
	}
	alive := map[string]bool{"a": true}
	for _, c := range []struct {
		kind crabplan.Kind
		node string
		is   crabplan.State
		want bool
	}{
		{crabplan.LoadBalancer, "b", crabplan.Ready, true}, {crabplan.LoadBalancer, "b", crabplan.Draining, true},
		{crabplan.LoadBalancer, "b", crabplan.NotReady, false}, {crabplan.LoadBalancer, "a", crabplan.Ready, false}, {crabplan.NodePort, "b", crabplan.Ready, false},
	} {
		p := crabplan.Plan{VIPs: []crabplan.VIP{{Kind: c.kind, Backends: []crabplan.Backend{{Node: "a", State: crabplan.Ready}, {Node: c.node, State: c.is}}}}}
		if relayed(p, alive) != c.want {
			t.Errorf("%+v", c)
		}
	}
}

// The status holds the largest counters, and the same ones each time.
func TestStatusHoldsTheLargestCounters(t *testing.T) {
	counters := map[string]uint64{"none": 0}
	for i, name := range redirect.Reasons {
		counters[name] = uint64(1 + i/10)
	}
	first := most(counters)
	if len(redirect.Reasons) <= v1alpha1.MaxNodeCounters || len(first) != v1alpha1.MaxNodeCounters || !slices.IsSortedFunc(first, func(a, b v1alpha1.NodeCounter) int { return strings.Compare(a.Name, b.Name) }) {
		t.Fatalf("%d of %d counters: %+v", len(first), len(redirect.Reasons), first)
	}
	for range 20 {
		if again := most(counters); !slices.Equal(again, first) {
			t.Fatalf("%+v, then %+v", first, again)
		}
	}
	room := (len(redirect.Reasons) - v1alpha1.MaxNodeCounters + 9) / 10 * 10 // what is left out is of these
	for _, name := range redirect.Reasons[room:] {
		if !slices.ContainsFunc(first, func(c v1alpha1.NodeCounter) bool { return c.Name == name }) {
			t.Errorf("%s is left out, though smaller ones are there", name)
		}
	}
}

// The NodeDataplane gets the event when its status is written.
func TestClientsThatFallBackAreAnEvent(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	counters := map[string]uint64{"client_fallback_synack": 3}
	r := newReporter("node-a", fakeClient(t), recorder, func() (map[string]uint64, error) { return counters, nil })
	for _, n := range []uint64{3, 5} {
		counters["client_fallback_synack"] = n
		if err := r.write(context.Background(), observed{}); err != nil {
			t.Fatal(err)
		}
	}
	if len(recorder.Events) != 1 {
		t.Fatalf("%d events, want one", len(recorder.Events))
	}
	if said := <-recorder.Events; !strings.Contains(said, v1alpha1.ReasonFallingBack) || !strings.Contains(said, "2 connections were answered by the VIP itself") {
		t.Errorf("the event says %q", said)
	}
}
