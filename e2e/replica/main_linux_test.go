// SPDX-License-Identifier: Apache-2.0

//go:build replica && !bench

package replica

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/e2e/faults/bed"
	"github.com/bobtail-dev/bobtail/e2e/harness"
)

func TestMain(m *testing.M) {
	code := m.Run()
	root, _ := filepath.Abs("../..")
	var out harness.Measurements
	out.Set("histories_checked", tally.histories)
	out.Set("histories_not_linearizable", tally.bad)
	out.Set("acked_writes_lost", tally.lost)
	out.Set("executed_wrongly", tally.executed)
	out.Set("operations", tally.operations)
	out.Set("operations_unsure", tally.unsure)
	out.Set("failover_kills", len(tally.failovers))
	if len(tally.failovers) > 0 {
		slices.Sort(tally.failovers)
		out.SetFinite("failover_real_ms_p50", quantile(0.5))
		out.SetFinite("failover_real_ms_p99", quantile(0.99))
	}
	if tally.soaked > 0 {
		out.Set("soak_minutes", int(tally.soaked.Minutes()))
	}
	out.Set("leftovers", len(bed.Leftovers())+len(mounts()))
	if target := os.Getenv("REPLICA_TARGET"); target != "" {
		if err := out.Write(root, target); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func quantile(q float64) float64 {
	return tally.failovers[min(len(tally.failovers)-1, int(q*float64(len(tally.failovers))))]
}

// mounts of ours that are still there.
func mounts() (left []string) {
	raw, _ := os.ReadFile("/proc/self/mounts")
	for _, line := range strings.Split(string(raw), "\n") {
		if strings.Contains(line, "bobtail-replica-disk") {
			left = append(left, line)
		}
	}
	return left
}
