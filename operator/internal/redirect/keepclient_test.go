// SPDX-License-Identifier: Apache-2.0

package redirect

import "testing"

// K-11: a VIP that keeps its clients' addresses relays nobody but a client to itself; redirects and hashed connections,
// which keep them, go on.
func TestNothingIsRelayedWhereClientsAreKept(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		keep := func(state State, more Role) *Node {
			return balancerNode(t, 1, func(v *VIP) { v.Roles |= RoleKeepClient | more; v.Backends[0].State = state })
		}
		for what, n := range map[string]func() *Node{
			"to a server without agent": func() *Node { return keep(UpPlain, 0) },
			"where the network checks":  func() *Node { return keep(UpCRAB, RoleTunnel) },
		} {
			node := n()
			if verdict, _ := run(t, node, "crab_balance_in", lbSYN(7100, linuxSYN)); verdict != shot {
				t.Errorf("%s: verdict %d", what, int32(verdict))
			}
			counted(t, node, map[string]uint64{"lb_relay_refused": 1, "lb_relay_created": 0})
		}
		n := keep(UpCRAB, 0)
		run(t, n, "crab_balance_in", lbSYN(7101, linuxSYN))
		if to := chosen(t, n, lbSYN(7102, marked())); to != servers(1)[0].Addr {
			t.Errorf("a redirect goes to %s", to)
		}
		counted(t, n, map[string]uint64{"lb_relay_refused": 0})
		n = balancerNode(t, 1, func(v *VIP) { v.Roles |= RoleKeepClient; v.Backends[0].Addr = testClient })
		relayed(t, n, lbSYN(7103, linuxSYN))
		counted(t, n, map[string]uint64{"lb_relay_refused": 0, "lb_relay_created": 1})
	})
}
