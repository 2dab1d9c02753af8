// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"bytes"
	"net/netip"
	"testing"
	"time"
)

func serverNode(t *testing.T) *Node {
	n := sharedNode(t)
	if err := n.AllowEcho([]netip.Addr{testVIP}); err != nil {
		t.Fatal(err)
	}
	return n
}

func serverSYN(options []byte) packet {
	return packet{src: testClient, dst: testDIP, sport: 5000, dport: 80, flags: syn, seq: 100, options: options}
}

func serverSYNACK(options []byte) packet {
	return packet{src: testDIP, dst: testClient, sport: 80, dport: 5000, flags: syn | ack, seq: 9, ack: 101, options: options}
}

// C-30, C-31, C-32, C-73: each SYN-ACK of a SYN with redirect has the echo, until the client's ACK.
func TestEcho(t *testing.T) { bothFamilies(t, testEcho) }

func testEcho(t *testing.T) {
	n := serverNode(t)
	if _, got := run(t, n, "crab_server_out", serverSYNACK(linuxSYN)); !bytes.Equal(got.options, linuxSYN) {
		t.Errorf("C-31: without redirect the SYN-ACK has %x", got.options)
	}
	run(t, n, "crab_server_in", serverSYN(append(append([]byte{}, redirected...), linuxSYN...)))
	for i := range 3 {
		verdict, got := run(t, n, "crab_server_out", serverSYNACK(linuxSYN))
		if verdict != next || !bytes.Equal(got.options, append(append([]byte{}, redirected...), linuxSYN...)) || !got.sums || !got.lengths || got.src != testDIP {
			t.Fatalf("SYN-ACK %d: verdict %d, options %x, sums %v, from %s", i, int32(verdict), got.options, got.sums, got.src)
		}
	}
	if _, got := run(t, n, "crab_server_out", serverSYNACK(append(append([]byte{}, redirected...), linuxSYN...))); bytes.Count(got.options, redirected) != 1 {
		t.Errorf("written twice: %x", got.options)
	}
	run(t, n, "crab_server_in", packet{src: testClient, dst: testDIP, sport: 5000, dport: 80, flags: ack, seq: 101})
	if _, got := run(t, n, "crab_server_out", serverSYNACK(linuxSYN)); bytes.Contains(got.options, redirected) {
		t.Errorf("after the client's ACK: %x", got.options)
	}
	counted(t, n, map[string]uint64{"server_syn_seen": 1, "server_echo": 3, "server_rule_done": 1})
}

// C-31: a later SYN of the same 4-tuple without redirect gets no echo of the former one.
func TestEchoIsForgottenByPlainSYN(t *testing.T) { bothFamilies(t, testEchoIsForgottenByPlainSYN) }

func testEchoIsForgottenByPlainSYN(t *testing.T) {
	n := serverNode(t)
	run(t, n, "crab_server_in", serverSYN(redirected))
	run(t, n, "crab_server_in", serverSYN(linuxSYN))
	if _, got := run(t, n, "crab_server_out", serverSYNACK(linuxSYN)); bytes.Contains(got.options, redirected) {
		t.Errorf("options %x", got.options)
	}
}

// C-34, C-94: only allowed addresses; C-3: a placeholder is none.
func TestEchoOnlyWhatIsAllowed(t *testing.T) { bothFamilies(t, testEchoOnlyWhatIsAllowed) }

func testEchoOnlyWhatIsAllowed(t *testing.T) {
	n := serverNode(t)
	for _, options := range [][]byte{foreign, placeholder, {42, 5, 192, 0, 2, 1, 1, 1}} {
		run(t, n, "crab_server_in", serverSYN(options))
		if _, got := run(t, n, "crab_server_out", serverSYNACK(linuxSYN)); !bytes.Equal(got.options, linuxSYN) {
			t.Errorf("after %x the SYN-ACK has %x", options, got.options)
		}
	}
	counted(t, n, map[string]uint64{"server_syn_not_allowed": 1, "option_ignored": 1, "server_echo": 0})
}

