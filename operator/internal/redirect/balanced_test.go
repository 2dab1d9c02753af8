// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"bytes"
	"net/netip"
	"testing"
	"time"
)

// forgetBalanced is the bits of a node that has never balanced anything.
func (n *Node) forgetBalanced(t *testing.T) {
	t.Helper()
	must(t, n.sweepBalanced(nil))
	if n.bits != (bits{}) {
		t.Fatal("a node that balances nothing has bits")
	}
}

func clientData(port uint16) packet {
	return packet{src: testClient, dst: testVIP, sport: port, dport: 80, flags: ack, seq: 101, ack: 501, data: []byte("ask")}
}

// touched tells whether a program did anything with a packet.
func touched(t *testing.T, n *Node, program string, p packet) bool {
	t.Helper()
	frame := p.bytes()
	verdict, out := runBytes(t, n, program, frame)
	return verdict != next || !bytes.Equal(frame, out)
}

// C-24: what is sent to nobody that this node balances passes before it is parsed; with the role of a VIP its packets are
// balanced at once, those of other addresses not.
func TestOthersPassAtAGlance(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		n := sharedNode(t)
		n.forgetBalanced(t)
		fragment := clientData(1) // is counted by who parses it
		fragment.fragment = 0x2000
		for _, program := range []string{"crab_balance_in", "crab_balance_out"} {
			runBytes(t, n, program, fragment.bytes())
			counted(t, n, map[string]uint64{"fragment": 0})
		}
		balancing(t, n, 1, nil)
		for _, program := range []string{"crab_balance_in", "crab_balance_out"} {
			if !touched(t, n, program, clientData(1)) {
				t.Errorf("%s: a packet to a VIP with the role is let pass", program)
			}
		}
		runBytes(t, n, "crab_balance_in", fragment.bytes())
		counted(t, n, map[string]uint64{"fragment": 1})
		elsewhere := fragment
		for elsewhere.dst = at("192.0.2.2"); balancedBit(elsewhere.dst) == balancedBit(testVIP); {
			elsewhere.dst = elsewhere.dst.Next()
		}
		runBytes(t, n, "crab_balance_in", elsewhere.bytes())
		counted(t, n, map[string]uint64{"fragment": 1})
	})
}

// C-26, C-40: while the role is handed over the bit stays: as long as the VIP is balanced here its hashed connections are served, and
// after that what is relayed.
func TestRoleIsLostAfterItsConnections(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		n := plainNode(t)
		c := begin(t, n, 5000, linuxSYN).established(t, n)
		must(t, n.SetVIP(VIP{VIPKey: VIPKey{testVIP, 80}, Roles: RoleClient, Prefixes: []netip.Prefix{within("10.2.0.0/16")}}))
		for range 2 {
			_, err := n.Expire(Lives{})
			must(t, err)
			if got, _, dport := relayed(t, n, c.back(ack, 501, 104, "tell")); got.dst != testClient || dport != 5000 {
				t.Fatalf("what a relayed server sends goes to %s:%d", got.dst, dport)
			}
		}
		for range 2 { // the sweep after the one that takes it away
			if left := n.relays(t, Lives{Idle: time.Nanosecond}); left != 0 {
				t.Fatalf("%d relays left", left)
			}
		}
		if n.bits != (bits{}) {
			t.Error("the last relay is gone, and the address is looked at still")
		}
		balancing(t, n, 2, nil)
		must(t, n.DeleteVIP(VIPKey{testVIP, 80}))
		balancing(t, n, 2, nil) // before any sweep
		_, err := n.Expire(Lives{})
		must(t, err)
		if !touched(t, n, "crab_balance_in", clientData(2)) {
			t.Error("the role came back, and packets are let pass")
		}
	})
}

// C-72: a process finds what a former version balanced and relayed, which wrote no bits.
func TestBitsOfAFormerVersion(t *testing.T) {
	n := openTest(t, Options{})
	other := netip.MustParseAddr("192.0.2.7")
	must(t, n.SetVIP(VIP{VIPKey: VIPKey{testVIP, 80}, Roles: RoleBalance, Backends: []Backend{{Addr: servers(1)[0].Addr, State: UpPlain}}}))
	begin(t, n, 5000, linuxSYN)
	must(t, n.DeleteVIP(VIPKey{testVIP, 80}))
	must(t, n.SetVIP(VIP{VIPKey: VIPKey{other, 80}, Roles: RoleBalance, Backends: servers(1)}))
	must(t, n.maps["crab_balanced"].Put(uint32(0), bits{}))
	n = another(t, n)
	var want, got bits
	want.set(testVIP)
	want.set(other)
	must(t, n.maps["crab_balanced"].Lookup(uint32(0), &got))
	if got != want {
		t.Errorf("bits %x, want %x", got, want)
	}
}
