// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// clientsEnd is the client's address and port; ports are the kernel's choice.
var clientsEnd = regexp.MustCompile(`10\.97\.0\.1:\d+ *`)

// documented compares the excerpt in docs/concepts/crab.md with the one of this run: both headings, and on each link what makes the
// connection. How data is cut into packets is the machine's affair, but between whom they go is not.
func documented(t *testing.T, excerpt string) {
	t.Helper()
	raw, err := os.ReadFile("../../docs/concepts/crab.md")
	must(t, err)
	_, rest, found := strings.Cut(string(raw), "```text\nthe balancer's link:\n")
	block, _, closed := strings.Cut(rest, "```\n")
	if !found || !closed {
		t.Fatal("docs/concepts/crab.md shows no capture of the balancer's link")
	}
	shown, captured := lines("the balancer's link:\n"+block), lines(excerpt)
	const fixed = 7 // two headings, two SYNs, three packets of the handshake
	if len(shown) < fixed || len(captured) < fixed {
		t.Fatalf("docs/concepts/crab.md shows %d lines, the capture has %d", len(shown), len(captured))
	}
	for i, line := range shown[:fixed] {
		if line != captured[i] {
			t.Errorf("docs/concepts/crab.md, line %d of the capture: %q; captured was %q", i+1, line, captured[i])
		}
	}
	between := regexp.MustCompile(`^(10\.97\.0\.11:7777 +> CLIENT |CLIENT > 10\.97\.0\.11:7777 +)(PSH,)?ACK( \d+ bytes)?$`)
	for _, line := range append(shown[fixed:], captured[fixed:]...) {
		if !between.MatchString(line) {
			t.Errorf("%q is no packet of the connection with its server", line)
		}
	}
}

// lines with CLIENT for its address and port.
func lines(s string) []string {
	return strings.Split(strings.TrimSpace(clientsEnd.ReplaceAllString(s, "CLIENT ")), "\n")
}
