// SPDX-License-Identifier: Apache-2.0

package agentlink

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/lancet"
)

// recordBytes is the size of one sample on the wire.
const recordBytes = 56

// absent is the value of a field that is not there: no reply, no stamp, no gap.
const absent = math.MaxUint64

// record is one sample as the agent sends it, times in nanoseconds.
type record struct {
	intended, actual, received, stamped, gap uint64
	outcome, stamps                          uint8
	trace                                    uint64 // R-59; 0: none
}

func decodeRecord(b []byte) record {
	at := func(i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }
	return record{at(0), at(8), at(16), at(24), at(32), b[42], b[43], at(48)}
}

// sample turns a record into what the statistics take (L-56): the time from the
// intended transmission, and from the actual one by the best stamps there are.
func (r record) sample(latency lancet.Latency) (lancet.Sample, error) {
	out := lancet.Sample{Sent: span(r.left()), Failed: r.outcome != 0}
	if out.Failed {
		return out, nil
	}
	if r.received == absent || r.received < r.actual || r.actual < r.intended {
		return out, fmt.Errorf("answered at %d ns, sent at %d ns, due at %d ns: times out of order", r.received, r.actual, r.intended)
	}
	response, service := span(r.received-r.intended), span(r.received-r.actual)
	if r.stamps != 0 && r.stamped != absent {
		service = span(r.stamped)
	}
	out.Latency, out.Other = response, service
	if latency == lancet.Service {
		out.Latency, out.Other = service, response
	}
	return out, nil
}

// left is when the request was sent, or where it never was, should have been: its
// place among the others.
func (r record) left() uint64 {
	if r.actual == absent {
		return r.intended
	}
	return r.actual
}

// lateness is how long after they were due the requests left. Those that never did
// failed, and are judged as such.
func lateness(raw []byte) (late []time.Duration) {
	for i := 0; i+recordBytes <= len(raw); i += recordBytes {
		if r := decodeRecord(raw[i:]); r.actual != absent && r.actual >= r.intended {
			late = append(late, span(r.actual-r.intended))
		}
	}
	return late
}

func span(ns uint64) time.Duration { return time.Duration(min(ns, math.MaxInt64)) }

// decodeGaps reads of the records of a throughput agent what they tell: when its
// requests left.
func decodeGaps(raw []byte) ([]time.Duration, error) {
	if len(raw)%recordBytes != 0 {
		return nil, fmt.Errorf("samples: %d bytes are not a multiple of %d", len(raw), recordBytes)
	}
	var gaps []time.Duration
	for i := 0; i < len(raw); i += recordBytes {
		if r := decodeRecord(raw[i:]); r.gap != absent {
			gaps = append(gaps, span(r.gap))
		}
	}
	return gaps, nil
}

// decodeSamples reads the records of a window into samples, and the gaps between
// transmissions before them.
func decodeSamples(raw []byte, latency lancet.Latency) (samples []lancet.Sample, gaps []time.Duration, err error) {
	if len(raw)%recordBytes != 0 {
		return nil, nil, fmt.Errorf("samples: %d bytes are not a multiple of %d", len(raw), recordBytes)
	}
	for i := 0; i < len(raw); i += recordBytes {
		r := decodeRecord(raw[i:])
		s, err := r.sample(latency)
		if err != nil {
			return nil, nil, fmt.Errorf("sample %d: %w", i/recordBytes, err)
		}
		samples = append(samples, s)
		if r.gap != absent {
			gaps = append(gaps, span(r.gap))
		}
	}
	return samples, gaps, nil
}
