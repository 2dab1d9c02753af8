// SPDX-License-Identifier: Apache-2.0

package announce

import (
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
)

// A group is joined on the device that is meant until it is left; one that is none is refused.
func TestGroupIsJoinedUntilItIsLeft(t *testing.T) {
	loopback, err := net.InterfaceByName("lo")
	if err != nil {
		t.Skip("this machine has no loopback device by that name")
	}
	member := func() bool {
		t.Helper()
		groups, err := os.ReadFile("/proc/net/igmp6")
		if err != nil {
			t.Skip("this machine has no IPv6")
		}
		for _, line := range strings.Split(string(groups), "\n") {
			f := strings.Fields(line)
			if len(f) > 2 && f[1] == "lo" && f[2] == "ff0200000000000000000001ffabcdef" {
				return true
			}
		}
		return false
	}
	group := netip.MustParseAddr("ff02::1:ffab:cdef")
	if member() {
		t.Skip("somebody is in the group that this test joins")
	}
	leave, err := joinGroup(loopback.Index, group)
	if err != nil || leave == nil || !member() {
		t.Fatalf("error %v, member %v", err, member())
	}
	if leave(); member() {
		t.Error("the group is not left")
	}
	if leave, err := joinGroup(loopback.Index, netip.MustParseAddr("fd00::1")); err == nil {
		leave()
		t.Error("an address that is no group was joined")
	}
}
