// SPDX-License-Identifier: Apache-2.0

package switches

import (
	"fmt"
	"math"
	"math/bits"
	"net/netip"
	"time"
)

// Tables of the load generator (dataplane/p4/slog); its tables of targets and of buckets have the names of the router's.
const (
	tableSource = "source"
	tableGap    = "gap"
	tableReply  = "reply"
)

// Bounds of the load generator.
const (
	// Gaps is how many numbers chance draws from (S-11).
	Gaps = 1 << 16
	// MaxRunTargets is how many have a number of their own.
	MaxRunTargets = 256
	// MostOfTemplates is the highest rate as a share of that of the templates: above it gaps look like a lattice (S-12).
	MostOfTemplates = 0.2
	// NetBits is how long the network is that the generator owns: half of the stamp is in the rest of its addresses (S-3).
	NetBits = 16
)

// Run is a load that a switch makes, and measures.
type Run struct {
	// Name of the experiment, and Version of what it was made from.
	Name, Version string
	// Number tells runs apart; another one begins anew. Never 0.
	Number uint32
	// Packets to send in all, Rate a second, drawn from templates that come in by a port.
	Packets            uint32
	Rate, TemplateRate uint32
	TemplatePort       uint32
	// Fixed gaps, else exponential ones.
	Fixed   bool
	Net     netip.Prefix
	OwnMAC  uint64
	Targets []RunTarget
}

// RunTarget answers.
type RunTarget struct {
	Address netip.AddrPort
	NextHop
}

// fault is what no switch with this program could do.
func (r Run) fault() string {
	for _, t := range r.Targets {
		if !t.Address.Addr().Is4() {
			return fmt.Sprintf("target %s: the switch knows IPv4 alone", t.Address)
		}
	}
	most := uint32(MostOfTemplates * float64(r.TemplateRate))
	switch {
	case len(r.Targets) == 0:
		return "no target can be reached"
	case len(r.Targets) > MaxRunTargets:
		return fmt.Sprintf("%d targets, and at most %d have a number", len(r.Targets), MaxRunTargets)
	case r.Rate < 1 || r.Rate > most:
		return fmt.Sprintf("%d packets a second of %d templates: at most a fifth of the templates may be kept, which is %d", r.Rate, r.TemplateRate, most)
	case !r.Net.IsValid() || !r.Net.Addr().Is4() || r.Net.Bits() != NetBits:
		return fmt.Sprintf("%s is no network of %d bits, which the stamp needs", r.Net, NetBits)
	}
	return ""
}

// gaps are how many templates are dropped between two that are kept, each number as often as the distribution has it. Their
// mean is scaled to the rate after rounding (S-11).
func (r Run) gaps() []uint64 {
	want := float64(r.TemplateRate) / float64(r.Rate)
	if r.Fixed {
		return spacedGaps(want)
	}
	drawn := make([]float64, Gaps)
	for n := range drawn {
		drawn[n] = -math.Log(1-(float64(n)+0.5)/Gaps) * want
	}
	lo, hi := 0.5, 2.0
	for range 24 {
		mid := (lo + hi) / 2
		if _, mean := wholeGaps(drawn, mid); mean > want {
			hi = mid
		} else {
			lo = mid
		}
	}
	out, _ := wholeGaps(drawn, lo)
	return out
}

// wholeGaps are gaps in templates, scaled.
func wholeGaps(drawn []float64, scale float64) (gaps []uint64, mean float64) {
	gaps = make([]uint64, len(drawn))
	sum := 0.0
	for n, gap := range drawn {
		whole := max(math.Round(gap*scale), 1)
		gaps[n] = uint64(whole) - 1
		sum += whole
	}
	return gaps, sum / float64(len(drawn))
}

// spacedGaps are two neighbouring numbers, as often as makes their mean.
func spacedGaps(want float64) []uint64 {
	gaps := make([]uint64, Gaps)
	for n := range gaps {
		gaps[n] = uint64(math.Floor(float64(n+1)*want)-math.Floor(float64(n)*want)) - 1
	}
	return gaps
}

// Buckets of latencies in the unit of the stamps: up to 256 each has one of its own, then 128 an octave (S-24), to 2^27.
const (
	runExactBits, runEndBits = 8, 27
	runEach                  = 128
	runBuckets               = 1<<runExactBits + (runEndBits-runExactBits)*runEach
	runBeyond                = 4095
)

// runRange is the lowest and the highest latency of a bucket.
func runRange(bucket int) (lo, hi uint32) {
	if bucket < 1<<runExactBits {
		return uint32(bucket), uint32(bucket)
	}
	octave := (bucket - 1<<runExactBits) / runEach
	shift := octave + 1
	lo = uint32(runEach+bucket%runEach) << shift
	return lo, lo + 1<<shift - 1
}

// runBucketOf a latency.
func runBucketOf(latency uint32) int {
	octave := bits.Len32(latency) - 1
	switch {
	case latency < 1<<runExactBits:
		return int(latency)
	case octave < runEndBits:
		return 1<<runExactBits + (octave-runExactBits)*runEach + int(latency>>(octave-7))%runEach
	}
	return runBeyond
}

