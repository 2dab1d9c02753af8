// SPDX-License-Identifier: Apache-2.0

// Package sven is admission control off the data path (spec/sven.md, R-218 to R-223), for a data plane that can be told
// rates and asked for counters: the twin of dataplane/src/router/admission_loop.c. It is pure: no clock, no I/O.
package sven

import (
	"math"
	"time"
)

// Classes of requests: the lower ones are refused first.
const Classes = 8

// most is how much of a class is refused: the rest stays measured.
const most = 0.99

// Config is what a loop keeps: a latency at a percentile.
type Config struct {
	Latency time.Duration
	// Per100k is the percentile × 1,000: 99000 is p99.
	Per100k uint32
	// Published has the loop be that of Listing 11.1, with its period; else the default one tracks the percentile.
	Published bool
	Droppable [Classes]bool
}

// Enough samples allow to speak of the percentile: ten beyond it.
func (c Config) Enough() uint64 { return 1_000_000 / uint64(100_000-min(c.Per100k, 99_999)) }

// Period is the least time between two looks: as published, or as often as a controller may ask a switch.
func (c Config) Period() time.Duration {
	if c.Published {
		return 20 * time.Millisecond
	}
	return 50 * time.Millisecond
}

// Longest is how far a window is extended for want of samples.
const Longest = time.Second

func (c Config) budget() float64 { return float64(100_000-c.Per100k) / 100_000 }

// Report is what a window saw: differences of counters.
type Report struct {
	// Admitted and Refused requests by class.
	Admitted, Refused [Classes]uint64
	// Completed were served, dropped, or nobody will know.
	Completed uint64
	// Samples were measured, and Within are within the objective.
	Samples, Within uint64
	// Percentile of the samples; Never when it lies beyond what is measured, 0 of none.
	Percentile time.Duration
	Span       time.Duration
}

// Never is later than everything.
const Never = time.Duration(math.MaxInt64)

func sum(all [Classes]uint64) (n float64) {
	for _, v := range all {
		n += float64(v)
	}
	return n
}

func (r Report) arrivals() float64 { return sum(r.Admitted) + sum(r.Refused) }

func (r Report) arrived(class int) float64 { return float64(r.Admitted[class] + r.Refused[class]) }

// Ready says that a window of so many samples, and so long, may be judged.
func (c Config) Ready(samples uint64, span time.Duration) bool {
	return samples >= c.Enough() || span >= Longest
}

// Loop is the state of one.
type Loop struct {
	config Config
	level  float64 // shares of the droppable classes, added up in the order of refusal
	track  track
	aiad   aiad
}

// New refuses nobody.
func New(c Config) *Loop {
	return &Loop{config: c, track: track{admit: 1}, aiad: aiad{share: -1}}
}

// Config is what it keeps.
func (l *Loop) Config() Config { return l.config }

// Look takes a window that is ready.
func (l *Loop) Look(r Report) {
	next := 0.0
	if l.config.Published {
		next = l.aiad.next(l.config, r, l.level)
	} else {
		next = l.track.next(l.config, r, l.level)
	}
	l.level = min(max(next, 0), l.config.top())
}

// Shares of the classes to refuse, in units of 2^-16.
func (l *Loop) Shares() (out [Classes]uint16) {
	left := l.level
	for c := range Classes {
		if l.config.Droppable[c] && left > 0 {
			out[c] = uint16(min(left, most) * (1 << 16))
			left -= most
		}
	}
	return out
}

// top is the level at which every droppable class is refused as far as may be.
func (c Config) top() (n float64) {
	for _, may := range c.Droppable {
		if may {
			n += most
		}
	}
	return n
}

// level that refuses `wanted` requests of those in the report, the lowest classes first; left: more than can be.
func (c Config) level(r Report, wanted float64) (level, left float64) {
	if wanted <= 0 {
		return 0, 0
	}
	offset := 0.0
	for class, may := range c.Droppable {
		if !may {
			continue
		}
		if arrived := r.arrived(class); arrived > 0 {
			if share := wanted / arrived; share < most {
				return offset + share, 0
			}
			wanted -= arrived * most
		}
		offset += most
	}
	return c.top(), wanted
}
