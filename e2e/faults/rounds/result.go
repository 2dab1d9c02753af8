// SPDX-License-Identifier: Apache-2.0

package rounds

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
)

// Result of a run.
type Result struct {
	total  totals
	failed int
}

// Failed is how many rounds, ends of beds and namespaces were not as they should be.
func (r *Result) Failed() int { return r.failed }

// Clean is how many rounds kept every promise.
func (r *Result) Clean() int { return r.total.clean }

// Summary is for people.
func (r *Result) Summary() string {
	t := &r.total
	text := fmt.Sprintf("%d requests, %d checks; faults that came about:", t.requests, t.checks)
	for _, name := range slices.Sorted(maps.Keys(t.faults)) {
		if t.faults[name] > 0 {
			text += fmt.Sprintf(" %s %d", name, t.faults[name])
		}
	}
	return text
}

// WriteMeasurements writes the figures in the form measure/report/report.py reads.
func (r *Result) WriteMeasurements(file string) error {
	t := &r.total
	realised := int64(0)
	for _, n := range t.faults {
		realised += n
	}
	type row struct {
		Name  string `json:"name"`
		Value any    `json:"value"`
	}
	rows := []row{
		{"faults_rounds_clean", t.clean}, {"faults_rounds_failed", r.failed}, {"faults_realised", realised},
		{"faults_requests", t.requests}, {"faults_checks", t.checks}, {"requests_ended_twice", t.endedTwice},
		{"requests_lost_sight", t.lostSight}, {"sanitizer_reports", len(t.sanitizers)}, {"failover_timeouts_max", t.failover},
		{"credits_back_extra_seconds_max", t.creditsBack.Seconds()}, {"capacity_after_over_before_min", t.capacityRatio},
		{"open_files_grown", t.filesGrown}, {"rss_grown_kib_max", t.rssGrown},
	}
	if t.faults[string(halfOpen)] > 0 {
		rows = append(rows, row{"halfopen_legit_answered_share", 1 - t.unanswered})
	}
	text, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
