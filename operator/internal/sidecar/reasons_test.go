// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sidecar

import (
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

// Each of the router's reasons to drop a request is a metric, whatever reasons there
// are, and one request that a real router answers by DROP counts under one of them.
func TestEveryReasonToDropIsAMetric(t *testing.T) {
	request, feedback, dir := freePort(t), freePort(t), t.TempDir()
	background(t, "bobtail-router", "--address=127.0.0.1", fmt.Sprintf("--request-port=%d", request), fmt.Sprintf("--feedback-port=%d", feedback),
		"--ctl="+filepath.Join(dir, "router"))
	r := startAt(t, filepath.Join(dir, "router"))
	r.api.set(configured(t, request, feedback, freePort(t)))
	const reasons = `bobtail_router_dropped_total\{[^}]*\breason="([a-z_]+)"[^}]*\} (\d+)`
	counts := func() (map[string]string, string) {
		out, text := map[string]string{}, r.scrape(t)
		for _, m := range regexp.MustCompile(reasons).FindAllStringSubmatch(text, -1) {
			out[m[1]] = m[2]
		}
		return out, text
	}
	eventually(t, "configured", func() bool { return strings.Contains(r.scrape(t), "bobtail_config_info{") })

	// Replication is not a router's: this one is answered by DROP whoever the workers are.
	h := wire.Header{Type: wire.Request, Policy: wire.ReplicatedWrite, First: true, Last: true, ReqID: 7, Count: 1, Ext: true}
	packet, ok := h.Append(nil)
	if !ok {
		t.Fatal("a header without options must fit")
	}
	conn, err := net.Dial("udp", fmt.Sprintf("127.0.0.1:%d", request))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write(packet); err != nil {
		t.Fatal(err)
	}
	var counted []string
	var all map[string]string
	var text string
	eventually(t, "the DROP is counted", func() bool {
		counted = nil
		all, text = counts()
		for reason, n := range all {
			if n != "0" {
				counted = append(counted, reason+" "+n)
			}
		}
		return len(counted) > 0
	})
	if len(counted) != 1 || !strings.HasSuffix(counted[0], " 1") || len(all) < 8 {
		t.Errorf("one request was dropped, and counted as %v of %d reasons", counted, len(all))
	}
	came := regexp.MustCompile(`(?m)^bobtail_router_requests_total\{[^}]*\} 1$`)
	forwarded := regexp.MustCompile(`(?m)^bobtail_router_forwarded_total\{[^}]*\} 0$`)
	if !came.MatchString(text) || !forwarded.MatchString(text) {
		t.Errorf("a dropped request is one that came and was not forwarded:\n%s", text)
	}
	t.Logf("dropped by reason: %s", counted[0])
}
