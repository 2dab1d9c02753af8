// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"net/netip"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect/programs"
)

func sentData() packet {
	return packet{src: testClient, dst: testVIP, sport: 5000, dport: 80, flags: ack, seq: 101, ack: 10, data: []byte("get")}
}

func gotData(from netip.Addr) packet {
	return packet{src: from, dst: testClient, sport: 80, dport: 5000, flags: ack, seq: 10, ack: 101, data: []byte("page!")}
}

// onOneCPU keeps a test where its recent answers are: every CPU has its own.
func onOneCPU(t *testing.T) {
	runtime.LockOSThread()
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	for cpu := 0; one.Count() == 0; cpu++ {
		if before.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.SchedSetaffinity(0, &before)
		runtime.UnlockOSThread()
	})
}

// answered is an established connection whose data has passed in both directions.
func answered(t *testing.T) *Node {
	n := established(t)
	if _, got := run(t, n, "crab_client_out_pod", sentData()); got.dst != testDIP {
		t.Fatalf("sent on to %s", got.dst)
	}
	if _, got := run(t, n, "crab_client_in", gotData(testDIP)); got.src != testVIP {
		t.Fatalf("received from %s", got.src)
	}
	return n
}

// lastsAMoment: what a program has just learnt is what it goes by, but not for ever. fresh is a node where it has, though its
// maps say something else by now; byMaps sends it a packet and says whether the maps were asked.
func lastsAMoment(t *testing.T, fresh func() *Node, byMaps func(n *Node) bool) {
	t.Helper()
	for range 20 { // its time may end between two packets
		n := fresh()
		if byMaps(n) {
			continue
		}
		for range 1_000_000 {
			if byMaps(n) {
				return
			}
		}
		t.Fatal("the answer holds for ever")
	}
	t.Fatal("the maps are asked for every packet")
}

// C-70: data goes by the recent answer while it holds, an eighth of a second or a few (C-103), and by the maps then.
func TestRecentAnswerIsUsedForAMoment(t *testing.T) {
	onOneCPU(t)
	lastsAMoment(t, func() *Node {
		n := answered(t)
		it := n.m(four, "crab_flows_out").Iterate()
		var key, value []byte
		if !it.Next(&key, &value) || n.m(four, "crab_flows_out").Delete(key) != nil {
			t.Fatal("no flow to forget")
		}
		return n
	}, func(n *Node) bool {
		_, got := run(t, n, "crab_client_out_pod", sentData())
		return got.dst == testVIP
	})
}

// C-70: the next connection of the port goes to its own server at once, whatever was known a moment ago.
func TestRecentAnswerEndsWithItsConnection(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		onOneCPU(t)
		n := answered(t)
		other := at("10.2.0.2")
		run(t, n, "crab_client_out", clientSYN(200))
		again := redirectedSYNACK(201, redirected)
		again.src = other
		if verdict, _ := run(t, n, "crab_client_in", again); verdict != next {
			t.Fatalf("the second redirect: verdict %d", int32(verdict))
		}
		if _, got := run(t, n, "crab_client_out_pod", sentData()); got.dst != other {
			t.Errorf("the second connection goes to %s", got.dst)
		}
		for from, want := range map[netip.Addr]netip.Addr{other: testVIP, testDIP: testDIP} {
			if _, got := run(t, n, "crab_client_in", gotData(from)); got.src != want {
				t.Errorf("from %s: the client sees %s, want %s", from, got.src, want)
			}
		}
	})
}

// C-24, C-70: a connection past the VIP, from the port and to the server of the last one, which is over, is left alone.
func TestRecentAnswerEndsWithADirectConnection(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		onOneCPU(t)
		n := answered(t)
		run(t, n, "crab_client_out_pod", clientEnds(rst|ack))
		run(t, n, "crab_client_out", direct())
		if _, got := run(t, n, "crab_client_in", gotData(testDIP)); got.src != testDIP {
			t.Errorf("the client sees %s", got.src)
		}
	})
}

