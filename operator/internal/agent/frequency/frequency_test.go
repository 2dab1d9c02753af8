// SPDX-License-Identifier: Apache-2.0

package frequency

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const mhz = 1000

// Z-16: up at once and as often as it takes; down when the rest would carry what is done,
// and not for a while after a step.
func TestLadder(t *testing.T) {
	d := Domain{Floor: 1200 * mhz, Ceiling: 2400 * mhz, Limit: 2400 * mhz}
	var l Ladder
	step := func(busy float64) int64 {
		d.Limit = l.Next(d, busy)
		return d.Limit / mhz
	}
	for i := range holdOff {
		if got := step(0); got != 2400 {
			t.Fatalf("decision %d: %d MHz, it is not to hurry", i, got)
		}
	}
	if got := step(0.574); got != 2300 {
		t.Errorf("%d MHz: with 2,300 it is busy for 59.9 %% of the time", got)
	}
	for range holdOff {
		step(0.574)
	}
	if got := step(0.574); got != 2300 {
		t.Errorf("%d MHz: with 2,200 it would be busy for 60 %% of the time", got)
	}
	if a, b := step(0.81), step(0.81); a != 2400 || b != 2400 {
		t.Errorf("%d, then %d MHz: up at once, and not above the highest", a, b)
	}
	for range 200 {
		step(0)
	}
	if d.Limit != 1200*mhz {
		t.Errorf("an idle domain is at %d kHz, want its floor", d.Limit)
	}
	if a, b := step(1), step(1); a != 1300 || b != 1400 {
		t.Errorf("%d, then %d MHz: several steps up may follow one another", a, b)
	}
	if got := (&Ladder{}).Next(Domain{Floor: 1200, Ceiling: 2400, Limit: 5000}, 0.7); got != 2400 {
		t.Errorf("%d: what somebody set above the highest comes down to it", got)
	}
}

// machine is a false tree with a domain of processors 0 and 1, and one of 2.
type machine struct{ root, stat string }

func aMachine(t *testing.T) machine {
	t.Helper()
	m := machine{root: t.TempDir()}
	m.stat = filepath.Join(m.root, "stat")
	for name, cpus := range map[string]string{"policy0": "0 1", "policy2": "2"} {
		for file, text := range map[string]string{"cpuinfo_min_freq": "800000", "cpuinfo_max_freq": "2400000", "scaling_max_freq": "2200000", "affected_cpus": cpus} {
			m.write(t, filepath.Join(name, file), text)
		}
	}
	m.spent(t, 0, 0, 0)
	return m
}

