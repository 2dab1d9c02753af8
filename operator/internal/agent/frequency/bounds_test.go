// SPDX-License-Identifier: Apache-2.0

package frequency

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// What the options may be at least and at most, they may be.
func TestOptionsAtTheirBounds(t *testing.T) {
	for _, text := range []string{"--floor-percent=10", "--floor-percent=100", "--every=100ms"} {
		if _, err := ParseOptions([]string{text}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := ParseOptions([]string{"--every=99999999ns"}); err == nil {
		t.Error("it may decide more often than it may")
	}
}

// A domain that is exactly as busy as it may be stays as it is, in both directions.
func TestLadderAtItsBounds(t *testing.T) {
	d := Domain{Floor: 100 * mhz, Ceiling: 2400 * mhz, Limit: 200 * mhz}
	for busy, want := range map[float64]int64{raise: 200, raise + 0.001: 300, 0.3: 200, 0.299: 100} { // at 100 MHz 0.3 is 0.6
		l := Ladder{quiet: holdOff}
		if got := l.Next(d, busy); got != want*mhz {
			t.Errorf("busy for %v: %d kHz, want %d MHz", busy, got, want)
		}
	}
}

// One domain of which nothing is known keeps what it has, and those behind it do not; what was set is said, and nothing
// else.
func TestAnUnknownDomainBeforeAKnownOne(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	m := aMachine(t)
	all, err := open(m.root, 50)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		p.ladder.quiet = holdOff
	}
	m.spent(t, 100, 100, 5)
	now, err := readTimes(m.stat)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decide(all, m.stat, map[int]times{0: now[0], 1: now[1], 2: {}}); err != nil || m.limit(t, "policy0") != "2200000" || m.limit(t, "policy2") != "2100000" {
		t.Errorf("%s and %s, %v", m.limit(t, "policy0"), m.limit(t, "policy2"), err)
	}
	if n := strings.Count(log.String(), "kHz="); n != 1 || !strings.Contains(log.String(), "kHz=2100000") {
		t.Errorf("%d settings are told: %s", n, log.String())
	}
	log.Reset()
	if _, err := decide(all, m.stat, map[int]times{2: {}}); err != nil || log.Len() > 0 && strings.Contains(log.String(), "policy2") {
		t.Errorf("nothing was set behind a step, and it is told: %v, %s", err, log.String())
	}
}