// C-100: what ends a connection is noted, and that the client has acknowledged it, though its data went by the recent answer.
func TestRecentAnswerDoesNotHideTheEnd(t *testing.T) {
	onOneCPU(t)
	n := answered(t)
	end := gotData(testDIP)
	end.flags = fin | ack
	run(t, n, "crab_client_in", end)
	for _, step := range []struct {
		acks uint32
		want FlowEnded
	}{{10, 0}, {16, ServerFIN}} { // behind "page!" and the FIN
		p := sentData()
		p.ack = step.acks
		run(t, n, "crab_client_out_pod", p)
		var flows []Flow
		err := n.Flows(func(f Flow) bool { flows = append(flows, f); return true })
		if err != nil || len(flows) != 1 || flows[0].Ended != step.want {
			t.Errorf("the client acknowledges %d: %+v, %v", step.acks, flows, err)
		}
	}
}

// The server opens a connection of its own, from and to the ports of the last one, which the client has reset: it is left alone at once.
func TestRecentAnswerEndsWhenTheServerConnects(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		onOneCPU(t)
		n := answered(t)
		run(t, n, "crab_client_out_pod", clientEnds(rst|ack))
		run(t, n, "crab_client_in", blindSYN(testDIP, testClient, false, nil))
		if _, got := run(t, n, "crab_client_in", gotData(testDIP)); got.src != testDIP {
			t.Errorf("the client sees %s", got.src)
		}
	})
}

// unknown sends data of a connection of nobody's, so that it has the answer that nothing is known of it.
func unknown(t *testing.T, n *Node) {
	t.Helper()
	run(t, n, "crab_client_out", direct()) // ends what was known of the port
	for program, p := range map[string]packet{"crab_client_out_pod": sentData(), "crab_client_in": gotData(testDIP), "crab_client_in_near": gotData(testDIP)} {
		if verdict, got := run(t, n, program, p); verdict != next || got.src != p.src || got.dst != p.dst {
			t.Fatalf("%s: verdict %d, from %s to %s", program, int32(verdict), got.src, got.dst)
		}
	}
}

// translate writes what an accepted redirect would, without a SYN.
func translate(t *testing.T, n *Node) {
	t.Helper()
	client := netip.AddrPortFrom(testClient, 5000)
	must(t, n.m(four, "crab_flows_out").Put(programs.Tuple{Client: client, Server: netip.AddrPortFrom(testVIP, 80)}, programs.Flow{LastNs: monotonic(), DIP: testDIP, ISS: 100}))
	must(t, n.m(four, "crab_flows_in").Put(programs.Tuple{Client: client, Server: netip.AddrPortFrom(testDIP, 80)}, programs.Reverse{VIP: testVIP}))
}

// Most packets are none of ours: that nothing is known of a connection is an answer, too, and holds for a moment.
func TestNothingIsKnownForAMoment(t *testing.T) {
	sees := map[string]func(t *testing.T, n *Node) bool{
		"crab_client_out_pod": func(t *testing.T, n *Node) bool {
			_, got := run(t, n, "crab_client_out_pod", sentData())
			return got.dst == testDIP
		},
		"crab_client_in": func(t *testing.T, n *Node) bool {
			_, got := run(t, n, "crab_client_in", gotData(testDIP))
			return got.src == testVIP
		},
		"crab_client_in_near": func(t *testing.T, n *Node) bool {
			_, got := run(t, n, "crab_client_in_near", gotData(testDIP))
			return got.src == testVIP
		},
	}
	for program, translated := range sees {
		t.Run(program, func(t *testing.T) {
			onOneCPU(t) // here: a subtest has a thread of its own
			lastsAMoment(t, func() *Node {
				n := clientNode(t)
				unknown(t, n)
				translate(t, n)
				return n
			}, func(n *Node) bool { return translated(t, n) })
		})
	}
}

// C-70: a connection that begins is translated at once, whatever was not known of its name a moment ago.
func TestNothingIsKnownUntilAConnectionBegins(t *testing.T) {
	bothFamilies(t, func(t *testing.T) {
		onOneCPU(t)
		n := clientNode(t)
		unknown(t, n)
		run(t, n, "crab_client_out", clientSYN(100))
		if verdict, _ := run(t, n, "crab_client_in", redirectedSYNACK(101, redirected)); verdict != next {
			t.Fatalf("the redirect: verdict %d", int32(verdict))
		}
		if _, got := run(t, n, "crab_client_out_pod", sentData()); got.dst != testDIP {
			t.Errorf("sent on to %s", got.dst)
		}
		for _, program := range []string{"crab_client_in", "crab_client_in_near"} {
			if _, got := run(t, n, program, gotData(testDIP)); got.src != testVIP {
				t.Errorf("%s: received from %s", program, got.src)
			}
		}
	})
}
