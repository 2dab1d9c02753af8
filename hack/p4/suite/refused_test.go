// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/bobtail-dev/bobtail/hack/p4/bed"
	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// altered is a frame with something else in it, and both checksums right again.
func altered(f model.Frame, change func([]byte)) model.Frame {
	change(f.Data)
	bed.SetSums(f.Data)
	return f
}

// cut ends a frame early.
func cut(f model.Frame, n int) model.Frame {
	f.Data = f.Data[:n]
	return f
}

// withRouterAlert puts an option of IP into a frame; its value is the one with which the header's checksum stays as it was.
func withRouterAlert(f model.Frame) model.Frame {
	f.Data = slices.Insert(f.Data, 34, 0x94, 4, 0x6a, 0xf7)
	f.Data[14]++
	binary.BigEndian.PutUint16(f.Data[16:], binary.BigEndian.Uint16(f.Data[16:])+4)
	return f
}

// refusedFrame is one that the switch does not take, and why.
type refusedFrame struct {
	name   string
	frame  func(bed.Service) model.Frame
	reason int
}

// refusedFrames are wrong before R2P2 begins, or come from where they should not.
func refusedFrames() []refusedFrame {
	ask := bed.Request(7, []byte("fourteen bytes"))
	said := bed.Feedback{N: 3, Incarnation: 1, Received: 9, Served: 9}.Bytes()
	from := func(ends bed.Ends, port uint64, payload []byte) func(bed.Service) model.Frame {
		return func(bed.Service) model.Frame { return model.Frame{Port: port, Data: bed.Frame(ends, payload)} }
	}
	asked := func(change func(model.Frame) model.Frame) func(bed.Service) model.Frame {
		return func(s bed.Service) model.Frame { return change(s.FromClient(40000, ask)) }
	}
	reported := func(change func(model.Frame) model.Frame) func(bed.Service) model.Frame {
		return func(s bed.Service) model.Frame { return change(s.FromWorker(0, said)) }
	}
	set := func(at int, to byte) func(model.Frame) model.Frame {
		return func(f model.Frame) model.Frame {
			return altered(f, func(data []byte) { data[at] = to })
		}
	}
	broken := func(at int) func(model.Frame) model.Frame {
		return func(f model.Frame) model.Frame {
			f.Data[at] ^= 1
			return f
		}
	}
	worker := bed.Service{Index: vectorService}.WorkerIP(0)
	to := func(src uint32, port, at uint16) bed.Ends {
		return bed.Ends{Src: src, Dst: bed.RouterIP, SrcPort: port, DstPort: at}
	}
	return []refusedFrame{
		{"a first fragment", asked(set(20, 0x20)), RFragment},
		{"a later fragment", asked(set(21, 2)), RFragment},
		{"a FEEDBACK in fragments", reported(set(20, 0x20)), RFragment},
		{"IP options", asked(withRouterAlert), RIPOptions},
		{"a FEEDBACK with IP options", reported(withRouterAlert), RIPOptions},
		{"another version of IP", asked(set(14, 0x55)), RIPOptions},
		{"a checksum of IP", asked(broken(24)), RChecksum},
		{"a FEEDBACK's checksum of IP", reported(broken(24)), RChecksum},
		{"lengths that contradict one another", asked(set(17, 28+22+1)), RLength},
		{"a FEEDBACK's, too", reported(set(17, 28+40+1)), RLength},
		{"an end within the header of UDP", asked(func(f model.Frame) model.Frame { return cut(f, 40) }), RTruncated},
		{"an end within the header of R2P2", asked(func(f model.Frame) model.Frame { return cut(f, 46) }), RTruncated},
		{"from a multicast address", from(to(0xe0000001, 40000, bed.RequestPort), bed.ClientPort, ask), RSource},
		{"from nowhere", from(to(0, 40000, bed.RequestPort), bed.ClientPort, ask), RSource},
		{"from port 0", from(to(bed.ClientIP, 0, bed.RequestPort), bed.ClientPort, ask), RSource},
		{"from the switch itself", from(to(bed.RouterIP, 40000, bed.RequestPort), bed.ClientPort, ask), RSource},
		{"to a port of nobody's", from(to(bed.ClientIP, 40000, bed.RequestPort+1), bed.ClientPort, ask), RNotServed},
		{"FEEDBACK of a stranger", from(to(worker+1, bed.MemberPort, bed.FeedbackPort), bed.WorkerPort, said), RNotServed},
		{"FEEDBACK from another port of the worker", from(to(worker, bed.MemberPort+1, bed.FeedbackPort), bed.WorkerPort, said), RNotServed},
		{"FEEDBACK by another port of the switch", from(to(worker, bed.MemberPort, bed.FeedbackPort), bed.ClientPort, said), RNotServed},
	}
}

// M-4, M-23, W-8, W-13, R-54: what the shared vectors cannot say, since it is wrong before R2P2 begins. Each is counted
// once, by its reason, nothing is sent, and no register changes.
func TestRefusedBeforeR2P2(t *testing.T) {
	programs := map[string]*model.Program{"v1model": load(t, "v1model"), "tna": load(t, "tna")}
	for _, row := range refusedFrames() {
		for shell, program := range programs {
			s, service, err := vectorSwitch(program)
			if err != nil {
				t.Fatal(err)
			}
			before, state := outcomes(s), s.State()
			out, still := s.Run(row.frame(service), 8)
			var counted []int
			for r, n := range outcomes(s) {
				for ; n > before[r]; n-- {
					counted = append(counted, r)
				}
			}
			if len(out)+len(still) != 0 || s.State() != state || !slices.Equal(counted, []int{row.reason}) {
				t.Errorf("%s, %s: %d frames out, reasons %v, want %d; registers changed: %v", row.name, shell, len(out)+len(still), counted, row.reason, s.State() != state)
			}
		}
	}
}
