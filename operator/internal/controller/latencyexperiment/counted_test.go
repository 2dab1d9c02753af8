// SPDX-License-Identifier: Apache-2.0

package latencyexperiment

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
)

// A switch makes the load where the placement says so and one is named.
func TestOnSwitch(t *testing.T) {
	for _, c := range []struct {
		change func(*v1alpha1.LatencyExperimentSpec)
		want   bool
	}{
		{nil, true},
		{func(s *v1alpha1.LatencyExperimentSpec) { s.Placement = "" }, false},
		{func(s *v1alpha1.LatencyExperimentSpec) { s.Switch = nil }, false},
	} {
		if e := switched(c.change); onSwitch(e) != c.want {
			t.Errorf("%q and %v: on a switch %t", e.Spec.Placement, e.Spec.Switch, !c.want)
		}
	}
}

// What is asked of a switch names the experiment, and fits into its counters.
func TestWhatIsAskedOfASwitch(t *testing.T) {
	e := switched(func(s *v1alpha1.LatencyExperimentSpec) {
		s.Workload.Interarrival, s.Load.RequestsPerSecond, s.LimitSeconds = "Fixed", 1_000_000, 3600
	})
	r, _ := runOf(e)
	if r.Namespace != "apps" || r.Name != "x" || r.Key() != keyOf(e) || !r.Created.Equal(time.Unix(100, 0)) || r.TemplatePort != 68 || !r.Fixed {
		t.Errorf("%+v", r)
	}
	if r.Packets != math.MaxInt32 || r.Rate != 1_000_000 {
		t.Errorf("%d packets, %d a second", r.Packets, r.Rate)
	}
	if r.Targets[0].String() != "10.0.1.5:8000" || r.Targets[1].String() != "10.0.1.6:8000" {
		t.Errorf("targets %v", r.Targets)
	}
}

// A run has a number of its own, above 0, that fits into the switch's field.
func TestNumbersOfRuns(t *testing.T) {
	e, numbers := switched(nil), map[uint32]bool{}
	for n := range 100 {
		e.UID = types.UID(fmt.Sprintf("uid %d", n))
		r, _ := runOf(e)
		numbers[r.Number] = r.Number > 0 && r.Number <= math.MaxInt32
	}
	if len(numbers) != 100 {
		t.Errorf("%d numbers of 100 runs", len(numbers))
	}
	for number, fits := range numbers {
		if !fits {
			t.Errorf("number %d", number)
		}
	}
}

// A refusal counts while it is of what is asked; what was written for it counts more.
func TestAnswersOfASwitch(t *testing.T) {
	const unreachable = v1alpha1.ReasonTargetsUnreachable
	yes := verdict.Yes(v1alpha1.ReasonAccepted, "the experiment can be run")
	for _, c := range []struct {
		answer               v1alpha1.SwitchService
		accepted, programmed verdict.Verdict
	}{
		{v1alpha1.SwitchService{Reason: unreachable, Message: "no way", ConfigHash: "an earlier one"},
			verdict.No(unreachable, "`spec.switch.name`: no way"), verdict.No(v1alpha1.ReasonNotAccepted, "`spec.switch.name`: no way")},
		{v1alpha1.SwitchService{Reason: unreachable, Message: "no way", ConfigHash: "uid"}, yes, verdict.Yes(v1alpha1.ReasonProgrammed, "ProgrammableSwitch leaf makes the load")},
		{v1alpha1.SwitchService{ConfigHash: "an earlier one"}, yes, verdict.No(v1alpha1.ReasonSwitchNotProgrammed, "ProgrammableSwitch leaf is being written")},
	} {
		accepted, programmed := decideAtSwitch(switched(nil), c.answer, true, true)
		if accepted != c.accepted || programmed != c.programmed {
			t.Errorf("%+v: %+v, %+v", c.answer, accepted, programmed)
		}
	}
}

// since is a reading after so many seconds of which nothing but the packets counts.
func since(second int, sent uint64) Reading {
	return Reading{At: time.Unix(int64(1000+second), 0), Sent: sent, Received: sent, Latency: &ll7.Histogram{}}
}

func TestProgress(t *testing.T) {
	var p progress
	for _, r := range []Reading{since(1, 0), since(3, 10), since(2, 5), since(3, 11), since(5, 30), since(7, 30)} {
		p = p.next(r)
	}
	if p.began.At != since(1, 0).At || p.first.Sent != 10 || p.flowing.Sent != 10 || p.before.At != since(5, 0).At || p.last.At != since(7, 0).At || p.last.Sent != 30 {
		t.Errorf("%+v", p)
	}
}

func TestLostAndSpent(t *testing.T) {
	for _, c := range []struct{ sent, received, late, want uint64 }{{100, 60, 10, 30}, {100, 90, 10, 0}, {100, 120, 10, 0}, {100, 0, 0, 100}} {
		p := progress{before: Reading{Sent: c.sent}, last: Reading{Sent: 1000, Received: c.received, Range: c.late}}
		if got := p.lost(); got != c.want {
			t.Errorf("%+v: %d lost", c, got)
		}
	}
	for _, c := range []struct {
		before, last uint64
		want         bool
	}{{60_000, 60_000, true}, {60_001, 60_001, true}, {59_999, 59_999, false}, {59_999, 60_000, false}} {
		p := progress{before: since(1, c.before), last: since(2, c.last)}
		if got := p.spent(switched(nil)); got != c.want {
			t.Errorf("%+v: spent %t", c, got)
		}
	}
}

