// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"bytes"
	"net/netip"
	"testing"
	"time"
)

// C-8, C-40, C-93, C-105: who falls back, from which VIP and why is remembered, of the last ones on each CPU.
func TestFellBackIsRemembered(t *testing.T) { bothFamilies(t, testFellBackIsRemembered) }

func testFellBackIsRemembered(t *testing.T) {
	onOneCPU(t)
	n := openTest(t, Options{}) // what others fell back with is not remembered
	must(t, n.SetVIP(VIP{VIPKey: VIPKey{testVIP, 80}, Roles: RoleClient, Prefixes: []netip.Prefix{within("10.2.0.0/16")}}))
	vip := VIPKey{testVIP, 80}
	remembered := func() map[string]int {
		all, err := n.FellBack()
		must(t, err)
		got := map[string]int{}
		for _, one := range all {
			if one.Client != testClient || one.VIP != vip || one.Ago > time.Minute {
				t.Errorf("%+v", one)
			}
			got[one.Reason]++
		}
		return got
	}
	dial := func(port uint16, options []byte, times int) {
		p := clientSYN(uint32(port))
		p.sport, p.options = port, options
		for range times {
			run(t, n, "crab_client_out", p)
		}
	}
	dial(1, linuxSYN, 2)
	if got := remembered(); len(got) != 0 {
		t.Errorf("SYNs that left with the option fell back: %v", got)
	}
	dial(1, linuxSYN, 1)
	dial(2, bytes.Repeat([]byte{1}, 40), 2)
	dial(3, placeholder, 1)
	dial(4, linuxSYN, 1)
	answer := redirectedSYNACK(5, linuxSYN)
	answer.src, answer.dport, answer.ack = testVIP, 4, 5
	run(t, n, "crab_client_in", answer)
	want := map[string]int{"client_syn_unmarked_retry": 1, "client_syn_no_space": 2, "client_syn_foreign_option": 1, "client_fallback_synack": 1}
	got := remembered()
	for reason, times := range want {
		if got[reason] != times {
			t.Errorf("%s: %d are remembered, want %d (all: %v)", reason, got[reason], times, got)
		}
	}
	counted(t, n, map[string]uint64{"client_syn_unmarked_retry": 1, "client_syn_no_space": 2, "client_syn_foreign_option": 1, "client_fallback_synack": 1})
	dial(3, placeholder, 40)
	if got := remembered(); got["client_syn_foreign_option"] != 16 || len(got) != 1 {
		t.Errorf("after many of one kind: %v", got)
	}
}
