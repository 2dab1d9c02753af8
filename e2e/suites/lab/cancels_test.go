// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"testing"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// 1,000 requests, 900 copies, of which 800 were taken back (50 to make room), and 100
// answered too.
func aTally() tally {
	return tally{requests: 1000, copies: 900, late: 100, cancels: 850, honoured: 800, tooLate: 50, preempted: 50, letGo: 800,
		sent: 1900, done: 1900, taken: 1900, replies: 1100}
}

func TestJudgeCancels(t *testing.T) {
	all := harness.LoadResult{Sent: 1000, Completed: 1000}
	if err := aTally().judge("Preemptive", all); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*tally, *harness.LoadResult){
		"a request without an answer":     func(_ *tally, r *harness.LoadResult) { r.Completed-- },
		"nothing sent":                    func(_ *tally, r *harness.LoadResult) { r.Sent, r.Completed = 0, 0 },
		"a request that no router saw":    func(_ *tally, r *harness.LoadResult) { r.Sent++; r.Completed++ },
		"a copy that nobody counted":      func(t *tally, _ *harness.LoadResult) { t.copies++ },
		"a copy that no server got":       func(t *tally, _ *harness.LoadResult) { t.taken-- },
		"FEEDBACK missing":                func(t *tally, _ *harness.LoadResult) { t.done-- },
		"a credit that did not come back": func(t *tally, _ *harness.LoadResult) { t.outstanding++ },
		"a packet lost":                   func(t *tally, _ *harness.LoadResult) { t.lost++ },
		"no copies":                       func(t *tally, _ *harness.LoadResult) { t.copies, t.sent, t.done, t.taken = 0, 1000, 1000, 1000 },
		"CANCELs that nothing came of":    func(t *tally, _ *harness.LoadResult) { t.cancels++ },
		"CANCELs unheard":                 func(t *tally, _ *harness.LoadResult) { t.unheard++ },
		"servers that go on":              func(t *tally, _ *harness.LoadResult) { t.kept++ },
		"servers that let go of another":  func(t *tally, _ *harness.LoadResult) { t.letGo++ },
		"most CANCELs too late": func(t *tally, _ *harness.LoadResult) {
			t.cancels, t.honoured, t.letGo, t.tooLate, t.replies, t.late = 850, 400, 400, 450, 1500, 500
		},
		"an answer of what was taken back":     func(t *tally, _ *harness.LoadResult) { t.replies++ },
		"two answers, and a request with none": func(t *tally, _ *harness.LoadResult) { t.late++ },
		"nobody made room":                     func(t *tally, _ *harness.LoadResult) { t.preempted = 0 },
	} {
		got, result := aTally(), all
		change(&got, &result)
		if got.judge("Preemptive", result) == nil {
			t.Errorf("%s must not pass", name)
		}
	}
	if aTally().judge("Answered", all) == nil {
		t.Error("Answered pre-empts nothing")
	}
}

func TestTallyIsWhatWasAdded(t *testing.T) {
	before := harness.Counts{"bobtail_router_forwarded_total": 5, `bobtail_router_cancels_total{result="honoured"}`: 2, "bobtail_worker_outstanding": 3}
	after := harness.Counts{"bobtail_router_forwarded_total": 25, `bobtail_router_cancels_total{result="honoured"}`: 9, "bobtail_worker_outstanding": 1,
		`bobtail_server_cancels_total{outcome="removed"}`: 3, `bobtail_server_cancels_total{outcome="stopped"}`: 4}
	if got := tallyOf(before, after); got.requests != 20 || got.honoured != 7 || got.letGo != 7 || got.outstanding != 1 {
		t.Errorf("%+v", got)
	}
}
