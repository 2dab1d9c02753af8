// SPDX-License-Identifier: Apache-2.0

package alerts

import (
	"strings"
	"testing"
	"time"
)

// fresh is what Prometheus reads in the first half hour after `helm install`, with
// CRAB: two operators, one of which leads and has nothing to do, and an agent on
// each of two nodes. No RpcService, no objective, no Service of CRAB's class.
func fresh() string {
	var b strings.Builder
	for _, pod := range []string{"a", "b"} {
		of := `{component="operator", namespace="bobtail-system", pod="` + pod + `", version="1.2.3"}`
		b.WriteString("bobtail_build_info" + of + " 1x30\n")
		b.WriteString(`bobtail_operator_sidecar_reads_total{namespace="bobtail-system", operation="state", pod="` + pod + `", result="Answered"} 0x30` + "\n")
		for _, family := range []string{"IPv4", "IPv6"} {
			pool := `{family="` + family + `", pod="` + pod + `"}`
			b.WriteString("bobtail_crab_pool_size" + pool + " 14x30\nbobtail_crab_pool_free" + pool + " 14x30\nbobtail_crab_pool_exhausted" + pool + " 0x30\n")
			agent := `{family="` + family + `", pod="agent-` + pod + `"}`
			b.WriteString("bobtail_crab_unowned_vips" + agent + " 0x30\nbobtail_crab_owned_vips" + agent + " 0x30\n")
		}
	}
	return b.String()
}

// K-23: nothing fires, nor begins to wait for its time, where all is well and nobody
// uses it yet.
func TestNoAlertOnAFreshInstallation(t *testing.T) {
	for name, load := range map[string]string{
		"with CRAB": fresh(), "without": without(fresh(), "bobtail_crab"), "a leader that has read nothing": without(fresh(), "sidecar_reads"),
	} {
		for alert, r := range rules(t) {
			for minute := 1; minute <= 30; minute++ {
				if got := fires(t, load, r.Expr, time.Duration(minute)*time.Minute); len(got) > 0 {
					t.Errorf("%s: %s after %d minutes: %v", name, alert, minute, got)
					break
				}
			}
		}
	}
}

// K-23: the standby alone is no absence either, and where no operator is scraped the
// alert still fires, whatever the dataplane shows of itself.
func TestOperatorAbsentOnlyWithoutOperators(t *testing.T) {
	expr := rules(t)["BobtailOperatorAbsent"].Expr
	standby := without(without(fresh(), `pod="a"`), "sidecar_reads")
	if got := fires(t, standby, expr, 15*time.Minute); len(got) > 0 {
		t.Errorf("one operator is there, and it fires: %v", got)
	}
	sidecars := `bobtail_build_info{component="sidecar", namespace="demo", service="echo", version="1.2.3"} 1x30` + "\n"
	for _, load := range []string{sidecars, without(fresh(), "bobtail_build_info") + sidecars} {
		if got := fires(t, load, expr, 15*time.Minute); len(got) != 1 {
			t.Errorf("no operator is there, and it does not fire: %v", got)
		}
	}
}

// without drops the series whose line holds a text.
func without(load, text string) string {
	var b strings.Builder
	for line := range strings.Lines(load) {
		if !strings.Contains(line, text) {
			b.WriteString(line)
		}
	}
	return b.String()
}
