// SPDX-License-Identifier: Apache-2.0

package switches

import (
	"maps"
	"math/bits"
	"time"
)

// The router program's tables of admission control (dataplane/p4/router/admission.p4).
const (
	tableAdmit     = "admit"
	tableObjective = "objective"
	tableBucket    = "bucket"
)

// Its counters.
const (
	counterClasses   = "classes"
	counterLatencies = "latencies"
	counterNotes     = "notes"
)

// Measures is how many numbers of histograms there are; 0 is nobody's.
const Measures = 128

// measure is the number of a service's histogram, the same as the service's; 0: it has none.
func (p Place) measure() int {
	if p.ID > nobody && p.ID < Measures {
		return p.ID
	}
	return 0
}

// Measured says that latencies of the service are.
func (i *Info) Measured(p Place) bool { return i.Measures() && p.measure() > 0 }

// Measures says that the pipeline keeps times: older ones do not.
func (i *Info) Measures() bool {
	return i.byName[tableAdmit] != nil && i.byName[tableObjective] != nil && i.byName[tableBucket] != nil
}

// Buckets of latencies in ticks, shared by all services. The program has numbers for 511: up to 64 ticks each has
// one of its own, then 32 an octave, from 2^15 on 16.
const (
	exactBits, fineBits, endBits = 6, 15, 24
	fineEach, coarseEach         = 32, 16
	firstCoarse                  = 1<<exactBits + (fineBits-exactBits)*fineEach
	lastBucket                   = firstCoarse + (endBits-fineBits)*coarseEach
	// aboveObjective is what lies above an objective in the bucket that it cuts, and beyond is what is in no bucket.
	aboveObjective, beyond = 510, 511
)

// bucketOf a latency in ticks.
func bucketOf(ticks uint32) int {
	octave := bits.Len32(ticks) - 1
	switch {
	case ticks < 1<<exactBits:
		return int(ticks)
	case octave < fineBits:
		return 1<<exactBits + (octave-exactBits)*fineEach + int(ticks>>(octave-5))%fineEach
	case octave < endBits:
		return firstCoarse + (octave-fineBits)*coarseEach + int(ticks>>(octave-4))%coarseEach
	}
	return beyond
}

// bucketRange is the lowest and the highest latency of a bucket.
func bucketRange(bucket int) (lo, hi uint32) {
	if bucket < 1<<exactBits {
		return uint32(bucket), uint32(bucket)
	}
	first, octave, each, shift := 1<<exactBits, exactBits, fineEach, 5
	if bucket >= firstCoarse {
		first, octave, each, shift = firstCoarse, fineBits, coarseEach, 4
	}
	octave += (bucket - first) / each
	lo = uint32(each+(bucket-first)%each) << (octave - shift)
	return lo, lo + 1<<(octave-shift) - 1
}

// block is the numbers that agree with a value in the bits of a mask.
type block struct{ value, mask uint64 }

// blocks cuts the numbers from lo to hi, both included, into blocks.
func blocks(lo, hi uint64, width int) (out []block) {
	whole := uint64(1)<<width - 1
	for lo <= hi {
		size := uint64(1)
		for lo%(2*size) == 0 && lo+2*size-1 <= hi {
			size *= 2
		}
		out = append(out, block{lo, whole &^ (size - 1)})
		lo += size
	}
	return out
}

// bucketRows are the buckets: each is one block.
func bucketRows() (out []Row) {
	for b := range lastBucket {
		lo, hi := bucketRange(b)
		out = append(out, bucketRow(0, blocks(uint64(lo), uint64(hi), 32)[0], b, 1))
	}
	return out
}

func bucketRow(measure int, latency block, bucket int, priority int32) Row {
	whose := Match{Field: "meta.measure", Value: uint64(measure)}
	if measure > 0 {
		whose.Mask = Measures - 1
	}
	return Row{Table: tableBucket, Match: []Match{whose, {Field: "meta.latency", Value: latency.value, Mask: latency.mask}},
		Action: "in_bucket", Args: []Arg{{"number", uint64(bucket)}}, Priority: priority}
}

// splitRows cut the bucket in which an enforced objective lies, for its service alone.
func (s Service) splitRows(measure int) (out []Row) {
	if s.Objective.Per100k == 0 {
		return nil
	}
	b := bucketOf(s.Objective.Latency)
	if b == beyond {
		return nil
	}
	lo, hi := bucketRange(b)
	if s.Objective.Latency == hi {
		return nil
	}
	for _, k := range blocks(uint64(lo), uint64(s.Objective.Latency), 32) {
		out = append(out, bucketRow(measure, k, b, 2))
	}
	for _, k := range blocks(uint64(s.Objective.Latency)+1, uint64(hi), 32) {
		out = append(out, bucketRow(measure, k, aboveObjective, 2))
	}
	return out
}

// label is what option 3 says of a class: its numbers, and the flag that asks not to be refused.
type label struct {
	class  int
	spared bool
	block  block
}

// labels of all classes that a switch tells apart: requests of policies other than 0 never come so far, so that
// 0 to 3 are class 0.
var labels = func() (out []label) {
	for _, c := range []struct {
		class  int
		lo, hi uint64
	}{{0, 0, 3}, {4, 4, 4}, {5, 5, 5}, {6, 6, 6}, {7, 7, 255}} {
		for _, b := range blocks(c.lo, c.hi, 8) {
			for _, spared := range []bool{false, true} {
				flag := uint64(0)
				if spared {
					flag = 1
				}
				out = append(out, label{c.class, spared, block{b.value<<8 | flag, b.mask<<8 | 1}})
			}
		}
	}
	return out
}()

