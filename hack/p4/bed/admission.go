// SPDX-License-Identifier: Apache-2.0

package bed

import "github.com/bobtail-dev/bobtail/hack/p4/model"

// What the program notes of a pair, as headers.p4 numbers it.
const (
	NoteKnown = iota + 1
	NoteLost
	NoteAgain
	NoteMeasured
	NoteUnseen
	NoteDropped
)

// Buckets of a switch that tells two of them apart.
const (
	Within   = 0
	Exceeded = 511
)

const (
	ask   = Control + "ask."
	watch = Control + "watch."
)

// Prefixes cuts the numbers from lo to hi, both included, into values and masks of so many bits.
func Prefixes(lo, hi uint64, bits int) []model.Match {
	whole := uint64(1)<<bits - 1
	var all []model.Match
	for lo <= hi {
		size := lo & -lo // the largest block that begins here
		if lo == 0 || size > whole {
			size = whole + 1
		}
		for size > 1 && hi-lo < size-1 {
			size /= 2
		}
		m := model.Match{Value: lo, Mask: whole &^ (size - 1)}
		m.Any = m.Mask == 0
		all = append(all, m)
		if hi-lo == size-1 {
			break
		}
		lo += size
	}
	return all
}

// Measure has the latency of a service measured: in bucket Within up to an objective, in Exceeded above it.
func (s *Switch) Measure(v Service, number int, objective uint64) error {
	err := s.Insert(watch+"objective", model.Entry{Match: []model.Match{{Value: uint64(v.Index)}}, Action: "measured", Args: []uint64{uint64(number)}})
	for _, m := range Prefixes(0, objective, 32) {
		if err == nil {
			err = s.Insert(watch+"bucket", model.Entry{Match: []model.Match{{Value: uint64(number), Mask: 127}, m}, Action: "in_bucket", Args: []uint64{Within}})
		}
	}
	return err
}

// Classes that a switch tells apart: none asked for, and the priorities.
var Classes = []int{0, 4, 5, 6, 7}

// labels of a class: its number and those that count as it.
func labels(class int) []model.Match {
	lo, hi := uint64(class), uint64(class)
	switch class {
	case 0:
		hi = 3
	case 7:
		hi = 255
	}
	return Prefixes(lo, hi, 8)
}

// Rate has a share of a class's requests refused until a time, in units of 2^-16; never those that ask not to be.
func (s *Switch) Rate(v Service, number, class int, rate, until uint64) error {
	for _, l := range labels(class) {
		for spared := range uint64(2) {
			e := model.Entry{Match: []model.Match{{Value: RouterIP}, {Value: uint64(v.requestPort())}, {Value: l.Value<<8 | spared, Mask: l.Mask<<8 | 1}},
				Action: "rate", Args: []uint64{uint64(number<<3 | class), uint64(number), rate * (1 - spared), until}}
			if err := s.Insert(ask+"admit", e); err != nil {
				return err
			}
		}
	}
	return nil
}

// Noted is how often something was noted of pairs.
func (s *Switch) Noted(number, note int) uint64 {
	return s.Count(watch+"notes", uint64(number<<3|note))
}

// Latencies in a bucket.
func (s *Switch) Latencies(number, bucket int) uint64 {
	return s.Count(watch+"latencies", uint64(number<<9|bucket))
}

// Class is how many requests of a class arrived, and how many of them were refused.
func (s *Switch) Class(number, class int) (arrived, refused uint64) {
	at := uint64(number<<3|class) << 1
	refused = s.Count(watch+"classes", at|1)
	return s.Count(watch+"classes", at) + refused, refused
}
