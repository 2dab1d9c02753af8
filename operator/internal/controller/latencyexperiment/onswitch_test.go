// SPDX-License-Identifier: Apache-2.0

package latencyexperiment

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

func switched(change func(*v1alpha1.LatencyExperimentSpec)) *v1alpha1.LatencyExperiment {
	e := experiment(func(s *v1alpha1.LatencyExperimentSpec) {
		s.Placement, s.Switch = v1alpha1.ExperimentOnSwitch, &v1alpha1.ExperimentSwitch{Name: "leaf", TemplatePort: 68, TemplatesPerSecond: 10_000}
		s.Target.Addresses = []string{"10.0.1.5:8000", "10.0.1.6:8000"}
		s.Workload = v1alpha1.ExperimentWorkload{Protocol: v1alpha1.ExperimentR2P2, Interarrival: "Poisson"}
		s.Percentile, s.WidthMicroseconds, s.LimitSeconds = "99", 100, 60
	})
	e.UID, e.CreationTimestamp = types.UID("uid"), metav1.Unix(100, 0)
	if change != nil {
		change(&e.Spec)
	}
	return e
}

// What is asked of a switch; addresses that are none are refused by their place.
func TestRunOf(t *testing.T) {
	r, accepted := runOf(switched(nil))
	if !accepted.OK() || r.Switch != "leaf" || r.Rate != 1000 || r.TemplateRate != 10_000 || r.Packets != 60_000 || r.Number == 0 || r.Fixed || len(r.Targets) != 2 || r.Version != "uid" {
		t.Errorf("%+v, %+v", r, accepted)
	}
	for text, want := range map[string]string{"echo.apps:8000": "is no IPv4 address", "[fd00::1]:80": "is no IPv4 address", "10.0.1.5:0": "is no IPv4 address", "10.0.1.5:8000": "stands twice"} {
		_, accepted := runOf(switched(func(s *v1alpha1.LatencyExperimentSpec) { s.Target.Addresses = []string{"10.0.1.5:8000", text} }))
		if accepted.OK() || !strings.Contains(accepted.Message, "`spec.target.addresses[1]`") || !strings.Contains(accepted.Message, want) {
			t.Errorf("%s: %+v", text, accepted)
		}
	}
}

func TestDecideAtSwitch(t *testing.T) {
	e := switched(nil)
	for want, row := range map[string]struct {
		answer       v1alpha1.SwitchService
		found, there bool
	}{
		"False SwitchNotFound, False NotAccepted":     {},
		"True Accepted, False Reconciling":            {there: true},
		"False TargetsUnreachable, False NotAccepted": {v1alpha1.SwitchService{Reason: v1alpha1.ReasonTargetsUnreachable, Message: "no way"}, true, true},
		"True Accepted, False SwitchNotProgrammed":    {v1alpha1.SwitchService{}, true, true},
		"True Accepted, True Programmed":              {v1alpha1.SwitchService{ConfigHash: "uid"}, true, true},
	} {
		a, p := decideAtSwitch(e, row.answer, row.found, row.there)
		if got := string(a.Status) + " " + a.Reason + ", " + string(p.Status) + " " + p.Reason; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// reading after so many seconds, of which each sent a thousand packets.
func reading(second int, sent, lost uint64, latency time.Duration) Reading {
	h := &ll7.Histogram{}
	h.RecordMany(uint64(latency), sent-lost)
	return Reading{At: time.Unix(int64(1000+second), 0), Sent: sent, Received: sent - lost, Latency: h}
}

// The rate is that of the load, however long after its end the switch is read: it ended somewhere between two readings.
func TestRateUntilTheLoadEnds(t *testing.T) {
	e := switched(func(s *v1alpha1.LatencyExperimentSpec) { s.LimitSeconds = 40 })
	var p progress
	for second := 2; second < 40; second += 4 {
		p = p.next(reading(second, uint64(second-1)*1000, 0, time.Millisecond))
	}
	for _, second := range []int{42, 46} { // all had been sent a second after the reading before
		p = p.next(reading(second, 40_000, 0, time.Millisecond))
	}
	if o := decideRun(e, p); !o.over || o.summary.Loads[0].Achieved != 1000 || !o.summary.Loads[0].Conclusive {
		t.Errorf("%+v", o)
	}
}

// A run ends when its interval is narrow enough, or all is sent; what did not come back counts as later than everything.
func TestDecideRun(t *testing.T) {
	play := func(e *v1alpha1.LatencyExperiment, all ...Reading) outcome {
		var p progress
		var o outcome
		for _, r := range all {
			p = p.next(r).next(r)
			if o = decideRun(e, p); o.over {
				return o
			}
		}
		return o
	}
	const latency = 200 * time.Microsecond
	e := switched(func(s *v1alpha1.LatencyExperimentSpec) { s.LimitSeconds = 15 })
	good := play(e, reading(0, 0, 0, 0), reading(5, 5000, 0, latency), reading(10, 10_000, 0, latency), reading(15, 15_000, 0, latency), reading(20, 15_000, 0, latency))
	if !good.over || good.failure != "" || len(good.summary.Loads) != 1 {
		t.Fatalf("%+v", good)
	}
	if l := good.summary.Loads[0]; !l.Conclusive || l.Offered != 1000 || l.Achieved != 1000 || *l.Value < 199 || *l.Value > 203 || *l.High-*l.Low > 2 || l.Reason != "" {
		t.Errorf("%+v", l)
	}
	if o := play(e, reading(0, 0, 0, 0), reading(5, 5000, 0, latency), reading(10, 10_000, 0, latency)); o.over {
		t.Errorf("five seconds are enough: %+v", o)
	}
	var lossy []Reading
	for s := 0; s <= 70; s += 5 {
		sent := uint64(min(s, 60) * 1000)
		lossy = append(lossy, reading(s, sent, sent/50, latency))
	}
	if o := play(switched(nil), lossy...); !o.over || o.summary.Loads[0].Conclusive || !strings.Contains(o.summary.Loads[0].Reason, "did not come back") || o.summary.Loads[0].High != nil {
		t.Errorf("two of a hundred are lost: %+v", o)
	}
	slow := switched(func(s *v1alpha1.LatencyExperimentSpec) { s.Load.RequestsPerSecond = 2000; s.LimitSeconds = 20 })
	if o := play(slow, lossy[0], reading(5, 5000, 0, latency), reading(10, 10_000, 0, latency), reading(60, 55_000, 0, latency)); !o.over || o.summary.Loads[0].Conclusive || !strings.Contains(o.summary.Loads[0].Reason, "not 2000") {
		t.Errorf("half of the load: %+v", o)
	}
	if o := play(e, reading(0, 0, 0, 0), reading(20, 0, 0, 0)); o.over {
		t.Errorf("nothing was sent for 20 s: %+v", o)
	}
	if o := play(e, reading(0, 0, 0, 0), reading(31, 0, 0, 0)); !o.over || !strings.Contains(o.failure, "port 68") {
		t.Errorf("nothing was sent for 31 s: %+v", o)
	}
	late := reading(60, 55_000, 0, latency)
	late.Range, late.Received = 3, 54_997
	if o := play(e, reading(0, 0, 0, 0), reading(5, 5000, 0, latency), reading(10, 10_000, 0, latency), late); !o.over || !strings.Contains(o.summary.Loads[0].Reason, "3 replies came later") {
		t.Errorf("replies beyond the stamp: %+v", o)
	}
}
