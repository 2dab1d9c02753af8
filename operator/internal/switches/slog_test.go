// SPDX-License-Identifier: Apache-2.0

package switches

import (
	"fmt"
	"math"
	"net/netip"
	"testing"

	"github.com/bobtail-dev/bobtail/hack/p4/bed"
)

func run(name string, rate, templates uint32, targets int) Run {
	r := Run{Name: "demo/" + name, Version: "one", Number: 7, Packets: 1 << 20, Rate: rate, TemplateRate: templates, TemplatePort: bed.GeneratorPort,
		Net: netip.MustParsePrefix("10.99.0.0/16"), OwnMAC: 0x0200000000ff}
	for n := range targets {
		r.Targets = append(r.Targets, RunTarget{Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 2, 0, byte(n + 1)}), 8000), NextHop: NextHop{MAC: 0x020000030000 + uint64(n), Port: uint32(20 + n)}})
	}
	return r
}

// Gaps have the mean that makes the rate, to 0.1 % (S-11), exponential or fixed.
func TestGaps(t *testing.T) {
	for _, r := range []Run{run("a", 2_000_000, 148_000_000, 1), run("b", 1000, 5000, 1), run("c", 3, 1_000_000, 1)} {
		for _, fixed := range []bool{false, true} {
			r.Fixed = fixed
			sum, squares := 0.0, 0.0
			for _, g := range r.gaps() {
				sum += float64(g + 1)
				squares += float64(g+1) * float64(g+1)
			}
			mean, want := sum/Gaps, float64(r.TemplateRate)/float64(r.Rate)
			deviation := math.Sqrt(squares/Gaps-mean*mean) / mean
			if math.Abs(mean/want-1) > 0.001 {
				t.Errorf("%s: a mean of %.4f templates, want %.4f", r.Name, mean, want)
			}
			if fixed && deviation > 0.2 || !fixed && (deviation < 0.85 || deviation > 1.1) {
				t.Errorf("%s, fixed %v: deviation %.3f of the mean", r.Name, fixed, deviation)
			}
		}
	}
}

// Buckets follow one another, are a hundredth wide at most, and each is one block (S-24, S-25).
func TestRunBuckets(t *testing.T) {
	next := uint32(0)
	for b := range runBuckets {
		lo, hi := runRange(b)
		if lo != next || runBucketOf(lo) != b || runBucketOf(hi) != b || lo >= 256 && (hi-lo+1)*100 > lo || len(blocks(uint64(lo), uint64(hi), 31)) != 1 {
			t.Fatalf("bucket %d is %d to %d after %d", b, lo, hi, next)
		}
		next = hi + 1
	}
	if next != 1<<runEndBits || runBuckets >= runBeyond {
		t.Errorf("%d buckets end at %d", runBuckets, next)
	}
}

// What the operator writes sends packets to the targets in turn, and counts each reply in the bucket of its latency (S-3 to
// S-5, S-23).
func TestRunOnTheProgram(t *testing.T) {
	p := newProgrammed(t, "slog")
	if got := p.info.Program(); got != ProgramSLOG {
		t.Fatalf("the program is %q", got)
	}
	r := run("load", 1000, 5000, 3)
	r.Packets = 300
	plan := p.info.PlanRuns([]Run{r, run("second", 1, 5, 1)})
	if len(plan.Refused) != 1 || plan.Refused["demo/second"] != "the switch makes the load of demo/load" {
		t.Fatalf("%v", plan.Refused)
	}
	fabric := Fabric{Ports: []uint32{20, 21, 22}, Pool: []netip.Prefix{r.Net}, MAC: r.OwnMAC}
	wanted, err := p.info.Entries(fabric)
	if err != nil {
		t.Fatal(err)
	}
	p.hold(nil, append(wanted, plan.Entries...))
	template := bed.Frame(bed.Ends{Src: bed.OwnNet << 16, Dst: bed.TargetNet << 16, SrcPort: 1 << 15, DstPort: 8000}, make([]byte, 18))
	want, sent, now := map[int]uint64{}, map[uint64]int{}, uint64(1_000_000)
	for n := range 5000 {
		now += 200
		for _, f := range p.pass(bed.GeneratorPort, now, template) {
			sent[f.Port]++
			if n%10 == 3 {
				continue // this one is lost
			}
			latency := uint64(100 + n*13%90_000)
			if out := p.pass(f.Port, now+latency, bed.Reply(f, []byte("reply")).Data); len(out) != 0 {
				t.Fatal("a reply goes on")
			}
			want[runBucketOf(uint32(latency))]++
		}
	}
	if sent[20] != 100 || sent[21] != 100 || sent[22] != 100 {
		t.Errorf("packets by port: %v", sent)
	}
	total := uint64(0)
	for cell, of := range p.info.RunLatencies() {
		if n := p.count(cell); n != want[of.Number] {
			t.Errorf("%d latencies in bucket %d, want %d", n, of.Number, want[of.Number])
		} else {
			total += n
		}
	}
	sums := map[Fate]uint64{}
	for cell, fate := range p.info.RunCells(r) {
		sums[fate] += p.count(cell)
	}
	if sums[Sent] != 300 || sums[Received] != total || sums[OutOfRange] != 0 || sums[Unmatched] != 0 || sums[Spent] == 0 {
		t.Errorf("%v, %d received", sums, total)
	}
}

// What cannot be is refused with the number that would.
func TestRunRefused(t *testing.T) {
	i := infoOf(t, "slog")
	six, wide := run("six", 1000, 5000, 1), run("wide", 1000, 5000, 1)
	six.Targets[0].Address = netip.MustParseAddrPort("[fd00::1]:8000")
	wide.Net = netip.MustParsePrefix("10.99.0.0/20")
	for want, r := range map[string]Run{
		"1001 packets a second of 5000 templates: at most a fifth of the templates may be kept, which is 1000": run("fast", 1001, 5000, 1),
		"no target can be reached":                                     run("none", 1000, 5000, 0),
		"257 targets, and at most 256 have a number":                   run("many", 1000, 5000, 257),
		"target [fd00::1]:8000: the switch knows IPv4 alone":           six,
		"10.99.0.0/20 is no network of 16 bits, which the stamp needs": wide,
	} {
		if got := i.PlanRuns([]Run{r}); got.Refused[r.Name] != want || len(got.Entries) != 0 {
			t.Errorf("%q, want %q", got.Refused[r.Name], want)
		}
	}
	other := infoOf(t, "crab")
	if got := other.PlanRuns([]Run{run("a", 1000, 5000, 1)}); len(got.Refused) != 1 {
		t.Errorf("a balancer makes load: %v", got.Refused)
	}
	if edge, finite := i.RunEdge(300); !finite || fmt.Sprint(edge) != "345.999µs" {
		t.Errorf("bucket 300 ends at %v", edge)
	}
	if _, finite := i.RunEdge(runBeyond); finite {
		t.Error("what is in no bucket has an end")
	}
}
