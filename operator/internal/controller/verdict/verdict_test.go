// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