// measuredRows have a service's latencies measured, and its requests refused at the rates of their classes.
func (s Service) measuredRows(p Place) []Row {
	rows := s.splitRows(p.measure())
	rows = append(rows, Row{Table: tableObjective, Match: []Match{{Field: "meta.member_service", Value: uint64(p.ID)}},
		Action: "measured", Args: []Arg{{"measure", uint64(p.measure())}}})
	return append(rows, s.admitRows(p)...)
}

func (s Service) admitRows(p Place) (out []Row) {
	for _, l := range labels {
		share, until := uint64(s.Objective.Shares[l.class]), uint64(s.Objective.Until)
		if l.spared || share == 0 {
			share, until = 0, 0
		}
		out = append(out, Row{Table: tableAdmit, Match: []Match{
			{Field: "hdr.ipv4.dst", Value: number(s.Address.Addr())}, {Field: "hdr.udp.dst", Value: uint64(s.Address.Port())},
			{Field: "meta.label", Value: l.block.value, Mask: l.block.mask}},
			Action: "rate", Args: []Arg{{"number", uint64(p.measure()<<3 | l.class)}, {"measure", uint64(p.measure())}, {"rate_16", share}, {"until", until}},
			Priority: 1})
	}
	return out
}

// AdmitEntries are those that say at what rates requests are refused.
func (i *Info) AdmitEntries(s Service, p Place) ([]Entry, error) { return i.bindAll(s.admitRows(p)) }

// Seen is what a cell of a measured service counts.
type Seen struct {
	Kind SeenKind
	// Number of the class, or of the bucket.
	Number int
}

// SeenKind says what is counted.
type SeenKind uint8

// Requests of a class that were let in or refused, latencies of a bucket; the rest has no number: Done are requests whose
// end is known or will never be, Timed those of which the latency is.
const (
	Admitted SeenKind = iota
	Refused
	Done
	Timed
	InBucket
)

// Notes of the program, as headers.p4 numbers them. A pair that gave way to another one, or came twice, is never timed.
const (
	noteLost, noteAgain, noteMeasured, noteDropped = 2, 3, 4, 6
	notesEach                                      = 8
	bucketsEach                                    = 512
)

// FlowCells count what steers admission: all but the latencies. nil: the service is not measured.
func (i *Info) FlowCells(p Place) map[Cell]Seen {
	out := map[Cell]Seen{}
	m := int64(p.measure())
	if !i.Measured(p) {
		return out
	}
	for _, l := range labels {
		at := (m<<3 | int64(l.class)) << 1
		i.addCell(out, counterClasses, at, Seen{Admitted, l.class})
		i.addCell(out, counterClasses, at|1, Seen{Refused, l.class})
	}
	for _, note := range []int64{noteLost, noteAgain, noteDropped} {
		i.addCell(out, counterNotes, m*notesEach+note, Seen{Kind: Done})
	}
	i.addCell(out, counterNotes, m*notesEach+noteMeasured, Seen{Kind: Timed})
	return out
}

func (i *Info) addCell(to map[Cell]Seen, name string, at int64, s Seen) {
	if c := i.counter(name); c != nil && at >= 0 && at < c.GetSize() {
		to[Cell{c.GetPreamble().GetId(), at}] = s
	}
}

// LatencyCells count latencies by bucket.
func (i *Info) LatencyCells(p Place) map[Cell]Seen {
	out := map[Cell]Seen{}
	if !i.Measured(p) {
		return out
	}
	for b := range lastBucket {
		i.addCell(out, counterLatencies, int64(p.measure())*bucketsEach+int64(b), Seen{InBucket, b})
	}
	for _, b := range []int{aboveObjective, beyond} {
		i.addCell(out, counterLatencies, int64(p.measure())*bucketsEach+int64(b), Seen{InBucket, b})
	}
	return out
}

// MeasuredCells are all of them.
func (i *Info) MeasuredCells(p Place) map[Cell]Seen {
	out := i.FlowCells(p)
	maps.Copy(out, i.LatencyCells(p))
	return out
}

// Within says that all latencies of a bucket are within an objective.
func (o Objective) Within(bucket int) bool {
	return bucket < lastBucket && bucket <= bucketOf(o.Latency) // the rest of its own is counted above it
}

// Edge is the highest latency of a bucket; false: nothing is. The bucket above an objective ends where the one does that
// the objective cuts.
func (o Objective) Edge(bucket int, tick time.Duration) (time.Duration, bool) {
	if bucket == aboveObjective {
		bucket = bucketOf(o.Latency)
	} else if bucket == bucketOf(o.Latency) && o.Per100k > 0 {
		return time.Duration(o.Latency+1)*tick - 1, true
	}
	if bucket >= lastBucket {
		return 0, false
	}
	_, hi := bucketRange(bucket)
	return time.Duration(hi+1)*tick - 1, true
}

// Range is from where to where a bucket reaches, in ticks, whatever is cut out of it.
func (o Objective) Range(bucket int) (lo, hi uint32) {
	if bucket >= lastBucket {
		return 1 << endBits, 1<<32 - 1
	}
	return bucketRange(bucket)
}

// Tick of the pipeline's clock.
func (i *Info) Tick() time.Duration {
	if arch := i.P4.GetPkgInfo().GetArch(); arch == "tna" || arch == "t2na" {
		return 1024 * time.Nanosecond
	}
	return time.Microsecond
}
