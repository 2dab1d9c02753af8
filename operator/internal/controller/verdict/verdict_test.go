// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// The time of a condition is that of its last change, not of its last writing.
func TestTheTimeIsThatOfTheChange(t *testing.T) {
	var all []metav1.Condition
	first := time.Unix(1000, 0)
	SetAll(&all, map[string]Verdict{"B": Yes("Fine", "b"), "A": No("Bad", "a")}, 1, first)
	if len(all) != 2 || all[0].Type != "A" || all[0].Status != metav1.ConditionFalse || all[1].Status != metav1.ConditionTrue {
		t.Fatalf("%+v", all)
	}
	SetAll(&all, map[string]Verdict{"B": Yes("Better", "c"), "A": Unknown("Lost", "")}, 2, first.Add(time.Minute))
	if !all[1].LastTransitionTime.Time.Equal(first) || all[1].Reason != "Better" || all[1].ObservedGeneration != 2 {
		t.Errorf("still True: %+v", all[1])
	}
	if !all[0].LastTransitionTime.Time.Equal(first.Add(time.Minute)) || all[0].Status != metav1.ConditionUnknown {
		t.Errorf("no longer False: %+v", all[0])
	}
}

func TestAMessageIsCutBetweenCharacters(t *testing.T) {
	var all []metav1.Condition
	Set(&all, "A", No("Long", strings.Repeat("ü", Longest+1)), 1, time.Unix(1, 0))
	if got := all[0].Message; utf8.RuneCountInString(got) != Longest || !utf8.ValidString(got) {
		t.Errorf("%d characters", utf8.RuneCountInString(got))
	}
	if (Verdict{}).OK() || !Yes("", "").OK() {
		t.Error("OK")
	}
}

// K-33: kstatus, and so Flux and Argo CD, reads from every kind whether it is on its
// way, stands, or waits for somebody.
func TestK33ProgressInTheWordsOfKstatus(t *testing.T) {
	yes := Yes("Fine", "")
	var all []metav1.Condition
	for _, c := range []struct {
		name            string
		accepted, ready Verdict
		want            string
	}{
		{"new", yes, No("NoPods", "no server"), "Reconciling"},
		{"not known", yes, Unknown("Lost", ""), "Reconciling"},
		{"refused", No("NameConflict", "it is theirs"), No("NotAccepted", "it is theirs"), "Stalled"},
		{"there", yes, yes, ""},
		{"failed for good", yes, Failed("Failed", "no agent"), "Stalled"},
		{"mended", yes, yes, ""},
	} {
		SetAll(&all, map[string]Verdict{v1alpha1.ConditionAccepted: c.accepted, v1alpha1.ConditionReady: c.ready}, 3, time.Unix(1, 0))
		got := ""
		for _, one := range all {
			if one.Type == "Reconciling" || one.Type == "Stalled" {
				got += one.Type
				if one.Status != metav1.ConditionTrue || one.ObservedGeneration != 3 || one.Reason == "" {
					t.Errorf("%s: %+v", c.name, one)
				}
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// All that stands against something is told at once, each word once, with the first reason.
func TestRefusals(t *testing.T) {
	a, b := No("A", "a"), Failed("B", "b")
	for _, c := range []struct {
		name    string
		all     []Verdict
		reason  string
		message string
	}{
		{"none", nil, "", ""},
		{"nothing asked, nothing against", []Verdict{{}, Yes("Fine", "fine")}, "", ""},
		{"one", []Verdict{a}, "A", "a"},
		{"behind what is fine and what was not asked", []Verdict{Yes("Fine", "fine"), {}, a, {}, b}, "A", "a; b"},
		{"the other way round", []Verdict{b, a}, "B", "b; a"},
		{"the same twice", []Verdict{a, No("C", "a"), b}, "A", "a; b"},
	} {
		got, ok := Refusals(c.all...)
		if got.Reason != c.reason || got.Message != c.message || ok != (c.reason == "") {
			t.Errorf("%s: %+v, %v", c.name, got, ok)
		}
	}
}

// An answer is True or False with the same words, and what is not said counts as False.
func TestAnswers(t *testing.T) {
	for ok, want := range map[bool]metav1.ConditionStatus{true: metav1.ConditionTrue, false: metav1.ConditionFalse} {
		if v := Of(ok, "Because", "of that"); v.Status != want || v.OK() != ok || v.Reason != "Because" || v.Message != "of that" {
			t.Errorf("%t: %+v", ok, v)
		}
	}
	var conditions []metav1.Condition
	Set(&conditions, "Ready", Verdict{Reason: "Because"}, 3, time.Unix(100, 0))
	if c := conditions[0]; c.Status != metav1.ConditionFalse || c.Reason != "Because" || c.ObservedGeneration != 3 || c.LastTransitionTime.Unix() != 100 {
		t.Errorf("%+v", c)
	}
}