// The rate is taken until the last reading that more packets came before.
func TestRate(t *testing.T) {
	for name, c := range map[string]struct {
		first, flowing, before, last Reading
		want                         int64
	}{
		"they still come":         {since(1, 100), since(3, 300), since(3, 300), since(5, 701), 150},
		"none came lately":        {since(1, 100), since(3, 300), since(5, 500), since(9, 500), 100},
		"all came":                {since(1, 1000), since(11, 21_000), since(21, 60_000), since(31, 60_000), 2000},
		"all came between two":    {since(1, 1000), since(1, 1000), since(60, 60_000), since(70, 60_000), 1000},
		"all came before anybody": {since(1, 60_000), since(0, 0), since(1, 60_000), since(2, 60_000), 0},
		"one reading":             {since(1, 100), Reading{}, Reading{}, since(1, 100), 0},
		"a half is rounded up":    {since(0, 0), since(0, 0), since(0, 0), since(2, 3), 2},
	} {
		p := progress{began: c.first, first: c.first, flowing: c.flowing, before: c.before, last: c.last}
		if got := p.rate(switched(nil)); got != c.want {
			t.Errorf("%s: %d a second, want %d", name, got, c.want)
		}
	}
}

// A run is given up when its time and a silence are over, to the moment.
func TestWhenARunIsGivenUp(t *testing.T) {
	e := switched(nil) // 60 s
	moved := func(r Reading, by time.Duration) Reading { r.At = r.At.Add(by); return r }
	for name, c := range map[string]struct {
		p    progress
		want bool
	}{
		"nothing was read":                     {progress{}, false},
		"silence":                              {progress{began: since(0, 0), last: since(30, 0)}, true},
		"nearly silence":                       {progress{began: since(0, 0), last: moved(since(30, 0), -1)}, false},
		"its time and a silence":               {progress{first: since(0, 1000), before: since(85, 100), last: since(90, 200)}, true},
		"nearly its time and a silence":        {progress{first: since(0, 1000), before: since(85, 100), last: moved(since(90, 200), -1)}, false},
		"all is sent, and was before":          {progress{first: since(0, 1000), before: since(60, 60_000), last: since(65, 60_000)}, true},
		"all is sent, some of it a moment ago": {progress{first: since(0, 1000), before: since(55, 59_000), last: since(60, 60_000)}, false},
	} {
		for _, r := range []*Reading{&c.p.began, &c.p.first, &c.p.before, &c.p.last} {
			r.Latency = &ll7.Histogram{}
		}
		if got := decideRun(e, c.p); got.over != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A percentile without an end has no width, and one that nobody can read no value.
func TestMeasuredLoad(t *testing.T) {
	of := func(came, lost uint64) progress {
		p := progress{first: since(0, 0), before: since(10, came+lost), last: since(11, came+lost+1)}
		p.last.Received = came
		p.last.Latency.RecordMany(200_000, came)
		return p
	}
	for name, c := range map[string]struct {
		p               progress
		percentile      string
		value, interval bool
	}{
		"enough":                   {of(10_000, 0), "99", true, true},
		"nothing came":             {of(0, 0), "99", false, false},
		"no number":                {of(10_000, 0), "most", false, false},
		"no percentile":            {of(10_000, 0), "200", false, false},
		"too few":                  {of(10, 0), "99", true, false},
		"more lost than left out":  {of(9_000, 1_000), "99", false, false},
		"nearly as many as it may": {of(9_905, 95), "99", true, false},
	} {
		load, width := measuredLoad(switched(func(s *v1alpha1.LatencyExperimentSpec) { s.Percentile = c.percentile }), c.p)
		if (load.Value != nil) != c.value || (width >= 0) != c.interval || c.interval && (load.Low == nil || load.High == nil || width != *load.High-*load.Low) {
			t.Errorf("%s: %+v, width %d", name, load, width)
		}
		if c.p.last.Latency.Inf() != 0 {
			t.Errorf("%s: what was read is written over", name)
		}
	}
}

func TestMicrosAreRoundedUp(t *testing.T) {
	for from, want := range map[uint64]int64{0: 0, 1: 1, 1000: 1, 1001: 2, 1999: 2, 2000: 2} {
		if got := micros(ll7.Value{Bound: ll7.Finite, Nanoseconds: from}); got == nil || *got != want {
			t.Errorf("%d ns are %v us, want %d", from, got, want)
		}
	}
	if got := micros(ll7.Value{Bound: ll7.Infinite}); got != nil {
		t.Errorf("the infinite is %d us", *got)
	}
}

// A result may be trusted while rate and width are within what was asked for.
func TestDoubts(t *testing.T) {
	p := progress{before: Reading{Sent: 500}, last: Reading{Sent: 600, Received: 493}}
	strange := p
	strange.last.Range = 1
	for _, c := range []struct {
		p        progress
		achieved float64
		width    int64
		want     string
	}{
		{p, 1000, 0, ""}, {p, 1049, 100, ""}, {p, 951, 100, ""},
		{p, 1051, 100, "the switch sent 1051 packets a second, not 1000: do 10000 templates"},
		{p, 949, 100, "the switch sent 949 packets a second, not 1000"},
		{strange, 949, -1, "1 replies came later than the stamp tells apart"},
		{p, 1000, -1, "7 of 600 packets did not come back, or too few did: the interval of p99 has no end"},
		{p, 1000, 101, "the interval is 101 us wide, not 100, after 600 packets"},
	} {
		if got := doubts(switched(nil), c.p, c.achieved, c.width); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
