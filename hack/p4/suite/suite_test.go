// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/hack/p4/bed"
	"github.com/bobtail-dev/bobtail/hack/p4/model"
	"github.com/bobtail-dev/bobtail/hack/test/privileged"
)

const (
	routerFolder = "../../../dataplane/p4/router/"
	vectorsJSON  = "../../../dataplane/tests/vectors/r2p2.json"
)

func load(t *testing.T, shell string) *model.Program {
	t.Helper()
	p, err := model.Load(routerFolder+shell+".p4", nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// R-54, W-13: what the vectors say of malformed packets, and that state stays as it was.
func TestVectors(t *testing.T) {
	for _, shell := range []string{"v1model", "tna"} {
		run, failed, err := Vectors(vectorsJSON, load(t, shell))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range failed {
			t.Errorf("%s: %s", shell, f)
		}
		t.Logf("%s: %d vectors", shell, run)
	}
}

const simulator = "../../../build/dataplane/apps/bobtail-sim/bobtail-sim"

// W-3, W-5, R-111, R-112: the program decides as the simulator's pipeline, event by event.
func TestLockstep(t *testing.T) {
	if _, err := os.Stat(simulator); err != nil {
		privileged.Lacking(t, "no "+simulator)
	}
	for _, shell := range []string{"v1model", "tna"} {
		lines, err := exec.Command(simulator, "switch", "--events=20000").Output()
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		r, err := Play(bytes.NewReader(lines), load(t, shell), 20)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d events, %d differences, %d above n, %d missing in %v", shell, r.Events, r.Differences, r.AboveN, r.Missing, time.Since(start))
		for _, d := range r.First {
			t.Error(d)
		}
		if r.Odd != 0 {
			t.Errorf("%d odd accesses", r.Odd)
		}
	}
}

// W-1: one core, two architectures, one behaviour.
func TestShells(t *testing.T) {
	for seed := range uint64(3) {
		n, first, err := Shells(load(t, "v1model"), load(t, "tna"), seed, 5000)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range first {
			t.Error(f)
		}
		t.Logf("seed %d: %d differences", seed, n)
	}
}

// W-9, R-4, R-12, R-55: the STF files, whose frames and answers another program made from the rules.
func TestCases(t *testing.T) {
	for _, shell := range []string{"v1model", "tna"} {
		run, failed, err := Cases(routerFolder+"stf", load(t, shell))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range failed {
			t.Errorf("%s: %s", shell, f)
		}
		t.Logf("%s: %d files", shell, run)
	}
}

// Planted bugs are noticed, each by what it breaks, and the program as it is is not. All rows: p4check suite.
func TestMutations(t *testing.T) {
	if _, err := os.Stat(simulator); err != nil {
		privileged.Lacking(t, "no "+simulator)
	}
	lines, err := exec.Command(simulator, "switch", "--events=5000").Output()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := Mutations("../../../dataplane/tests/p4/mutations.yaml")
	if err != nil {
		t.Fatal(err)
	}
	segments, err := exec.Command(simulator, "switch", "--program=crab", "--events=3000").Output()
	if err != nil {
		t.Fatal(err)
	}
	b := &Bench{Root: "../../..", Vectors: vectorsJSON, Lines: lines, Frames: 1000, Segments: segments}
	if err := b.Check(rows); err != nil {
		t.Fatal(err)
	}
	if what, err := b.Notice("router", load(t, "v1model"), load(t, "tna")); err != nil || what != "" {
		t.Fatal(what, err)
	}
	by := map[string]string{"n-plus-one": "lockstep", "drop-keeps-its-type": "case", "a-stage-more": "discipline",
		"syn-without-its-address": "case", "repeated-syn-goes-on": "segments", "one-template-too-few": "load",
		"astray-uncounted": "architectures", "stranger-counted-twice": "case", "crab-runt-uncounted": "segments"}
	for _, m := range rows {
		if by[m.Name] == "" {
			continue
		}
		what, err := b.Plant(m)
		if err != nil || !strings.HasPrefix(what, by[m.Name]) {
			t.Errorf("%s was noticed by %q (%v), want %s", m.Name, what, err, by[m.Name])
		}
	}
}

// W-13: the reasons that the suite names are those of the program.
func TestReasons(t *testing.T) {
	text, err := os.ReadFile(routerFolder + "headers.p4")
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]int{"SHORT": RShort, "MAGIC": RMagic, "SIZE": RSize, "TRUNCATED": RTruncated, "FRAGMENT": RFragment,
		"IP_OPTIONS": RIPOptions, "CHECKSUM": RChecksum, "LENGTH": RLength, "TYPE": RType, "COUNT": RCount, "SINGLE": RSingle,
		"INDEX": RIndex, "REPORT": RReport, "COUNTERS": RCounters, "SOURCE": RSource, "OPTION_SIZE": ROptionSize,
		"OPTION_LENGTH": ROptionLength, "FORWARDER": RForwarder, "TRAILING": RTrailing, "NOT_SERVED": RNotServed, "OPTION": ROption,
		"POLICY": RPolicy, "NO_ROOM": RNoRoom, "FULL": RFull, "LATE": RLate, "OLD": ROld, "REPORTED": RReported,
		"CREDITED": RCredited, "NOBODY": RNobody, "SHED": RShed, "NOWHERE": RNowhere, "NONE": 0}
	found := regexp.MustCompile(`const reason_t R_(\w+) = (\d+);`).FindAllStringSubmatch(string(text), -1)
	if len(found) != len(have) {
		t.Errorf("the program has %d reasons, the suite %d", len(found), len(have))
	}
	for _, f := range found {
		if want, ok := have[f[1]]; !ok || fmt.Sprint(want) != f[2] {
			t.Errorf("R_%s is %s in the program", f[1], f[2])
		}
	}
}

// what the switch makes of the vector of a plain request are the bytes of the vector with option 5, which the C and
// Go sides encode and decode.
func TestForwardedBytesAreTheVectors(t *testing.T) {
	text, err := os.ReadFile(vectorsJSON)
	if err != nil {
		t.Fatal(err)
	}
	var all vectorFile
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	byName := map[string][]byte{}
	for _, v := range all.Packets {
		if byName[v.Name], err = hex.DecodeString(v.Hex); err != nil {
			t.Fatal(err)
		}
	}
	for _, shell := range shellNames {
		s, service, err := vectorSwitch(load(t, shell))
		if err != nil {
			t.Fatal(err)
		}
		out, _ := s.Run(service.FromClient(40000, byName["single request"]), 2)
		if len(out) != 1 {
			t.Fatalf("%s: %d frames", shell, len(out))
		}
		got, want := bytes.Clone(bed.Payload(out[0].Data)), byName["router id"]
		copy(got[10:14], want[10:14]) // another router
		if !bytes.Equal(got, want) {
			t.Errorf("%s: %x, want %x", shell, got, want)
		}
	}
}
