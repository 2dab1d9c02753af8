// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/e2e/harness"
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
	good := result{Offered: experimentRate, Achieved: 1490, Observed: us(46500), Low: us(45000), High: us(48000), Verdict: "Conclusive"}
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
		if err := judge(c.l); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if judge(lexp{}) == nil {
		t.Error("no table is no result")
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
		"x/histogram.json": "", "x/counters.json": ""}
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
