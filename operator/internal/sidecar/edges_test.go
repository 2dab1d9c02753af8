// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
)

// A clock that a test sets.
func callersAt(now *time.Time) *callers {
	c := newCallers()
	c.now = func() time.Time { return *now }
	return c
}

// So many connections of one address and of all stay, and one more does not; each that ends makes room for one.
func TestConnectionsToTheLast(t *testing.T) {
	now := time.Unix(1000, 0)
	c := callersAt(&now)
	for i := range connectionsEach + 1 {
		if got := c.connect("a"); got != (i < connectionsEach) {
			t.Errorf("connection %d of one address: %v", i+1, got)
		}
	}
	c.disconnect("a")
	if !c.connect("a") || c.connect("a") {
		t.Error("one that ended makes no room for one")
	}
	for i := connectionsEach; i < connectionsAll; i++ {
		if !c.connect(fmt.Sprint(i)) {
			t.Fatalf("connection %d of all is refused", i+1)
		}
	}
	if c.connect("b") {
		t.Error("one more than all is taken")
	}
	c.disconnect("a")
	if !c.connect("b") || c.connect("c") {
		t.Error("one that ended makes no room for one of another address")
	}
}

// A burst is admitted, then as many as time has given, and never more than a burst.
func TestRequestsToTheLast(t *testing.T) {
	now := time.Unix(1000, 0)
	c := callersAt(&now)
	admitted := func() (n int) {
		for c.admit("a") {
			n++
		}
		return n
	}
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{0, burstEach}, {0, 0}, {time.Second, requestsEach}, {time.Second / requestsEach / 2, 0}, {time.Second / requestsEach / 2, 1}, {time.Hour, burstEach}} {
		now = now.Add(step.after)
		if got := admitted(); got != step.want {
			t.Errorf("after %v: %d, want %d", step.after, got, step.want)
		}
	}
	if !c.admit("b") {
		t.Error("another address waits for this one")
	}
}

// A full book forgets addresses that are quiet and have no connection, and nobody else.
func TestForgottenAddresses(t *testing.T) {
	const quiet = burstEach / requestsEach * time.Second
	for _, row := range []struct {
		name      string
		after     time.Duration
		connected bool
		known     int
	}{
		{"not quiet for long enough", quiet, false, addressesMost}, {"quiet", quiet + 1, false, 1}, {"connected", quiet + 1, true, 2},
	} {
		now := time.Unix(1000, 0)
		c := callersAt(&now)
		for i := range addressesMost {
			c.admit(fmt.Sprint(i))
		}
		if row.connected && !c.connect("7") {
			t.Fatal("not connected")
		}
		now = now.Add(row.after)
		if c.admit("new"); len(c.by) != row.known {
			t.Errorf("%s: %d are known, want %d", row.name, len(c.by), row.known)
		}
		if row.connected && c.by["7"] == nil {
			t.Errorf("%s: forgotten", row.name)
		}
	}
	for address, want := range map[string]string{"10.0.0.1:80": "10.0.0.1", "[fd00::1]:80": "fd00::1", "unix": "unix"} {
		if got := host(address); got != want {
			t.Errorf("%s: %s", address, got)
		}
	}
}

