// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"bytes"
	"net/netip"
	"testing"
	"time"
)

// serverData is what a server's host sends on a connection, and fromClient what its client does.
func serverData() packet {
	return packet{src: testDIP, dst: testClient, sport: 80, dport: 5000, flags: ack, seq: 10, ack: 101, data: []byte("page")}
}

func fromClient(seq, answers uint32) packet {
	return packet{src: testClient, dst: testDIP, sport: 5000, dport: 80, flags: ack, seq: seq, ack: answers}
}

// hashed is a server's host with a live connection on the fall-back path; redirectedTo one with a redirected one.
func hashed(t *testing.T) *Node {
	n := serverNode(t)
	run(t, n, "crab_server_in", serverSYN(fallbackMark(testVIP)))
	run(t, n, "crab_server_out", serverSYNACK(linuxSYN))
	run(t, n, "crab_server_in", fromClient(101, 10))
	return n
}

func redirectedTo(t *testing.T) *Node {
	n := serverNode(t)
	run(t, n, "crab_server_in", serverSYN(redirected))
	run(t, n, "crab_server_out", serverSYNACK(linuxSYN))
	run(t, n, "crab_server_in", fromClient(101, 10))
	return n
}

func repliesFrom(t *testing.T, n *Node, want netip.Addr) {
	t.Helper()
	if _, got := run(t, n, "crab_server_out", serverData()); got.src != want || !got.sums {
		t.Errorf("a reply comes from %s, want %s (sums %v)", got.src, want, got.sums)
	}
}

// C-92: no SYN, whatever it says, changes where replies of a live connection come from; nor does what a forger can
// send behind it.
func TestBlindSYNToTheServer(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			live func(*testing.T) *Node
			from netip.Addr
		}{"redirected": {redirectedTo, testDIP}, "hashed": {hashed, testVIP}, "direct": {serverNode, testDIP}} {
			for kind, options := range map[string][]byte{
				"plain": linuxSYN, "redirect": redirected, "fall-back mark": fallbackMark(testVIP), "placeholder": placeholder, "foreign": foreign,
			} {
				n := c.live(t)
				repliesFrom(t, n, c.from)
				for _, seq := range []uint32{0, 0x77665544, 0xffffffff} {
					p := blindSYN(testClient, testDIP, true, options)
					p.seq = seq
					run(t, n, "crab_server_in", p)
					run(t, n, "crab_server_in", fromClient(seq+1, 0))
					challenge := serverData()
					challenge.data = nil
					run(t, n, "crab_server_out", challenge)
					end := challenge
					end.flags, end.ack = rst, 0
					if _, got := run(t, n, "crab_server_out", end); got.src != c.from {
						t.Errorf("%s: after a SYN (%s) a RST comes from %s", name, kind, got.src)
					}
					repliesFrom(t, n, c.from)
				}
				if t.Failed() {
					t.Fatalf("%s connection, SYN: %s", name, kind)
				}
			}
		}
	})
}

// C-42, C-31: what the server answers is a new connection, on the path of its own SYN, whatever the former one took.
func TestConnectionAfterAnother(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		for kind, c := range map[string]struct {
			options []byte
			from    netip.Addr
		}{"plain": {linuxSYN, testDIP}, "redirect": {redirected, testDIP}, "fall-back mark": {fallbackMark(testVIP), testVIP}} {
			n := hashed(t)
			p := serverSYN(c.options)
			p.seq = 900
			run(t, n, "crab_server_in", p)
			answer := serverSYNACK(linuxSYN)
			answer.ack = 901
			_, got := run(t, n, "crab_server_out", answer)
			if got.src != c.from || bytes.HasPrefix(got.options, redirected) != (kind == "redirect") {
				t.Errorf("%s: the SYN-ACK comes from %s with %x", kind, got.src, got.options)
			}
			run(t, n, "crab_server_in", fromClient(901, 10))
			repliesFrom(t, n, c.from)
		}
	})
}

// C-42: a handshake whose last ACK was lost, or whose SYN had data, ends with the first reply; a refused SYN is refused from the VIP.
func TestFallbackWithoutFirstACK(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		n := serverNode(t)
		run(t, n, "crab_server_in", serverSYN(fallbackMark(testVIP)))
		refusal := packet{src: testDIP, dst: testClient, sport: 80, dport: 5000, flags: rst | ack, ack: 101}
		if _, got := run(t, n, "crab_server_out", refusal); got.src != testVIP {
			t.Errorf("the refusal comes from %s", got.src)
		}
		run(t, n, "crab_server_in", serverSYN(fallbackMark(testVIP)))
		run(t, n, "crab_server_out", serverSYNACK(linuxSYN))
		run(t, n, "crab_server_in", serverSYN(fallbackMark(testVIP))) // sent again: the answer stays known
		repliesFrom(t, n, testVIP)
		if _, got := run(t, n, "crab_server_out", serverSYNACK(linuxSYN)); got.src != testVIP {
			t.Errorf("a SYN-ACK beside the first reply comes from %s", got.src)
		}
		repliesFrom(t, n, testVIP)
	})
}

// C-42, C-92: a handshake on the fall-back path that came to nothing says nothing of the next connection of the port.
func TestDirectAfterAnAbortedFallback(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		n := serverNode(t)
		run(t, n, "crab_server_in", serverSYN(fallbackMark(testVIP)))
		run(t, n, "crab_server_out", serverSYNACK(linuxSYN))
		p := serverSYN(linuxSYN)
		p.seq = 900
		run(t, n, "crab_server_in", p)
		answer := serverSYNACK(linuxSYN)
		answer.ack = 901
		if _, got := run(t, n, "crab_server_out", answer); got.src != testDIP {
			t.Errorf("the SYN-ACK comes from %s", got.src)
		}
		first := serverData()
		first.ack = 901
		for range 2 {
			if _, got := run(t, n, "crab_server_out", first); got.src != testDIP {
				t.Errorf("a reply comes from %s", got.src)
			}
		}
	})
}

