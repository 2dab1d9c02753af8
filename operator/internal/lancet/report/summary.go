// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
)

// SummaryBytes is what a container may say when it ends (its termination message).
const SummaryBytes = 4096

// Summary is a document small enough for that: the wanted percentile of each load.
type Summary struct {
	Error    string        `json:"error,omitempty"`    // no measurement could be made
	Changing bool          `json:"changing,omitempty"` // the load was meant to change: the loads are its phases
	Loads    []SummaryLoad `json:"loads,omitempty"`
}

// SummaryLoad is one load; latencies in microseconds, absent when infinite.
type SummaryLoad struct {
	Offered    int64  `json:"o"`
	Achieved   int64  `json:"a"`
	Value      *int64 `json:"v,omitempty"`
	Low        *int64 `json:"l,omitempty"`
	High       *int64 `json:"h,omitempty"`
	Conclusive bool   `json:"c,omitempty"`
	Reason     string `json:"r,omitempty"`
	Start      int64  `json:"s,omitempty"` // seconds since the first phase
}

// Summarise encodes a document, and what went wrong if something did. Reasons are
// cut as far as the bound asks for.
func Summarise(d Document, failure error) []byte {
	for room := 480; ; room /= 2 {
		s := Summary{Changing: d.Changing}
		if failure != nil {
			s.Error = cut(failure.Error(), 4*room)
		}
		for _, p := range d.Points {
			q, _ := d.Wanted(p)
			l := SummaryLoad{Offered: int64(math.Round(p.Offered)), Achieved: int64(math.Round(p.Achieved)), Value: whole(q.Value), Conclusive: p.Conclusive,
				Start: int64(math.Round(p.StartSeconds))}
			if q.Defined {
				l.Low, l.High = whole(q.Low), whole(q.High)
			}
			why := p.Reasons
			if d.Changing { // of which each has the same reason, but not the same doubts
				why = p.Warnings
			}
			if room > 0 {
				l.Reason = cut(strings.Join(why, "; "), room)
			}
			s.Loads = append(s.Loads, l)
		}
		raw, err := json.Marshal(s)
		if err != nil {
			raw = []byte(`{"error":"the result cannot be encoded"}`)
		}
		if len(raw) <= SummaryBytes || room == 0 {
			return raw
		}
	}
}

// ParseSummary reads what Summarise wrote.
func ParseSummary(raw string) (Summary, error) {
	var s Summary
	if err := json.Unmarshal([]byte(raw), &s); err != nil {
		return s, fmt.Errorf("summary of the coordinator: %w", err)
	}
	if s.Error == "" && len(s.Loads) == 0 {
		return s, fmt.Errorf("summary of the coordinator holds nothing")
	}
	for i, l := range s.Loads {
		for _, v := range []*int64{l.Value, l.Low, l.High} {
			if v != nil && *v < 0 {
				return Summary{}, fmt.Errorf("summary of the coordinator: load %d has a latency of %d us", i, *v)
			}
		}
	}
	return s, nil
}

// cut keeps whole characters.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

func whole(v *float64) *int64 {
	if v == nil {
		return nil
	}
	n := int64(math.Ceil(*v))
	return &n
}
