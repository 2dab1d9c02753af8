// SPDX-License-Identifier: Apache-2.0

// Package frequency is `agent frequency`: it lowers the highest frequency of a node's
// processors while they idle, and raises it when they are busy (Z-15, D-6). Cores come
// first: servers park theirs by themselves, and what is left is this ladder's. Off unless
// the chart's `nodes.frequency.enabled` says so.
package frequency

// Domain is a set of processors with one frequency, in kHz.
type Domain struct {
	Floor, Ceiling int64 // what may be set
	Limit          int64 // what is set
}

// stepKHz is a rung of the ladder (Z-16).
const stepKHz = 100_000

// Bounds of the busy share. One step up when it is above raise. One step down when the
// processors would stay below lower with it.
const (
	raise   = 0.8
	lower   = 0.6
	holdOff = 5 // decisions without a step down after any step
)

// Ladder decides for one domain. Its zero value has made no step yet.
type Ladder struct{ quiet int }

// Next is the limit to set, busy being the share of the time in which the busiest processor
// of the domain had work.
func (l *Ladder) Next(d Domain, busy float64) int64 {
	limit := d.Limit
	switch {
	case busy > raise:
		limit += stepKHz
	case l.quiet >= holdOff && d.Limit > stepKHz && busy*float64(d.Limit)/float64(d.Limit-stepKHz) < lower:
		limit -= stepKHz
	}
	limit = min(max(limit, d.Floor), d.Ceiling)
	if l.quiet++; limit != d.Limit {
		l.quiet = 0
	}
	return limit
}