// All three go together or none, and the device's file only with them.
func TestNetworkOptionsGoTogether(t *testing.T) {
	for _, c := range []struct {
		o    NetworkOptions
		want bool
	}{
		{NetworkOptions{}, true}, {NetworkOptions{Network: "n", StatusFile: "s", AddressFile: "a"}, true}, {NetworkOptions{Network: "n", StatusFile: "s", AddressFile: "a", PCIFile: "p"}, true},
		{NetworkOptions{Network: "n"}, false}, {NetworkOptions{StatusFile: "s"}, false}, {NetworkOptions{AddressFile: "a"}, false}, {NetworkOptions{Network: "n", AddressFile: "a"}, false},
		{NetworkOptions{Network: "n", StatusFile: "s", PCIFile: "p"}, false}, {NetworkOptions{PCIFile: "p"}, false}, {NetworkOptions{PCIOptional: true}, true},
	} {
		if err := c.o.check(); (err == nil) != c.want {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
}

// An address that was placed is kept; what is none is not, and a file is written whole.
func TestPlacedAddresses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "address")
	if kept(file) {
		t.Error("nothing is kept")
	}
	for line, want := range map[string]bool{"10.0.0.1": true, "fd00::1": true, "": false, "x": false} {
		if err := place(file, line); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(file); err != nil || string(text) != line+"\n" || kept(file) != want {
			t.Errorf("%q: %q, kept %v, %v", line, text, kept(file), err)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
	if err := place(filepath.Join(file, "no", "such"), "x"); err == nil {
		t.Error("no folder, and no error")
	}
}

// Names and values as Prometheus reads them.
func TestNamesAndValues(t *testing.T) {
	for name, want := range map[string]string{"": "_", "azAZ_09": "azAZ_09", "0a": "_a", "9": "_", "a9": "a9", "a-b.c d": "a_b_c_d", "ä": "_", "`{@[/:": "______"} {
		if got := metricName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	for _, c := range []struct {
		v    float64
		want string
	}{
		{0, "0"}, {1, "1"}, {-3, "-3"}, {0.5, "0.5"}, {1e15, "1000000000000000"}, {1<<53 - 1, "9007199254740991"}, {1 << 53, "9.007199254740992e+15"},
		{-(1 << 53), "-9.007199254740992e+15"}, {1e300, "1e+300"}, {math.Inf(1), "+Inf"}, {math.Inf(-1), "-Inf"}, {math.NaN(), "NaN"},
	} {
		if got := formatValue(c.v); got != c.want {
			t.Errorf("%v: %s, want %s", c.v, got, c.want)
		}
	}
	if got := formatLabels(map[string]string{"b": "x\"\\\n", "a": ""}); got != `{a="",b="x\"\\\n"}` {
		t.Error(got)
	}
	if got := formatLabels(nil); got != "" {
		t.Error(got)
	}
	if bit(true) != 1 || bit(false) != 0 {
		t.Error("bits")
	}
}

// A slice ends when it is as long as one, and a window reaches back to the slice that it begins in.
func TestHistoryByTheSlice(t *testing.T) {
	one := &ll7.Histogram{}
	one.Record(1000)
	start := time.Unix(100_000, 0)
	h := &history{}
	if got := h.read(start); !got.Started.IsZero() || got.Windows != nil {
		t.Errorf("before anything was measured: %+v", got)
	}
	h.add(start, one, 3, 1)
	h.add(start.Add(sliceLength-1), one, 3, 1)
	if len(h.slices) != 0 {
		t.Errorf("%d slices before one is over", len(h.slices))
	}
	h.add(start.Add(sliceLength), one, 3, 1)
	if len(h.slices) != 1 || h.slices[0].requests != 6 || h.slices[0].rejected != 2 || h.current.requests != 3 {
		t.Errorf("%+v", h)
	}
	// From the very end of the first slice on it is not asked for; a moment before, all of it is.
	for from, want := range map[time.Time]uint64{start.Add(sliceLength): 3, start.Add(sliceLength - 1): 9} {
		if sum, _ := h.over(from); sum.requests != want || sum.rejected != want/3 || sum.latency.Total() != want/3 {
			t.Errorf("from %v: %+v", from.Sub(start), sum)
		}
	}
}

// Each window says how far it reaches, and no more than a day of slices is kept.
func TestHistoryOfADay(t *testing.T) {
	one := &ll7.Histogram{}
	one.Record(1000)
	start := time.Unix(100_000, 0)
	h := &history{}
	h.add(start, one, 6, 2)
	h.add(start.Add(sliceLength), one, 3, 1)
	got := h.read(start.Add(sliceLength + 10*time.Second))
	if got.All.CoveredSeconds != int(sliceLength/time.Second)+10 || got.All.Requests != 9 || got.All.Rejected != 3 || len(got.Windows) != 2 ||
		got.Windows[0].WindowSeconds != 3600 || got.Windows[0].CoveredSeconds != got.All.CoveredSeconds || got.Windows[1].WindowSeconds != 86400 {
		t.Errorf("%+v", got)
	}
	for i := range sliceCount + 5 {
		h.add(start.Add(time.Duration(i+2)*sliceLength), one, 1, 0)
	}
	if len(h.slices) != sliceCount || h.all.requests != uint64(9+sliceCount+5) {
		t.Errorf("%d slices, %d requests", len(h.slices), h.all.requests)
	}
}
