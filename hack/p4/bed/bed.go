// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"fmt"

	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// Worker numbers of a row are 1 to 16; Row and slot are one index together.
const (
	RowWorkers  = 16
	SlotBits    = 5
	ClientPort  = 3 // ports of the switch
	WorkerPort  = 7
	MemberPort  = 8100
	routerLabel = 0x3aeab309 // bt_router_id of its request address
)

// The ways to choose a worker.
const (
	ByCredit = 0
	ByTurn   = 1
	ByRandom = 2
)

// Service is a set of workers in rows of their own.
type Service struct {
	Index, Workers, Depth int
	Base                  int // first row
	Choose                int
	Limit                 int    // requests that may wait
	Patience, Loss        uint64 // in the switch's units of time
	RequestPort           uint16
	FeedbackPort          uint16
}

// Groups of the service.
func (s Service) Groups() int { return (s.Workers + RowWorkers - 1) / RowWorkers }

// Slot of a worker: its row, its number there, its register and which of the two words of it.
func (s Service) Slot(w int) (row, slot, pair, half uint64) {
	at := w % RowWorkers
	return uint64(s.Base + w/RowWorkers), uint64(at + 1), uint64(at / 2), uint64(at % 2)
}

// Index of a worker in the registers.
func (s Service) IndexOf(w int) uint64 {
	row, slot, _, _ := s.Slot(w)
	return row<<SlotBits | slot
}

// WorkerIP of a worker of a service.
func (s Service) WorkerIP(w int) uint32 {
	return 0x0a010000 + uint32(s.Index)<<12 + uint32(w)
}

// Control is where a program's control blocks are: the architecture names them.
const Control = "Ingress.route."

// Switch is a program that routes.
type Switch struct {
	*model.Machine
	services []Service
}

// New is a switch with a program and nothing in it but its own addresses.
func New(p *model.Program) (*Switch, error) {
	s := &Switch{Machine: model.NewMachine(p)}
	for _, e := range []struct{ table, action string }{{"own", "is_own"}, {"own_source", "is_own_source"}} {
		if err := s.insert(e.table, e.action, []uint64{RouterIP}); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Switch) insert(table, action string, key []uint64, args ...uint64) error {
	e := model.Entry{Action: action, Args: args}
	for _, k := range key {
		e.Match = append(e.Match, model.Match{Value: k})
	}
	return s.Insert(Control+table, e)
}

// Add puts a service and its workers in: the service last (W-22).
func (s *Switch) Add(v Service) error {
	if v.RequestPort == 0 {
		v.RequestPort, v.FeedbackPort = RequestPort, FeedbackPort
	}
	for w := range v.Workers {
		if err := s.addWorker(v, w); err != nil {
			return err
		}
	}
	last := v.Groups() - 1
	if v.Choose == ByTurn {
		last = v.Workers - 1
	}
	ring := 1
	for ring < v.Workers {
		ring *= 2
	}
	s.services = append(s.services, v)
	return s.insert("service", "serve", []uint64{RouterIP, uint64(v.RequestPort)}, uint64(v.Index), uint64(v.Choose), uint64(v.Base),
		uint64(last), uint64(v.Depth-1), uint64(ring-1), uint64(v.Limit), v.Patience, routerLabel)
}

func (s *Switch) addWorker(v Service, w int) error {
	row, slot, pair, half := v.Slot(w)
	ip := uint64(v.WorkerIP(w))
	key := []uint64{ip, MemberPort, WorkerPort, RouterIP, uint64(v.FeedbackPort)}
	if err := s.insert("member", "report", key, uint64(v.Index), row, slot, pair, half, v.Loss); err != nil {
		return err
	}
	if err := s.insert("target", "to_worker", []uint64{row, slot}, WorkerPort, RouterMAC, 0x020000010000+uint64(w), ip, MemberPort); err != nil {
		return err
	}
	if v.Choose == ByCredit {
		return nil
	}
	minus := []uint64{0, 0}
	minus[half] = 0xffffffff
	ring := 1
	for v.Choose == ByRandom && ring < v.Workers {
		ring *= 2
	}
	for k := w; k < max(ring, v.Workers); k += v.Workers {
		if err := s.insert("ring", "pick", []uint64{uint64(v.Index), uint64(k)}, row, slot, pair, minus[0], minus[1]); err != nil {
			return err
		}
	}
	return nil
}

// Outcome of a frame is the counter's row, by reason.
func (s *Switch) Outcome(service, reason int) uint64 {
	return s.Count(Control+"outcomes", uint64(service<<5|reason))
}

// Credits of a worker.
func (s *Switch) Credits(v Service, w int) int32 {
	row, _, pair, half := v.Slot(w)
	entry := s.Register(fmt.Sprintf("%scredits_%d", Control, pair), row)
	if len(entry) == 1 { // one word of both
		return int32(uint32(entry[0] >> (32 * half)))
	}
	return int32(uint32(entry[half]))
}

// Word of a register.
func (s *Switch) Word(register string, at uint64) uint32 {
	entry := s.Register(register, at)
	if entry == nil {
		panic("bed: there is no register " + register)
	}
	return uint32(entry[0])
}

// FromClient is a frame with a payload for a service, as a client sends it.
func (v Service) FromClient(port uint16, payload []byte) model.Frame {
	return model.Frame{Port: ClientPort, Data: Frame(Ends{ClientIP, RouterIP, port, v.requestPort()}, payload)}
}

func (v Service) requestPort() uint16 {
	if v.RequestPort == 0 {
		return RequestPort
	}
	return v.RequestPort
}

// FromWorker is a frame with a payload for the feedback port.
func (v Service) FromWorker(w int, payload []byte) model.Frame {
	port := v.FeedbackPort
	if port == 0 {
		port = FeedbackPort
	}
	return model.Frame{Port: WorkerPort, Data: Frame(Ends{v.WorkerIP(w), RouterIP, MemberPort, port}, payload)}
}

// WorkerOf says whom a frame that left the switch was sent to; −1: nobody of this service.
func (v Service) WorkerOf(f model.Frame) int {
	if len(f.Data) < Plain || f.Port != WorkerPort {
		return -1
	}
	w := int(EndsOf(f.Data).Dst) - int(v.WorkerIP(0))
	if w < 0 || w >= v.Workers {
		return -1
	}
	return w
}
