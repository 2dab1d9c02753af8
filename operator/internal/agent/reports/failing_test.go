// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/loads"
)

// A count that fails is told once until one succeeds again, and every round without it counts.
func TestFailedCountsAreToldOnce(t *testing.T) {
	var log bytes.Buffer
	was := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() { slog.SetDefault(was) })
	b := newBench()
	b.Set([]loads.Served{{Pool: pool(port), Balancers: []string{"c"}}}, nil)
	wrong := errors.New("no such map")
	for i, c := range []struct {
		trouble error
		failed  uint64
		told    int
	}{{nil, 0, 0}, {wrong, 1, 1}, {wrong, 2, 1}, {nil, 2, 1}, {wrong, 3, 2}, {wrong, 4, 2}} {
		b.trouble = c.trouble
		b.round()
		if got, told := b.Counters().CountFailed, strings.Count(log.String(), "no such map"); got != c.failed || told != c.told {
			t.Errorf("round %d: %d failed, told %d times; want %d, %d", i, got, told, c.failed, c.told)
		}
	}
}

// Who owned a VIP is forgotten with its last server here, and kept while one is.
func TestOwnersGoWithTheirVIP(t *testing.T) {
	b := newBench()
	other := netip.MustParseAddrPort("192.0.2.9:80")
	b.Set([]loads.Served{{Pool: pool(vip)}, {Pool: pool(other)}}, nil)
	b.owner = "b"
	b.round()
	b.owner, b.now = "", time.Millisecond
	b.Set([]loads.Served{{Pool: pool(vip)}}, nil)
	if got := b.ownersOf(vip.Addr()); len(got) != 1 || got[0] != "b" {
		t.Errorf("of the VIP that stays: %v", got)
	}
	if got := b.ownersOf(other.Addr()); len(got) != 0 {
		t.Errorf("of the one that went: %v", got)
	}
	// Whoever owned it is told as long as it may still balance, to the last moment.
	b.now = loads.Linger
	if got := b.ownersOf(vip.Addr()); len(got) != 1 {
		t.Errorf("after %v: %v", b.now, got)
	}
	b.now++
	if got := b.ownersOf(vip.Addr()); len(got) != 0 {
		t.Errorf("after %v: %v", b.now, got)
	}
}
