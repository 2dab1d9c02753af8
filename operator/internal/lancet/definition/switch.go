// SPDX-License-Identifier: Apache-2.0

package definition

import "math"

// Switch is what a switch that generates load (SLOG) must know besides targets,
// load and interarrival: the packet, where it carries its time of transmission, and
// the buckets that latencies are counted in (docs/reference/protocol.md, S-…).
type Switch struct {
	Packets           int64           `json:"packets,omitzero"`           // of each load, then the run ends
	GigabitsPerSecond float64         `json:"gigabitsPerSecond,omitzero"` // of the packet generator; default 100
	Packet            Packet          `json:"packet,omitzero"`
	Stamp             Stamp           `json:"stamp,omitzero"`
	Histogram         SwitchHistogram `json:"histogram,omitzero"`
}

// Packet is the template that the generator repeats.
type Packet struct {
	Transport string `json:"transport,omitzero"` // udp (default), tcp-syn
	Bytes     int    `json:"bytes,omitzero"`     // of the Ethernet frame; default 64
	Template  string `json:"template,omitzero"`  // zeros (default), r2p2-echo, dns
}

// Stamp is the time of transmission in header fields that the target echoes.
type Stamp struct {
	Fields          []string `json:"fields,omitzero"`          // of 16 bits each, the most significant first
	TickNanoseconds int64    `json:"tickNanoseconds,omitzero"` // what the lowest bit means; default 1
	SourceNetwork   string   `json:"sourceNetwork,omitzero"`   // the /16 of ipv4SourceLow16
}

// SwitchHistogram is the table of bounds; what lies above is counted by itself.
type SwitchHistogram struct {
	Kind           string  `json:"kind,omitzero"` // logLinear (default)
	MinNanoseconds int64   `json:"minNanoseconds,omitzero"`
	MaxNanoseconds int64   `json:"maxNanoseconds,omitzero"`
	RelativeError  float64 `json:"relativeError,omitzero"` // default 0.01
}

// Fields that may carry a stamp, and how many values each has: source ports below
// 1024 are left to others (S-21).
const (
	fieldPort    = "l4SourcePort"
	fieldAddress = "ipv4SourceLow16"
	fieldID      = "applicationId" // of the template: R2P2's request id, DNS's transaction id
)

var stampValues = map[string]float64{fieldPort: 65_536 - 1024, fieldAddress: 65_536, fieldID: 65_536}

// What a frame takes on the wire besides its own bytes: preamble and gap.
const preambleAndGap = 20

// Defaults of a switch section.
const (
	defaultGigabits = 100.0 // also what a pipe's generator makes at most (S-1)
	defaultBytes    = 64
	defaultMin      = int64(100)
	defaultMax      = int64(100_000_000)
	defaultError    = 0.01
)

func orDefault[T comparable](v, otherwise T) T {
	var none T
	if v == none {
		return otherwise
	}
	return v
}

// Granularity is the time the generator needs for one packet, in seconds: gaps are
// multiples of it (S-10).
func (s Switch) Granularity() float64 {
	bits := 8 * float64(orDefault(s.Packet.Bytes, defaultBytes)+preambleAndGap)
	return bits / (orDefault(s.GigabitsPerSecond, defaultGigabits) * 1e9)
}

// MostPerSecond is the rate up to which gaps still look like their distribution and
// not like the generator's own steps (S-12).
func (s Switch) MostPerSecond() float64 { return 0.2 / s.Granularity() }

// LongestLatency is what a stamp can tell, in nanoseconds: half of where it begins
// anew (S-20).
func (s Stamp) LongestLatency() float64 {
	values := 1.0
	for _, f := range s.Fields {
		values *= stampValues[f]
	}
	return values * float64(orDefault(s.TickNanoseconds, 1)) / 2
}

// Bounds are the upper ends of the buckets in nanoseconds, ascending, each of them
// within it; one more bucket, without an upper end, takes what lies above (S-24).
// Powers of two are divided in equal parts, whose number is one, so that a
// switch may match exponent and mantissa (S-25). The middle of a bucket is off by the
// relative error at most.
func (h SwitchHistogram) Bounds() []int64 {
	low, high := orDefault(h.MinNanoseconds, defaultMin), orDefault(h.MaxNanoseconds, defaultMax)
	parts := int64(1)
	for float64(parts) < 1/(2*orDefault(h.RelativeError, defaultError)) {
		parts *= 2
	}
	var out []int64
	for octave := int64(1) << int(math.Log2(float64(low))); octave <= high; octave *= 2 {
		width := max(octave/parts, 1)
		for end := octave + width - 1; end < 2*octave; end += width {
			if end >= low {
				out = append(out, end)
			}
			if end >= high {
				return out
			}
		}
	}
	return out
}
