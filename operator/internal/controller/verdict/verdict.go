// SPDX-License-Identifier: Apache-2.0

// Package verdict is the answer of a controller for one condition, in one shape for
// every kind. It is pure.
package verdict

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/message"
)

// Verdict is the answer for one condition; its zero value is none yet.
type Verdict struct {
	Status  metav1.ConditionStatus
	Reason  string
	Message string
	// Final: it stays so until somebody acts.
	Final bool
}

// Yes is the answer True.
func Yes(reason, message string) Verdict {
	return Verdict{Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

// No is the answer False.
func No(reason, message string) Verdict {
	return Verdict{Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// Failed is the answer False that stays until somebody acts.
func Failed(reason, message string) Verdict {
	return Verdict{Status: metav1.ConditionFalse, Reason: reason, Message: message, Final: true}
}

// Unknown is the answer of whoever cannot know.
func Unknown(reason, message string) Verdict {
	return Verdict{Status: metav1.ConditionUnknown, Reason: reason, Message: message}
}

// Of is the answer True or False.
func Of(ok bool, reason, message string) Verdict {
	if ok {
		return Yes(reason, message)
	}
	return No(reason, message)
}

// Refusals joins what stands against something, so that who mends one need not be told
// of the next afterwards. The first gives the reason; ok: there is none.
func Refusals(all ...Verdict) (v Verdict, ok bool) {
	var messages []string
	for _, one := range all {
		if one.Reason == "" || one.OK() {
			continue
		}
		if v.Reason == "" {
			v = one
		}
		if !slices.Contains(messages, one.Message) {
			messages = append(messages, one.Message)
		}
	}
	v.Message = strings.Join(messages, "; ")
	return v, v.Reason == ""
}

// OK says that the answer is True.
func (v Verdict) OK() bool { return v.Status == metav1.ConditionTrue }

// Longest is how many characters of a message are kept, well below the API server's
// 32768.
const Longest = 4096

// Set writes one condition. It keeps the time of the last transition while the
// answer stays.
func Set(conditions *[]metav1.Condition, kind string, v Verdict, generation int64, now time.Time) {
	if v.Status == "" {
		v.Status = metav1.ConditionFalse
	}
	c := metav1.Condition{
		Type: kind, Status: v.Status, Reason: v.Reason, Message: message.Bounded(v.Message, Longest), ObservedGeneration: generation,
		LastTransitionTime: metav1.NewTime(now),
	}
	if old := meta.FindStatusCondition(*conditions, kind); old != nil && old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	meta.SetStatusCondition(conditions, c)
}

// SetAll writes conditions by their types and leaves all of them in the order of types.
// Those that hold Ready get Reconciling or Stalled where one of them is due.
func SetAll(conditions *[]metav1.Condition, all map[string]Verdict, generation int64, now time.Time) {
	if _, summary := all[v1alpha1.ConditionReady]; summary {
		setProgress(conditions, all[v1alpha1.ConditionAccepted], all[v1alpha1.ConditionReady], generation, now)
	}
	for kind, v := range all {
		Set(conditions, kind, v, generation, now)
	}
	slices.SortFunc(*conditions, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
}

// setProgress says in the words of kstatus where an object stands: on its way, waiting
// for somebody to act, or, with neither word, where it shall be.
func setProgress(conditions *[]metav1.Condition, accepted, ready Verdict, generation int64, now time.Time) {
	due, why := "", ready
	switch {
	case accepted.Status == metav1.ConditionFalse:
		due, why = v1alpha1.ConditionStalled, accepted
	case ready.OK():
	case ready.Final:
		due = v1alpha1.ConditionStalled
	default:
		due = v1alpha1.ConditionReconciling
	}
	for _, kind := range []string{v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled} {
		if kind == due {
			Set(conditions, kind, Yes(why.Reason, why.Message), generation, now)
		} else {
			meta.RemoveStatusCondition(conditions, kind)
		}
	}
}