// C-33: timestamps give way, and without any the SYN-ACK goes nowhere.
func TestEchoWithoutRoom(t *testing.T) {
	n := serverNode(t)
	run(t, n, "crab_server_in", serverSYN(redirected))
	full := append(append([]byte{}, linuxSYN...), bytes.Repeat([]byte{1}, 16)...)
	verdict, got := run(t, n, "crab_server_out", serverSYNACK(full))
	if verdict != next || !bytes.Contains(got.options, redirected[:6]) || bytes.Contains(got.options, []byte{8, 10}) || len(got.options) != 36 || !got.sums {
		t.Errorf("verdict %d, options %x, sums %v", int32(verdict), got.options, got.sums)
	}
	if !bytes.Contains(got.options, []byte{2, 4, 5, 0xb4}) || !bytes.Contains(got.options, []byte{3, 3, 7}) {
		t.Errorf("other options were harmed: %x", got.options)
	}
	if verdict, _ := run(t, n, "crab_server_out", serverSYNACK(bytes.Repeat([]byte{1}, 36))); verdict != shot {
		t.Errorf("no timestamps, no room: verdict %d", int32(verdict))
	}
	counted(t, n, map[string]uint64{"server_echo_no_timestamps": 1, "server_echo_failed": 1, "server_echo": 1})
}

// C-9, C-33: an IPv6 echo does not fit beside anything but what Linux writes; the client will try without.
func TestEchoWithoutRoom6(t *testing.T) {
	speak(six)
	defer speak(four)
	n := serverNode(t)
	run(t, n, "crab_server_in", serverSYN(redirected))
	if verdict, _ := run(t, n, "crab_server_out", serverSYNACK(append(append([]byte{}, linuxSYN...), 34, 2, 1, 1))); verdict != shot {
		t.Errorf("verdict %d", int32(verdict))
	}
	if verdict, got := run(t, n, "crab_server_out", serverSYNACK(linuxSYN)); verdict != next || len(got.options) != 40 || !got.sums {
		t.Errorf("verdict %d, options %x, sums %v", int32(verdict), got.options, got.sums)
	}
	counted(t, n, map[string]uint64{"server_echo_failed": 1, "server_echo": 1})
}

// C-42: a fall-back SYN makes every reply come from the VIP, on the uplink only.
func TestFallbackReplies(t *testing.T) { bothFamilies(t, testFallbackReplies) }

func testFallbackReplies(t *testing.T) {
	n := serverNode(t)
	data := packet{src: testDIP, dst: testClient, sport: 80, dport: 5000, flags: ack, data: []byte("page")}
	if _, got := run(t, n, "crab_server_out", data); got.src != testDIP {
		t.Errorf("without a fall-back SYN a reply comes from %s", got.src)
	}
	run(t, n, "crab_server_in", serverSYN(fallbackMark(testVIP)))
	if _, got := run(t, n, "crab_server_out", data); got.src != testDIP {
		t.Errorf("C-92: a SYN that the server has not answered makes replies come from %s", got.src)
	}
	for _, p := range []packet{serverSYNACK(linuxSYN), data} {
		if verdict, got := run(t, n, "crab_server_out", p); verdict != next || got.src != testVIP || !got.sums || !bytes.Equal(got.options, p.options) {
			t.Errorf("verdict %d, from %s, options %x, sums %v", int32(verdict), got.src, got.options, got.sums)
		}
		if _, got := run(t, n, "crab_server_out_pod", p); got.src != testDIP {
			t.Errorf("C-82: on the pod's veth, above conntrack, a reply must keep its address: %s", got.src)
		}
	}
	counted(t, n, map[string]uint64{"server_dsr_seen": 1, "server_dsr_reply": 2, "server_echo": 0})
}

// C-73, C-72: lives are kept, and only what outlived them goes.
func TestExpire(t *testing.T) { bothFamilies(t, testExpire) }

func testExpire(t *testing.T) {
	n := serverNode(t)
	run(t, n, "crab_server_in", serverSYN(redirected))
	e, err := n.Expire(Lives{})
	if err != nil || e.Echoes != 0 {
		t.Fatalf("a fresh echo was removed: %+v, %v", e, err)
	}
	time.Sleep(2 * time.Millisecond)
	if e, err = n.Expire(Lives{Echo: time.Millisecond}); err != nil || e.Echoes != 1 {
		t.Fatalf("%+v, %v", e, err)
	}
}
