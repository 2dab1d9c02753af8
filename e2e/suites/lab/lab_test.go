// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/e2e/harness"
	"github.com/bobtail-dev/bobtail/e2e/suites/lab/spantree"
)

func us(v int64) *int64 { return &v }

func experimentOf(conclusive string, observed string, r result) lexp {
	var l lexp
	l.Status.Observed = observed
	l.Status.Results = []result{r}
	l.Status.Conditions = []harness.Condition{{Type: "Conclusive", Status: conclusive}}
	return l
}

func TestJudgeExperiment(t *testing.T) {
	good := result{Offered: experimentRate, Achieved: 596, Observed: us(46500), Low: us(45000), High: us(48000), Verdict: "Conclusive"}
	with := func(change func(*result)) result { r := good; change(&r); return r }
	why := "inconclusive, because Arrivals, agent 0: Anderson-Darling A² 98.950"
	for name, c := range map[string]struct {
		l  lexp
		ok bool
	}{
		"conclusive":                 {experimentOf("True", "46500us", good), true},
		"inconclusive with its why":  {experimentOf("False", "", with(func(r *result) { r.Verdict, r.Reason, r.High = "Inconclusive", why, nil })), true},
		"inconclusive without a why": {experimentOf("False", "", with(func(r *result) { r.Verdict, r.Reason = "Inconclusive", "sorry" })), false},
		"inconclusive, yet shown":    {experimentOf("False", "46500us", with(func(r *result) { r.Verdict, r.Reason = "Inconclusive", why })), false},
		"too wide to be conclusive":  {experimentOf("True", "46500us", with(func(r *result) { r.High = us(66000) })), false},
		"faster than the service":    {experimentOf("True", "20000us", with(func(r *result) { r.Observed, r.Low, r.High = us(20000), us(19000), us(21000) })), false},
		"outside its interval":       {experimentOf("True", "46500us", with(func(r *result) { r.Low = us(47000) })), false},
		"another load":               {experimentOf("True", "46500us", with(func(r *result) { r.Offered = 10 })), false},
		"the condition disagrees":    {experimentOf("False", "46500us", good), false},
	} {
		if err := judge(c.l, experimentRate); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if judge(lexp{}, experimentRate) == nil {
		t.Error("no table is no result")
	}
}

// patternOf is the table that a service without fault shows of a pattern.
func patternOf(p pattern, observed ...int64) lexp {
	var l lexp
	for i, w := range p.want {
		l.Status.Results = append(l.Status.Results, result{Start: us(w.start), Offered: w.offered, Achieved: w.offered + 3, Observed: us(observed[i]), Verdict: "Followed"})
	}
	l.Status.Observed = "up to 1us at 1/s"
	l.Status.Conditions = []harness.Condition{{Type: "Conclusive", Status: "Unknown", Reason: "Followed"}}
	return l
}

func TestJudgePattern(t *testing.T) {
	all := patterns()
	steps, sine, recorded := all[0], all[1], all[2]
	if w := sine.want; len(w) != 9 || w[1] != (phase{2, 1800}) || w[4] != (phase{8, 200}) {
		t.Errorf("the wave is %v", w)
	}
	good := func() lexp { return patternOf(steps, 47_000, 620_000, 560_000, 47_000) }
	for name, c := range map[string]struct {
		change func(*lexp)
		ok     bool
	}{
		"good":                   {func(*lexp) {}, true},
		"lost in the overload":   {func(l *lexp) { l.Status.Results[1].Observed, l.Status.Observed = nil, "" }, true},
		"lost, yet a worst":      {func(l *lexp) { l.Status.Results[1].Observed = nil }, false},
		"no worst phase":         {func(l *lexp) { l.Status.Observed = "" }, false},
		"overload unseen":        {func(l *lexp) { l.Status.Results[1].Observed = us(60_000) }, false},
		"overload never over":    {func(l *lexp) { l.Status.Results[3].Observed = us(560_000) }, false},
		"faster than the sleeps": {func(l *lexp) { l.Status.Results[0].Observed = us(20_000) }, false},
		"begins late":            {func(l *lexp) { l.Status.Results[2].Start = us(12) }, false},
		"another load":           {func(l *lexp) { l.Status.Results[2].Offered = 1100 }, false},
		"a step is missing":      {func(l *lexp) { l.Status.Results = l.Status.Results[:3] }, false},
		"load not made":          {func(l *lexp) { l.Status.Results[3].Achieved = 700 }, false},
		"said to be conclusive":  {func(l *lexp) { l.Status.Conditions[0].Status = "True" }, false},
		"a line is":              {func(l *lexp) { l.Status.Results[0].Verdict = "Conclusive" }, false},
	} {
		l := good()
		c.change(&l)
		if err := judgePattern(l, steps); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	waves := []int64{51_000, 54_000, 50_000, 47_000, 42_534, 50_000, 51_000, 57_000, 51_000} // 400 answers in the fifth
	if err := judgePattern(patternOf(sine, waves...), sine); err != nil {
		t.Error(err)
	}
	waves[4] = 30_000
	if judgePattern(patternOf(sine, waves...), sine) == nil {
		t.Error("400 answers faster than the sleeps must not pass")
	}
	if least := leastP99Of(5000); least < 40_600 || least > 40_800 {
		t.Errorf("the p99 of 5,000 answers is at least %.0f us", least)
	}
	if err := judgePattern(patternOf(recorded, 31_000, 33_000), recorded); err != nil {
		t.Error(err)
	}
	if judgePattern(patternOf(recorded, 31_000, 7_000), recorded) == nil {
		t.Error("arrivals one by one must not pass for bursts")
	}
	if n := strings.Count(gapsManifest(), " 1000"); n != burst-1 {
		t.Errorf("%d gaps in a burst of %d", n, burst)
	}
}

func TestJudgeTrees(t *testing.T) {
	good := func() spantree.Trees {
		return spantree.Trees{Whole: 190, Names: map[string]int{"r2p2 request": 190, "r2p2 router": 190, "r2p2 server": 190, "r2p2 handler": 190},
			From: map[string][]string{"r2p2 request": {"lancet"}, "r2p2 router": {Service}, "r2p2 server": {Service}, "r2p2 handler": {Service}}}
	}
	for name, c := range map[string]struct {
		change func(*spantree.Trees)
		ok     bool
	}{
		"good":            {func(*spantree.Trees) {}, true},
		"nothing came":    {func(t *spantree.Trees) { *t = spantree.Trees{} }, false},
		"a router's lost": {func(t *spantree.Trees) { t.Names["r2p2 router"]--; t.Orphans, t.Whole = 1, 189 }, false},
		"an orphan":       {func(t *spantree.Trees) { t.Orphans = 1 }, false},
		"not in one tree": {func(t *spantree.Trees) { t.Whole = 100 }, false},
		"another kind":    {func(t *spantree.Trees) { t.Names["x"] = 1 }, false},
		"everything": {func(t *spantree.Trees) {
			t.Whole *= 20
			for name := range t.Names {
				t.Names[name] *= 20
			}
		}, false},
		"of another name":  {func(t *spantree.Trees) { t.From["r2p2 server"] = []string{"work-dataplane"} }, false},
		"of two, too many": {func(t *spantree.Trees) { t.From["r2p2 request"] = []string{"lancet", Service} }, false},
	} {
		trees := good()
		c.change(&trees)
		if err := judgeTrees(trees); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLacks(t *testing.T) {
	c := said{[]string{"explain"}, []string{"Queueing", "ClientIngressRule"}}
	if err := lacks(c, "Queueing\nClientIngressRule\n"); err != nil {
		t.Error(err)
	}
	if err := lacks(c, "Queueing\n"); err == nil || !strings.Contains(err.Error(), "ClientIngressRule") {
		t.Errorf("got %v", err)
	}
}

func TestJudgeBundle(t *testing.T) {
	files := map[string]string{"objects/rpcservices.yaml": "", "objects/servicelevelobjectives.yaml": "", "objects/pods.yaml": "",
		"x/histogram.json": "", "x/counters.json": "", "logs/bobtail-system/bobtail-operator-1.operator.log": ""}
	secret := `{"1":"AAECAwQFBgcICQoLDA0ODw=="}`
	if err := judgeBundle(files, secret); err != nil {
		t.Error(err)
	}
	files["logs/a"] = "key AAECAwQFBgcICQoLDA0ODw== loaded"
	if judgeBundle(files, secret) == nil {
		t.Error("a key in a log must be found")
	}
	if judgeBundle(map[string]string{}, secret) == nil {
		t.Error("an empty bundle must not pass")
	}
}

func TestManifestAndMix(t *testing.T) {
	sum := 0
	for _, m := range mix {
		sum += m.rate
	}
	if sum != overload || mix[0].rate < overload-nominal {
		t.Errorf("the classes offer %d of %d; refusing class 0 (%d) must be enough", sum, overload, mix[0].rate)
	}
	for _, want := range []string{"serve:9.9.9", "latencyMicroseconds: 100000", "--degraded-service-time=exp:2ms"} {
		if !strings.Contains(manifest("9.9.9"), want) {
			t.Errorf("the manifest lacks %q", want)
		}
	}
}

// A share above the goal is measured once more, the second one counts, and the output
// says that there were two.
func TestTwice(t *testing.T) {
	for _, c := range []struct {
		shares []float64
		want   float64
		says   int
	}{{[]float64{0.6}, 0.6, 0}, {[]float64{0.9}, 0.9, 0}, {[]float64{0.94, 0.7}, 0.7, 1}, {[]float64{0.94, 1.2}, 1.2, 1}} {
		asked, said := 0, 0
		got, err := twice(0.9, func() (float64, error) { asked++; return c.shares[asked-1], nil }, func(string, ...any) { said++ })
		if err != nil || got != c.want || said != c.says || asked != len(c.shares) {
			t.Errorf("%v: %v after %d, %v; said %d", c.shares, got, asked, err, said)
		}
	}
	if _, err := twice(0.9, func() (float64, error) { return 2, errors.New("no load") }, func(string, ...any) { t.Error("an error is no miss") }); err == nil {
		t.Error("no error")
	}
}
