// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect/programs"
)

// waited is the histogram of the one VIP.
func waited(t *testing.T, n *Node) *ll7.Histogram {
	t.Helper()
	all, err := n.Connects()
	if err != nil {
		t.Fatal(err)
	}
	h := all[VIPKey{Addr: testVIP, Port: 80}]
	if h == nil {
		h = &ll7.Histogram{}
	}
	if len(all) > 1 {
		t.Errorf("also of others: %v", all)
	}
	return h
}

// A redirect, and the VIP's own answer, end the wait; each goes into the bucket of
// ll7 that its length has.
func TestConnectsAreMeasured(t *testing.T) { bothFamilies(t, testConnectsAreMeasured) }

func testConnectsAreMeasured(t *testing.T) {
	key := VIPKey{Addr: testVIP, Port: 80}
	for _, wait := range []time.Duration{0, 3 * time.Microsecond, 77 * time.Microsecond, time.Millisecond, 10 * time.Millisecond, time.Second, 100 * time.Second, 300 * time.Second} {
		for _, fallBack := range []bool{false, true} {
			n := clientNode(t)
			run(t, n, "crab_client_out", clientSYN(100))
			pending := n.m(testFamily, "crab_pending")
			var tuple programs.Tuple
			var p programs.Pending
			if it := pending.Iterate(); !it.Next(&tuple, &p) {
				t.Fatal("no SYN waits")
			}
			p.FirstNs -= uint64(wait)
			if err := pending.Put(tuple, p); err != nil {
				t.Fatal(err)
			}
			answer := redirectedSYNACK(101, append(append([]byte{}, redirected...), linuxSYN...))
			if fallBack {
				answer = packet{src: testVIP, dst: testClient, sport: 80, dport: 5000, flags: syn | ack, seq: 9, ack: 101, options: linuxSYN}
			}
			run(t, n, "crab_client_in", answer)
			run(t, n, "crab_client_in", answer) // once more: not a second connection
			h := waited(t, n)
			took := time.Duration(h.SumNanoseconds())
			if h.Total() != 1 || h.Inf() != 0 || took < wait || took > wait+time.Minute || h.Count(ll7.Index(uint64(took))) != 1 {
				t.Errorf("%s, fall-back %v: %d connections, %s in all, bucket %d holds %d", wait, fallBack, h.Total(), took, ll7.Index(uint64(took)), h.Count(ll7.Index(uint64(took))))
			}
			if err := n.DeleteVIP(key); err != nil {
				t.Fatal(err)
			}
			if h := waited(t, n); h.Total() != 0 {
				t.Errorf("%d connections of a VIP that is gone", h.Total())
			}
		}
	}
}

// A forged answer ends nothing; a SYN that expires was never answered.
func TestConnectsThatNeverWere(t *testing.T) { bothFamilies(t, testConnectsThatNeverWere) }

