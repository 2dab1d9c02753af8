// SPDX-License-Identifier: Apache-2.0

package hedgemodel

import (
	"bufio"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/hack/test/needs"
)

// rows of a table that measure/sim/hedge-vectors made, by the names of its columns.
func rows(t *testing.T, path string) []map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var names []string
	var out []map[string]string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Split(lines.Text(), ",")
		switch {
		case strings.HasPrefix(lines.Text(), "#"):
		case names == nil:
			names = fields
		default:
			row := map[string]string{}
			for i, name := range names {
				row[name] = fields[i]
			}
			out = append(out, row)
		}
	}
	return out
}

func number(t *testing.T, row map[string]string, name string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(row[name], 64)
	if err != nil {
		t.Fatalf("%s of %v: %v", name, row, err)
	}
	return v
}

// allCells takes two minutes on one core, else a few seconds.
var allCells = os.Getenv("HEDGE_CELLS") == "all"

// oneIn so many of those that are asked otherwise.
var oneIn = 1

var byName = map[string]Cancellation{"None": None, "Answered": Answered, "Preemptive": Preemptive}

// perRTT: networks of packets.csv take 10 us each way, services 1 ms. Routers see
// services of 1.02 ms, clients another 20 us.
const perRTT = 0.02

// onPackets is the service of a row, in the unit of which routers would speak.
func onPackets(t *testing.T, row map[string]string) Service {
	t.Helper()
	s := aService()
	s.Workers, s.Routers, s.Requests = int(number(t, row, "workers")), int(number(t, row, "routers")), 30000
	s.Load, s.Fixed = (1+perRTT)*nominal(number(t, row, "load")), row["service"] == "deterministic"
	s.BusyShare, s.Cancel, s.Heeded, s.Lag = number(t, row, "busyPercent")/100, byName[row["mode"]], 1, perRTT
	return s
}

// what the shipped router makes of real packets, with each cancellation. Where
// workers are nearly always busy, no two runs agree, and where few copies are sent p99
// hangs on whether 0.99 or 1.01 % of the draws are hiccups.
func TestR254ModelAgreesWithTheRouterOnRealPackets(t *testing.T) {
	compared := 0
	for i, row := range rows(t, "testdata/packets.csv") {
		workers, load, copies := number(t, row, "workers"), number(t, row, "load"), number(t, row, "copies")
		if load > 0.7 || (workers == 2 && (load > 0.3 || row["busyPercent"] == "50")) {
			continue
		}
		if !allCells && i%(2*oneIn) != 0 {
			continue
		}
		o := Run(onPackets(t, row))
		near := func(what string, got, share float64) {
			if want := number(t, row, what); math.Abs(got-want) > share*want+0.02 {
				t.Errorf("%v: %s %.3f in the model", row, what, got)
			}
			compared++
		}
		near("p50", (1+perRTT)*o.Median+perRTT, map[bool]float64{true: 0.06, false: 0.12}[load < 0.7])
		near("copies", o.Copies, 0.12)
		if copies > 0.1 && load < 0.7 {
			near("p99", (1+perRTT)*o.Tail+perRTT, 0.12)
			near("takenBack", o.TakenBack, 0.12)
		}
	}
	if compared < 100/oneIn {
		t.Errorf("%d figures compared", compared)
	}
}

// harms is the simulator's (dataplane/sim/fanout_cells.c).
func harms(offMedian, offTail, median, tail float64) bool {
	return median > 1.05*offMedian || tail > 1.05*offTail
}

// no cell that the simulator finds harmed is chosen, with whatever
// cancellation, and with cancellation more are chosen than without. A few of the
// cells only, if not all are asked for.
func TestR254NoHarmedCellIsChosen(t *testing.T) {
	all := rows(t, "testdata/cells.csv")
	for _, replicas := range []string{"2", "4", "16"} {
		t.Run(replicas, func(t *testing.T) {
			chosen := map[string]int{}
			for i, row := range all {
				if row["replicas"] != replicas || (!allCells && i%(37*oneIn) != 0) {
					continue
				}
				s := aService()
				p, load := number(t, row, "p"), number(t, row, "load")
				s.Workers, s.HiccupShare, s.Load, s.BusyShare = int(number(t, row, "replicas")), p, load*(1+15*p), 1
				off := s
				off.BusyShare = 0
				plain := Run(off)
				for name, c := range byName {
					s.Cancel, s.Heeded = c, 1
					with := Run(s)
					if judge(plain, with) != Pays || Ask(s).Verdict != Pays {
						continue
					}
					chosen[name]++
					if harms(number(t, row, "OffP50"), number(t, row, "OffP99"), number(t, row, name+"P50"), number(t, row, name+"P99")) {
						t.Errorf("%s was chosen: %v; the model says %+v instead of %+v", name, row, with, plain)
					}
				}
			}
			t.Logf("%s replicas: %v", replicas, chosen)
			if !allCells {
				return
			}
			if chosen["Answered"] < chosen["None"] || chosen["Preemptive"] < max(1, chosen["Answered"]) {
				t.Errorf("chosen: %v", chosen)
			}
		})
	}
}

// the same of packets, with the delay that is assumed of CANCELs.
func TestR254NoHarmOnRealPackets(t *testing.T) {
	needs.Draws(t)
	off := map[string]map[string]string{}
	plain := map[string]Outcome{}
	chosen := map[string]int{}
	for i, row := range rows(t, "testdata/packets.csv") {
		if !allCells && row["mode"] != "Off" && i%(3*oneIn) != 0 {
			continue
		}
		if row["workers"] == "2" && row["busyPercent"] == "50" { // is the same as 100
			continue
		}
		key := row["workers"] + row["routers"] + row["service"] + row["load"]
		s := onPackets(t, row)
		s.Lag, s.Requests = 0.25, 20000
		if row["mode"] == "Off" {
			off[key], plain[key] = row, Run(s)
			continue
		}
		if judge(plain[key], Run(s)) != Pays || Ask(s).Verdict != Pays {
			continue
		}
		chosen[row["mode"]]++
		if harms(number(t, off[key], "p50"), number(t, off[key], "p99"), number(t, row, "p50"), number(t, row, "p99")) {
			t.Errorf("chosen: %v, off %v", row, off[key])
		}
	}
	t.Logf("%v", chosen)
	if least := map[bool]int{true: 20, false: 4 / oneIn}[allCells]; chosen["Preemptive"] < least {
		t.Errorf("chosen: %v", chosen)
	}
	if allCells && (chosen["None"] < 2 || chosen["Answered"] <= chosen["None"] || chosen["Preemptive"] <= chosen["Answered"]) {
		t.Errorf("chosen: %v", chosen)
	}
}