// C-72, C-92: a SYN and an ACK, both forged, draw a SYN-ACK and a challenge; they make no connection.
func TestChallengeOpensNothing(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		n := serverNode(t)
		run(t, n, "crab_server_in", serverSYN(fallbackMark(testVIP)))
		run(t, n, "crab_server_out", serverSYNACK(linuxSYN))
		challenge := serverData()
		challenge.data = nil
		if _, got := run(t, n, "crab_server_out", challenge); got.src != testVIP {
			t.Errorf("the challenge comes from %s", got.src)
		}
		if left, err := n.entries("crab_dsr"); err != nil || left != 0 {
			t.Errorf("%d connections are known, %v", left, err)
		}
		repliesFrom(t, n, testVIP)
		if left, err := n.entries("crab_dsr"); err != nil || left != 1 {
			t.Errorf("%d connections are known after the first reply with data, %v", left, err)
		}
	})
}

// C-72: however many SYNs come, those who finish no handshake push no connection out, not even with an ACK they guess.
func TestSYNFloodLeavesConnections(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		n := hashed(t)
		p := serverSYN(fallbackMark(testVIP))
		for i := range 3 * int(testSizes.Echoes) {
			p.sport, p.seq = uint16(6000+i), uint32(i)
			run(t, n, "crab_server_in", p)
			answer := serverSYNACK(linuxSYN)
			answer.dport, answer.ack, answer.seq = p.sport, p.seq+1, uint32(i)*7+50
			run(t, n, "crab_server_out", answer)
			guess := fromClient(p.seq+1, 12345)
			guess.sport = p.sport
			run(t, n, "crab_server_in", guess)
		}
		repliesFrom(t, n, testVIP)
		time.Sleep(2 * time.Millisecond) // and the half-open ones go
		if _, err := n.Expire(Lives{Echo: time.Millisecond}); err != nil {
			t.Fatal(err)
		}
		repliesFrom(t, n, testVIP)
	})
}

// begun is a server's host where one handshake is answered and not finished.
func begun(t *testing.T, options []byte) *Node {
	n := serverNode(t)
	run(t, n, "crab_server_in", serverSYN(options))
	run(t, n, "crab_server_out", serverSYNACK(linuxSYN))
	return n
}

// isAnswered fails unless the server's answer to a SYN leaves as its option asks: from the VIP, or with the echo.
func isAnswered(t *testing.T, n *Node, iss uint32, options []byte, what string) {
	t.Helper()
	answer := serverSYNACK(linuxSYN)
	answer.ack = iss + 1
	from, echo := testDIP, bytes.Equal(options, redirected)
	if bytes.Equal(options, fallbackMark(testVIP)) {
		from = testVIP
	}
	if _, got := run(t, n, "crab_server_out", answer); got.src != from || bytes.HasPrefix(got.options, redirected) != echo || !got.sums {
		t.Errorf("%s: the SYN-ACK comes from %s with %x, sums %v", what, got.src, got.options, got.sums)
	}
}

// C-92: a SYN that comes within another one's handshake, before the client has acknowledged the server's answer, spoils
// nothing: that answer leaves again as it did, and so do the replies. What the server answers begins anew.
func TestSYNWithinAHandshake(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		ways := map[string][]byte{"redirect": redirected, "fall-back mark": fallbackMark(testVIP)}
		for way, options := range ways {
			for kind, second := range map[string][]byte{"plain": linuxSYN, "redirect": redirected, "fall-back mark": fallbackMark(testVIP), "foreign": foreign} {
				what := "a SYN (" + kind + ") within the handshake of another (" + way + ")"
				from := map[bool]netip.Addr{true: testVIP, false: testDIP}[way == "fall-back mark"]
				n := begun(t, options)
				p := serverSYN(second)
				for p.seq = 700; p.seq < 703; p.seq++ {
					run(t, n, "crab_server_in", p)
				}
				isAnswered(t, n, 100, options, what)
				run(t, n, "crab_server_in", fromClient(101, 10))
				repliesFrom(t, n, from)
				if t.Failed() {
					t.Fatal(what)
				}
				n = begun(t, options)
				run(t, n, "crab_server_in", p)
				isAnswered(t, n, 703, second, what+", which the server answers")
				run(t, n, "crab_server_in", fromClient(704, 10))
				reply := serverData()
				reply.ack = 704
				from = map[bool]netip.Addr{true: testVIP, false: testDIP}[kind == "fall-back mark"]
				if _, got := run(t, n, "crab_server_out", reply); got.src != from {
					t.Errorf("%s, which the server answers: a reply comes from %s", what, got.src)
				}
			}
		}
	})
}

// C-31, C-105: a client whose SYN met a forged one's handshake sends it again, and a third time without placeholder.
func TestSYNBehindAForgedHandshake(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		for _, forged := range [][]byte{redirected, fallbackMark(testVIP)} {
			n := begun(t, forged)
			p := serverSYN(redirected)
			p.seq = 900
			run(t, n, "crab_server_in", p)
			run(t, n, "crab_server_in", p)
			p.options = linuxSYN
			run(t, n, "crab_server_in", p)
			isAnswered(t, n, 900, linuxSYN, "the third SYN")
		}
	})
}