func testConnectsThatNeverWere(t *testing.T) {
	n := clientNode(t)
	run(t, n, "crab_client_out", clientSYN(100))
	run(t, n, "crab_client_in", redirectedSYNACK(200, append(append([]byte{}, redirected...), linuxSYN...)))
	if h := waited(t, n); h.Total() != 0 {
		t.Errorf("%d connections by a forged answer", h.Total())
	}
	time.Sleep(2 * time.Millisecond)
	if _, err := n.Expire(Lives{Pending: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	if h := waited(t, n); h.Total() != 1 || h.Inf() != 1 {
		t.Errorf("%d connections, %d never answered: want 1 and 1", h.Total(), h.Inf())
	}
}

// What cannot be counted harms nothing else: not the agent, which would end by an error, nor who is VIP next.
func TestConnectsWithoutRoom(t *testing.T) {
	n := clientNode(t)
	full := n.m(four, "crab_connects")
	key := programs.ConnectKey{VIPKey: VIPKey{at("192.0.2.99"), 1}.wire()}
	fill := func(do func(programs.ConnectKey) error) {
		for i := range full.MaxEntries() {
			key.Port, key.Bucket = uint16(i/3000)+1, uint16(i%3000)
			if err := do(key); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill(func(k programs.ConnectKey) error { return full.Put(k, uint64(1)) })
	defer fill(func(k programs.ConnectKey) error { return full.Delete(k) })
	run(t, n, "crab_client_out", clientSYN(100))
	time.Sleep(2 * time.Millisecond)
	if e, err := n.Expire(Lives{Pending: time.Millisecond}); err != nil || e.Pending != 1 {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestConnectsOfAVIPThatIsGone(t *testing.T) { bothFamilies(t, testConnectsOfAVIPThatIsGone) }

func testConnectsOfAVIPThatIsGone(t *testing.T) {
	n := clientNode(t)
	run(t, n, "crab_client_out", clientSYN(100))
	if err := n.DeleteVIP(VIPKey{testVIP, 80}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Millisecond)
	if _, err := n.Expire(Lives{Pending: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	if h := waited(t, n); h.Total() != 0 {
		t.Errorf("%d connections of a VIP that is gone", h.Total())
	}
}

// bucketsOf is how many buckets the map holds of these ports of the VIP.
func bucketsOf(t *testing.T, n *Node, ports ...uint16) (found int) {
	t.Helper()
	var key programs.ConnectKey
	var count uint64
	it := n.m(testFamily, "crab_connects").Iterate()
	for it.Next(&key, &count) {
		if key.Addr == testVIP && slices.Contains(ports, key.Port) {
			found++
		}
	}
	if err := it.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}

// What was counted of VIPs that are gone is swept out once for all of them: a cluster
// may lose a thousand at once, and the map has 65,536 places.
func TestConnectsAreSweptOnce(t *testing.T) { bothFamilies(t, testConnectsAreSweptOnce) }

func testConnectsAreSweptOnce(t *testing.T) {
	n := clientNode(t) // port 80, which stays
	m := n.m(testFamily, "crab_connects")
	vip := func(port uint16) VIP {
		return VIP{VIPKey: VIPKey{testVIP, port}, Roles: RoleClient, Prefixes: []netip.Prefix{within("10.2.0.0/16")}}
	}
	all := []uint16{80, 81, 82, 83}
	for _, port := range all {
		if err := n.SetVIP(vip(port)); err != nil {
			t.Fatal(err)
		}
		for _, bucket := range []uint16{7, 8, programs.ConnectSum} {
			if err := m.Put(programs.ConnectKey{VIPKey: VIPKey{testVIP, port}.wire(), Bucket: bucket}, uint64(1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, port := range all[1:] {
		if err := n.DeleteVIP(VIPKey{testVIP, port}); err != nil {
			t.Fatal(err)
		}
	}
	if got := bucketsOf(t, n, all...); got != 12 {
		t.Errorf("%d buckets are left: the map was read for each VIP that went", got)
	}
	if h := waited(t, n); h.Total() != 2 { // and it is the one VIP that is told of
		t.Errorf("%d connections to the VIP that stays", h.Total())
	}
	if err := n.SetVIP(vip(81)); err != nil { // another Service gets it
		t.Fatal(err)
	}
	if got, stay := bucketsOf(t, n, 81, 82, 83), bucketsOf(t, n, 80); got != 0 || stay != 3 {
		t.Errorf("%d buckets of VIPs that were gone, %d of the one that stayed", got, stay)
	}
	if err := m.Put(programs.ConnectKey{VIPKey: VIPKey{testVIP, 83}.wire(), Bucket: 7}, uint64(1)); err != nil {
		t.Fatal(err)
	}
	expire := func() int {
		if _, err := n.Expire(Lives{}); err != nil {
			t.Fatal(err)
		}
		return bucketsOf(t, n, 83)
	}
	if expire() != 1 {
		t.Error("the map is read although nothing went")
	}
	clear(n.swept) // what a process that ended left behind
	if expire() != 0 || bucketsOf(t, n, 80) != 3 {
		t.Error("a new process does not sweep, or sweeps too much")
	}
}

// The state's age is its own: another process finds the same, and made anew it is another.
func TestSince(t *testing.T) {
	before := time.Now().Add(-time.Second)
	n := openTest(t, Options{})
	first, err := n.Since()
	if err != nil || first.Before(before) || first.After(time.Now().Add(time.Second)) {
		t.Fatalf("%s, %v", first, err)
	}
	time.Sleep(20 * time.Millisecond)
	for name, remove := range map[string]bool{"another process": false, "made anew": true} {
		n.Close()
		if remove {
			if err := Remove(n.root); err != nil {
				t.Fatal(err)
			}
		}
		if n, err = Open(Options{Root: n.root, Sizes: testSizes}); err != nil {
			t.Fatal(err)
		}
		if again, err := n.Since(); err != nil || again.Equal(first) == remove {
			t.Errorf("%s: since %s, was %s, %v", name, again, first, err)
		}
		first, _ = n.Since()
		time.Sleep(20 * time.Millisecond)
	}
	n.Close()
}
