// SPDX-License-Identifier: Apache-2.0

package model

// pages are the words of a register or counter: all zeros, and in memory only where somebody looked. A test begins with a
// fresh switch many thousand times, and touches little of it.
type pages struct {
	lanes int
	of    [][]uint64
}

const pageEntries = 256

func newPages(size uint64, lanes int) pages {
	return pages{lanes, make([][]uint64, (size+pageEntries-1)/pageEntries)}
}

// entry is the words of one entry.
func (p pages) entry(at uint64) []uint64 {
	page := &p.of[at/pageEntries]
	if *page == nil {
		*page = make([]uint64, pageEntries*p.lanes)
	}
	i := int(at%pageEntries) * p.lanes
	return (*page)[i : i+p.lanes : i+p.lanes]
}

// each calls f with every word that is not zero, in order.
func (p pages) each(f func(at int, w uint64)) {
	for n, page := range p.of {
		for i, w := range page {
			if w != 0 {
				f(n*pageEntries*p.lanes+i, w)
			}
		}
	}
}
