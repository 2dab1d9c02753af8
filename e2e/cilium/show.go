// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"strconv"

	"github.com/cilium/ebpf"
)

// shown is what Cilium's programs counted on a host.
type shown struct {
	Forwarded uint64            `json:"forwarded"`
	Dropped   map[string]uint64 `json:"dropped"` // by the number of Cilium's reason (bpf/lib/drop_reasons.h)
}

// firstDrop is the least number of a reason to drop a packet; those below it say what was done with one (bpf/lib/common.h).
const firstDrop = 130

// metric is a row of cilium_metrics (bpf/lib/metrics.h).
type metric struct {
	Reason, Direction uint8
	Line              uint16
	File              uint8
	_                 [3]uint8
}

func show(h *host) (any, error) {
	m, err := ebpf.LoadPinnedMap(filepath.Join(h.globals(), "cilium_metrics"), nil)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	s := shown{Dropped: map[string]uint64{}}
	var row metric
	var ofCPUs []struct{ Count, Bytes uint64 }
	all := m.Iterate()
	for all.Next(&row, &ofCPUs) {
		for _, v := range ofCPUs {
			if row.Reason < firstDrop {
				s.Forwarded += v.Count
			} else if v.Count > 0 {
				s.Dropped[strconv.Itoa(int(row.Reason))] += v.Count
			}
		}
	}
	return s, all.Err()
}