func (m machine) write(t *testing.T, file, text string) {
	t.Helper()
	full := filepath.Join(m.root, file)
	if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.WriteFile(full, []byte(text+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// spent: so many ticks of the first 100 were busy, by processor; then they all idle.
func (m machine) spent(t *testing.T, busy ...int) {
	t.Helper()
	text := "cpu  0 0 0 0 0 0 0 0 0 0\n"
	for i, b := range busy {
		text += fmt.Sprintf("cpu%d %d 0 0 %d 0 0 0 0 7 7\n", i, b, 100-b)
	}
	m.write(t, "stat", text+"intr 1 2\n")
}

func (m machine) limit(t *testing.T, policy string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(m.root, policy, "scaling_max_freq"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// The busiest processor of a domain counts; what a domain had is put back at the end.
func TestDomainsByThemselves(t *testing.T) {
	m := aMachine(t)
	all, err := open(m.root, 50)
	if err != nil || len(all) != 2 {
		t.Fatalf("%d domains, %v", len(all), err)
	}
	for _, p := range all {
		p.ladder.quiet = holdOff
	}
	before := map[int]times{0: {}, 1: {}, 2: {}}
	m.spent(t, 5, 95, 5)
	now, err := decide(all, m.stat, before)
	if err != nil || m.limit(t, "policy0") != "2300000" || m.limit(t, "policy2") != "2100000" {
		t.Errorf("%s and %s, %v", m.limit(t, "policy0"), m.limit(t, "policy2"), err)
	}
	if _, err := decide(all, m.stat, now); err != nil || m.limit(t, "policy0") != "2300000" {
		t.Errorf("no time has passed, and it decided: %s, %v", m.limit(t, "policy0"), err)
	}
	if err := restore(all); err != nil || m.limit(t, "policy0") != "2200000" || m.limit(t, "policy2") != "2200000" {
		t.Errorf("%s and %s are left, %v", m.limit(t, "policy0"), m.limit(t, "policy2"), err)
	}
}

// From the start to the end, with a clock of its own: idle processors go down to the
// floor, and end where they were.
func TestRun(t *testing.T) {
	m := aMachine(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{Folder: m.root, Stat: m.stat, FloorPercent: 90, Every: time.Millisecond})
	}()
	for n := 1; m.limit(t, "policy2") != "2160000"; n++ { // idle time passes
		text := ""
		for i := range 3 {
			text += fmt.Sprintf("cpu%d 0 0 0 %d 0 0 0 0 0 0\n", i, 100+n)
		}
		m.write(t, "next", text)
		if err := os.Rename(filepath.Join(m.root, "next"), m.stat); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-ended; err != nil || m.limit(t, "policy2") != "2200000" {
		t.Errorf("it ended with %v and left %s", err, m.limit(t, "policy2"))
	}
}

// What is not as the kernel has it is named.
func TestBadTrees(t *testing.T) {
	for name, c := range map[string]struct{ file, text, word string }{
		"a frequency that is none": {"policy0/cpuinfo_max_freq", "fast", "cpuinfo_max_freq"},
		"a processor that is none": {"policy2/affected_cpus", "two", "affected_cpus"},
	} {
		m := aMachine(t)
		m.write(t, c.file, c.text)
		if _, err := open(m.root, 50); err == nil || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := open(t.TempDir(), 50); err == nil || !strings.Contains(err.Error(), "nodes.frequency.enabled") {
		t.Errorf("no domains: %v", err)
	}
	m := aMachine(t)
	m.write(t, "stat", "cpu0 1 2 x 4 5 6 7 8")
	if _, err := readTimes(m.stat); err == nil || !strings.Contains(err.Error(), "cpu0") {
		t.Errorf("a time that is none: %v", err)
	}
}

func TestOptions(t *testing.T) {
	for text, want := range map[string]string{"--floor-percent=9": "--floor-percent", "--floor-percent=101": "--floor-percent", "--every=1ms": "--every", "more": "more"} {
		if _, err := ParseOptions(strings.Fields(text)); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if o, err := ParseOptions(nil); err != nil || o.FloorPercent != 50 || o.Every != time.Second {
		t.Errorf("%+v, %v", o, err)
	}
}

// A share is known when time has passed for a processor whose counters did not go back; the busiest one's counts.
func TestBusiest(t *testing.T) {
	before := map[int]times{0: {all: 1000, busy: 100}, 1: {all: 2000, busy: 200}}
	for _, c := range []struct {
		name  string
		now   map[int]times
		share float64
		known bool
	}{
		{"a quarter and a half", map[int]times{0: {all: 1100, busy: 125}, 1: {all: 2200, busy: 300}}, 0.5, true},
		{"idle", map[int]times{0: {all: 1100, busy: 100}, 1: {all: 2200, busy: 200}}, 0, true},
		{"no time has passed", map[int]times{0: {all: 1000, busy: 100}, 1: {all: 2000, busy: 200}}, 0, false},
		{"busy without time", map[int]times{0: {all: 1000, busy: 101}, 1: {all: 2000, busy: 200}}, 0, false},
		{"one went back", map[int]times{0: {all: 1100, busy: 99}, 1: {all: 2100, busy: 210}}, 0.1, true},
		{"one is gone", map[int]times{1: {all: 2100, busy: 210}}, 0.1, true},
	} {
		if share, known := busiest([]int{0, 1}, before, c.now); share != c.share || known != c.known {
			t.Errorf("%s: %v, %v, want %v, %v", c.name, share, known, c.share, c.known)
		}
	}
}

// Of a processor's times all but guests' add up, of which idle ones and those that wait for a disk are not busy; other
// lines, wherever they stand, say nothing.
func TestReadTimes(t *testing.T) {
	m := aMachine(t)
	m.write(t, "stat", "cpu 1 1 1 1 1 1 1 1\nintr 1 2 3 4 5 6\ncpu3 1 2 4 8 16\ncpu4 1 2 4 8\ncpu7 1 2 4 8 16 32 64 128 256 512")
	got, err := readTimes(m.stat)
	if want := map[int]times{3: {all: 31, busy: 7}, 7: {all: 255, busy: 231}}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	m.write(t, "stat", "cpux 1 2 3 4 5")
	if _, err := readTimes(m.stat); err == nil || !strings.Contains(err.Error(), `"cpux" is no processor`) {
		t.Errorf("a processor that is none: %v", err)
	}
}
