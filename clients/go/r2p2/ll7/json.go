// SPDX-License-Identifier: Apache-2.0

package ll7

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/bits"
)

// Encoding is the name every JSON histogram carries, so that a reader never
// mistakes another bucket layout for this one.
const Encoding = "ll7"

type wire struct {
	Encoding       string      `json:"encoding"`
	Total          uint64      `json:"total"`
	Inf            uint64      `json:"inf"`
	SumNanoseconds uint64      `json:"sumNanoseconds"`
	Buckets        [][2]uint64 `json:"buckets"`
}

// MarshalJSON writes {"encoding":"ll7","total":…,"inf":…,"sumNanoseconds":…,
// "buckets":[[index,count],…]} with ascending indices and no empty bucket.
func (h *Histogram) MarshalJSON() ([]byte, error) {
	w := wire{Encoding: Encoding, Total: h.total, Inf: h.inf, SumNanoseconds: h.sum, Buckets: [][2]uint64{}}
	for i, c := range h.counts {
		if c > 0 {
			w.Buckets = append(w.Buckets, [2]uint64{uint64(i), c})
		}
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads what MarshalJSON writes and refuses anything that does
// not add up, because a histogram that lies about its total would silently
// shift every percentile.
func (h *Histogram) UnmarshalJSON(data []byte) error {
	var w wire
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&w); err != nil {
		return fmt.Errorf("ll7 histogram: %w", err)
	}
	if w.Encoding != Encoding {
		return fmt.Errorf("ll7 histogram: encoding: must be %q; got %q", Encoding, w.Encoding)
	}
	n := Histogram{inf: w.Inf, sum: w.SumNanoseconds, total: w.Inf}
	last := -1
	for i, b := range w.Buckets {
		if b[0] >= Buckets || int(b[0]) <= last {
			return fmt.Errorf("ll7 histogram: buckets[%d]: index must ascend within 0..%d; got %d after %d", i, Buckets-1, b[0], last)
		}
		last = int(b[0])
		var carry uint64
		n.total, carry = bits.Add64(n.total, b[1], 0)
		if carry != 0 {
			return fmt.Errorf("ll7 histogram: buckets[%d]: the counts add up to more than 64 bits", i)
		}
		n.grow()
		n.counts[last] = b[1]
	}
	if n.total != w.Total {
		return fmt.Errorf("ll7 histogram: total: must equal all counts plus inf, %d; got %d", n.total, w.Total)
	}
	*h = n
	return nil
}
