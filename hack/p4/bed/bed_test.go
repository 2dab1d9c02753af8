// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

var shells = []string{"v1model", "tna"}

func program(t *testing.T, shell string) *model.Program {
	t.Helper()
	p, err := model.Load("../../../dataplane/p4/router/"+shell+".p4", nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func each(t *testing.T, f func(t *testing.T, s *Switch)) {
	for _, shell := range shells {
		t.Run(shell, func(t *testing.T) {
			s, err := New(program(t, shell))
			if err != nil {
				t.Fatal(err)
			}
			f(t, s)
			if s.Odd() != 0 {
				t.Errorf("%d double accesses, %d fields of headers that are not there, %d entries that are not there, %d discarded uncounted: %s", s.Doubles, s.Invalids, s.OutOfRange, s.Uncounted, s.LastOdd)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func small() Service {
	return Service{Workers: 20, Depth: 2, Base: 4, Index: 3, Limit: 2, Patience: 1000, Loss: 100}
}

// W-2: a fresh switch gives nobody anything; the request waits in the loop. W-3: JOIN brings the credits.
func TestRequestWaitsForJoin(t *testing.T) {
	each(t, func(t *testing.T, s *Switch) {
		v := small()
		must(t, s.Add(v))
		request := v.FromClient(40000, Request(7, []byte("hello")))
		out, still := s.Run(request, 9)
		if len(out) != 0 || len(still) != 1 {
			t.Fatalf("before anybody joined: %d out, %d in the loop", len(out), len(still))
		}
		if _, left := s.Run(v.FromWorker(17, Feedback{Flags: Join, N: 2, Incarnation: 5}.Bytes()), 9); len(left) != 0 {
			t.Fatal("FEEDBACK stays in the loop")
		}
		if got := s.Credits(v, 17); got != 2 {
			t.Fatalf("credits after JOIN: %d", got)
		}
		out, still = s.Run(still[0], 9)
		if len(out) != 1 || len(still) != 0 || v.WorkerOf(out[0]) != 17 {
			t.Fatalf("after JOIN: %d out, %d in the loop", len(out), len(still))
		}
		checkForwarded(t, request.Data, out[0].Data)
		if got := s.Credits(v, 17); got != 1 {
			t.Fatalf("credits after a request: %d", got)
		}
		if held := s.Word(Control+"held", 3); held != 0 {
			t.Fatalf("%d are held to wait after the last left", held)
		}
	})
}

// only the destination changes, option 5 is added, both checksums hold.
func checkForwarded(t *testing.T, in, out []byte) {
	t.Helper()
	if !Sound(out) {
		t.Fatalf("checksums or lengths are wrong: %x", out)
	}
	a, b := EndsOf(in), EndsOf(out)
	if a.Src != b.Src || a.SrcPort != b.SrcPort || b.DstPort != MemberPort || out[22] != in[22]-1 {
		t.Fatalf("from %+v to %+v, TTL %d", a, b, out[22])
	}
	want := append([]byte{}, Payload(in)[:8]...)
	want[1] += 8
	want = append(want, 5, 6)
	want = binary.BigEndian.AppendUint32(want, routerLabel)
	want = append(want, 0, 0)
	want = append(want, Payload(in)[8:]...)
	if !bytes.Equal(Payload(out), want) {
		t.Fatalf("payload\n %x, want\n %x", Payload(out), want)
	}
}

// W-6, W-9: the loop is bounded in number and in time; what it refuses is answered with DROP.
func TestLoopIsBounded(t *testing.T) {
	each(t, func(t *testing.T, s *Switch) {
		v := small()
		must(t, s.Add(v))
		var waiting []model.Frame
		for i := range 3 {
			out, still := s.Run(v.FromClient(40000, Request(uint16(i), []byte("hello"))), 4)
			if i == 2 {
				checkDrop(t, s, out, 2)
				break
			}
			if len(still) != 1 {
				t.Fatalf("request %d: %d in the loop", i, len(still))
			}
			waiting = append(waiting, still[0])
		}
		s.Now += v.Patience + 1
		for i, f := range waiting {
			out, _ := s.Run(f, 4)
			checkDrop(t, s, out, uint16(i))
		}
		if held := s.Word(Control+"held", 3); held != 0 {
			t.Fatalf("%d are held to wait", held)
		}
		if full, late := s.Outcome(3, 24), s.Outcome(3, 25); full != 1 || late != 2 {
			t.Fatalf("refused: %d full, %d late", full, late)
		}
	})
}

// W-13: what waits for a service that is deleted is discarded and counted, and leaves its place to others.
func TestServiceDeletedWhileRequestsWait(t *testing.T) {
	each(t, func(t *testing.T, s *Switch) {
		v := small()
		must(t, s.Add(v))
		_, still := s.Run(v.FromClient(40000, Request(1, []byte("hello"))), 3)
		if len(still) != 1 || s.Word(Control+"held", 3) != 1 {
			t.Fatalf("%d in the loop, %d held", len(still), s.Word(Control+"held", 3))
		}
		must(t, s.Delete(Control+"service", []model.Match{{Value: RouterIP}, {Value: RequestPort}}, 0))
		out, still := s.Run(still[0], 3)
		if len(out)+len(still) != 0 || s.Word(Control+"held", 3) != 0 || s.Outcome(3, 20) != 1 {
			t.Fatalf("%d out, %d in the loop, %d held, %d counted", len(out), len(still), s.Word(Control+"held", 3), s.Outcome(3, 20))
		}
	})
}

// W-13: a request that took a credit of a slot without a worker is discarded, and its row counts it; so is a frame for a
// station that nobody wrote, and one that ends before its Ethernet header does.
func TestNobodyThere(t *testing.T) {
	each(t, func(t *testing.T, s *Switch) {
		v := small()
		must(t, s.Add(v))
		s.Run(v.FromWorker(0, Feedback{N: 1, Incarnation: 5}.Bytes()), 3)
		row, slot, _, _ := v.Slot(0)
		must(t, s.Delete(Control+"target", []model.Match{{Value: row}, {Value: slot}}, 0))
		out, still := s.Run(v.FromClient(40000, Request(1, []byte("hello"))), 3)
		if len(out)+len(still) != 0 || s.Count(Control+"forwarded", row<<SlotBits) != 1 {
			t.Errorf("%d out, %d in the loop, %d counted", len(out), len(still), s.Count(Control+"forwarded", row<<SlotBits))
		}
		stranger := Frame(Ends{Src: ClientIP, Dst: ClientIP + 9, SrcPort: 53, DstPort: 5353}, []byte("hello"))
		for reason, data := range map[int][]byte{31: stranger, 4: stranger[:9]} {
			if out := s.Pass(model.Frame{Port: ClientPort, Data: data}); len(out) != 0 || s.Outcome(0, reason) != 1 {
				t.Errorf("reason %d: %d out, %d counted", reason, len(out), s.Outcome(0, reason))
			}
		}
	})
}

// Others' broadcasts go to all other ports, as they are; whoever sends one does not hear it.
func TestBroadcast(t *testing.T) {
	each(t, func(t *testing.T, s *Switch) {
		ports := []uint64{1, 2, 5}
		for n, port := range ports {
			s.Groups[4+port] = model.CopiesTo(append(append([]uint64{}, ports[:n]...), ports[n+1:]...)...)
		}
		must(t, s.insert("station", "to_group", []uint64{0xffffffffffff}, 4))
		arp := append(bytes.Repeat([]byte{255}, 6), bytes.Repeat([]byte{2}, 54)...)
		for _, from := range ports {
			out, _ := s.Run(model.Frame{Port: from, Data: arp}, 2)
			if len(out) != 2 || out[0].Port == from || out[1].Port == from || out[0].Port == out[1].Port || !bytes.Equal(out[0].Data, arp) {
				t.Fatalf("from port %d: %d frames, %+v", from, len(out), out)
			}
		}
	})
}

func checkDrop(t *testing.T, s *Switch, out []model.Frame, id uint16) {
	t.Helper()
	if len(out) != 1 || out[0].Port != ClientPort || !Sound(out[0].Data) {
		t.Fatalf("want one sound DROP, got %d", len(out))
	}
	f := out[0].Data
	want := []byte{0xcc, 8, 0x41, 0xc0, byte(id >> 8), byte(id), 0, 1, 'D', 'R', 'O', 'P'}
	if e := EndsOf(f); !bytes.Equal(Payload(f), want) || e.Dst != ClientIP || e.DstPort != 40000 || e.Src != RouterIP || e.SrcPort != RequestPort {
		t.Fatalf("DROP is %x from %+v", Payload(f), e)
	}
}

// turns and random choice reach every worker, and keep the books of credits.
func TestTurnsAndRandom(t *testing.T) {
	each(t, func(t *testing.T, s *Switch) {
		for i, choose := range []int{ByTurn, ByRandom} {
			v := Service{Index: i, Workers: 5, Depth: 2, Base: 10 * i, Choose: choose, RequestPort: uint16(8000 + i), FeedbackPort: uint16(9000 + i), Loss: 100}
			must(t, s.Add(v))
			seen := map[int]int{}
			for k := range 500 {
				out, still := s.Run(v.FromClient(40000, Request(uint16(k), nil)), 4)
				if len(out) != 1 || len(still) != 0 {
					t.Fatalf("%d out, %d in the loop", len(out), len(still))
				}
				seen[v.WorkerOf(out[0])]++
			}
			for w := range v.Workers {
				if choose == ByTurn && seen[w] != 100 || seen[w] < 50 {
					t.Errorf("choice %d: worker %d got %d of 500", choose, w, seen[w])
				}
				if got := int(s.Credits(v, w)); got != -seen[w] {
					t.Errorf("worker %d has %d credits after %d requests", w, got, seen[w])
				}
			}
		}
	})
}