// generatorRows are what a switch holds whatever it measures: the network whose addresses are stamps, and buckets.
func generatorRows(f Fabric) (out []Row) {
	for _, p := range f.Pool {
		net := number(p.Masked().Addr())
		mask := uint64(1<<32-1) &^ (1<<(32-p.Bits()) - 1)
		out = append(out,
			Row{Table: tableOwn, Match: []Match{{Field: "hdr.ipv4.dst_net", Value: net >> NetBits}}, Action: "is_ours"},
			Row{Table: tableAddress, Match: []Match{{Field: "hdr.arp.target", Value: net, Mask: mask}, {Field: "hdr.arp.operation", Value: arpRequest}, {Field: "hdr.arp.protocol", Value: etherIPv4}},
				Action: "is_asked", Args: []Arg{{"mac", f.MAC}}, Priority: 1})
	}
	for b := range runBuckets {
		lo, hi := runRange(b)
		k := blocks(uint64(lo), uint64(hi), 31)[0]
		out = append(out, Row{Table: tableBucket, Match: []Match{{Field: "meta.latency", Value: k.value, Mask: k.mask}},
			Action: "in_bucket", Args: []Arg{{"number", uint64(b)}}, Priority: 1})
	}
	return out
}

// rows of a run: the source is last, and templates count for nothing without it (W-22).
func (r Run) rows() []Row {
	out := []Row{{Table: tableSource, Match: []Match{{Field: "in_port", Value: uint64(r.TemplatePort)}},
		Action: "generate", Args: []Arg{{"run", uint64(r.Number)}, {"packets", uint64(r.Packets)}, {"last", uint64(len(r.Targets) - 1)}}}}
	for n, g := range r.gaps() {
		out = append(out, Row{Table: tableGap, Match: []Match{{Field: "meta.draw", Value: uint64(n)}}, Action: "drop_next", Args: []Arg{{"templates", g}}})
	}
	own := number(r.Net.Masked().Addr()) >> NetBits
	for n, t := range r.Targets {
		at := number(t.Address.Addr())
		net, host, port := at>>NetBits, at&0xffff, uint64(t.Address.Port())
		out = append(out,
			Row{Table: tableTarget, Match: []Match{{Field: "meta.turn", Value: uint64(n)}}, Action: "to_target", Args: []Arg{
				{"number", uint64(n)}, {"port", uint64(t.Port)}, {"own_mac", r.OwnMAC}, {"mac", t.MAC}, {"own_net", own}, {"net", net}, {"host", host}, {"udp_port", port}}},
			Row{Table: tableReply, Match: []Match{{Field: "hdr.ipv4.src_net", Value: net}, {Field: "hdr.ipv4.src_host", Value: host}, {Field: "hdr.udp.src", Value: port}},
				Action: "answers", Args: []Arg{{"number", uint64(n)}}})
	}
	return out
}

// RunPlan is what a switch is to hold of runs: of the first one, since it makes one load at a time.
type RunPlan struct {
	Entries []Entry
	Refused map[string]string
}

// PlanRuns is for the first run; the others wait.
func (i *Info) PlanRuns(all []Run) RunPlan {
	out := RunPlan{Refused: map[string]string{}}
	for n, r := range all {
		if n > 0 {
			out.Refused[r.Name] = fmt.Sprintf("the switch makes the load of %s", all[0].Name)
			continue
		}
		if why := r.fault(); why != "" {
			out.Refused[r.Name] = why
			continue
		}
		entries, err := i.bindAll(r.rows())
		if err != nil {
			out.Refused[r.Name] = err.Error()
			continue
		}
		out.Entries = entries
	}
	return out
}

// Fates of packets of a run.
const (
	Sent       Fate = "sent"
	Received   Fate = "received"
	OutOfRange Fate = "out-of-range"
	Unmatched  Fate = "unmatched"
	Spent      Fate = "spent" // templates after the last packet
)

// runOutcomes are the numbers of what can become of a packet (headers.p4 of slog).
const runOutcomes = 16

// RunCells are the counters of a run, and what each counts. Replies of nobody are counted under number 0 (headers.p4 of
// slog).
func (i *Info) RunCells(r Run) map[Cell]Fate {
	out := map[Cell]Fate{}
	c := i.counter(counterOutcomes)
	if c == nil {
		return out
	}
	add := func(target, what int, fate Fate) {
		out[Cell{c.GetPreamble().GetId(), int64(target*runOutcomes + what)}] = fate
	}
	for n := range r.Targets {
		add(n, 4, Sent)
		add(n, 5, Received)
		add(n, 6, OutOfRange)
	}
	add(0, 2, Spent)
	add(0, 7, Unmatched)
	return out
}

// RunLatencies count latencies by bucket.
func (i *Info) RunLatencies() map[Cell]Seen {
	out := map[Cell]Seen{}
	for b := range runBuckets {
		i.addCell(out, counterLatencies, int64(b), Seen{InBucket, b})
	}
	i.addCell(out, counterLatencies, runBeyond, Seen{InBucket, runBeyond})
	return out
}

// RunEdge is the highest latency of a bucket; false: nothing is.
func (i *Info) RunEdge(bucket int) (time.Duration, bool) {
	if bucket >= runBuckets {
		return 0, false
	}
	unit := time.Microsecond
	if i.Tick() != time.Microsecond { // a Tofino stamps in nanoseconds
		unit = time.Nanosecond
	}
	_, hi := runRange(bucket)
	return time.Duration(hi+1)*unit - 1, true
}
