// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/bobtail-dev/bobtail/hack/p4/bed"
	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// vector is a packet or FEEDBACK payload that C and Go decode alike.
type vector struct {
	Name    string `json:"name"`
	Role    string `json:"role"`
	Hex     string `json:"hex"`
	Case    string `json:"case"`
	Decoded struct {
		Version int `json:"version"`
		N       int `json:"n"`
	} `json:"decoded"`
}

type vectorFile struct {
	Packets  []vector `json:"packets"`
	Feedback []vector `json:"feedback"`
}

// What a switch does with a packet.
type verdict int

const (
	forwards verdict = iota
	drops            // answers with DROP
	discards
	believes // a FEEDBACK
)

type expectation struct {
	verdict verdict
	reasons []int // any of these is counted; none where it forwards
}

func discarded(reasons ...int) expectation { return expectation{discards, reasons} }

// Vectors runs the shared vectors through a program; every line of the result is one that failed.
func Vectors(file string, p *model.Program) (run int, failed []string, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, nil, err
	}
	var all vectorFile
	if err := json.Unmarshal(text, &all); err != nil {
		return 0, nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, v := range all.Packets {
		data, err := hex.DecodeString(v.Hex)
		if err != nil {
			return run, nil, fmt.Errorf("%s: %s: %w", file, v.Name, err)
		}
		feedback := v.Role == "router-feedback" || v.Role == "router" && len(data) > 2 && data[2]>>4 == 2
		failed = append(failed, oneVector(p, v, data, feedback, expectPacket(v, data, feedback))...)
		run++
	}
	for _, v := range all.Feedback {
		data, err := hex.DecodeString(v.Hex)
		if err != nil {
			return run, nil, fmt.Errorf("%s: %s: %w", file, v.Name, err)
		}
		failed = append(failed, oneVector(p, v, append([]byte{0xcc, 8, 0x20, 0xe0, 0, 0, 0, 1}, data...), true, expectFeedback(v, data))...)
		run++
	}
	return run, failed, nil
}

// expectPacket says what the rules want of a packet on the request port or the feedback port. Rules R-55 and W-9: of
// options the switch judges the first, its worker the others.
func expectPacket(v vector, data []byte, feedback bool) expectation {
	if feedback {
		return expectOnFeedbackPort(v, data)
	}
	if e, done := expectHeader(v, data); done {
		return e
	}
	switch first := data[8:]; {
	case data[3]&0x80 == 0:
		return discarded(RType) // REQn goes to the worker directly
	case data[2]&15 != 0:
		return expectation{drops, []int{RPolicy}}
	case data[1] == 8:
		return expectation{verdict: forwards}
	case data[1] > 56 || len(data) > 1464:
		return expectOption(first, expectation{drops, []int{RNoRoom}})
	default:
		return expectOption(first, expectation{verdict: forwards})
	}
}

// optionLengths of the options that are known, by kind.
var optionLengths = [...][]byte{1: {8, 20}, 2: {12}, 3: {4}, 4: {10}, 5: {6}, 6: {6}, 7: {18}, 8: {4}}

func expectOption(first []byte, otherwise expectation) expectation {
	switch kind, length := first[0], first[1]; {
	case kind != 0 && (length < 2 || int(kind) < len(optionLengths) && !slices.Contains(optionLengths[kind], length)):
		return discarded(ROptionLength)
	case kind&0x80 != 0:
		return expectation{drops, []int{ROption}}
	case kind == 1 || kind == 2 || kind == 5 || kind == 6:
		return discarded(RForwarder)
	}
	return otherwise
}

// expectHeader judges what every packet on the request port is judged by first.
func expectHeader(v vector, data []byte) (expectation, bool) {
	byCase := map[string]int{"M-1": RShort, "M-2": RMagic, "M-3": RSize, "OPT-SIZE": ROptionSize}
	if r, ok := byCase[v.Case]; ok {
		return discarded(r), true
	}
	if len(data) >= 8 && data[2]>>4 == 2 && len(data) == 16 {
		return discarded(RReport, RType), true
	}
	if data[2]>>4 == 2 {
		return discarded(RType, RCount, RSingle, RTruncated), true
	}
	if data[2]>>4 != 0 {
		return discarded(RType), true
	}
	if len(data) > 1464 && v.Case == "OK" && data[3]&0x80 != 0 && data[2]&15 == 0 {
		return expectation{drops, []int{RNoRoom}}, true
	}
	byCase = map[string]int{"M-7": RCount, "M-8": RSingle, "M-9": RIndex}
	if r, ok := byCase[v.Case]; ok {
		return discarded(r), true
	}
	return expectation{}, false
}

func expectOnFeedbackPort(v vector, data []byte) expectation {
	switch {
	case data[2]>>4 != 2:
		return discarded(RType)
	case len(data) == 16:
		return discarded(RReport) // refused by name: no counters (W-3)
	case v.Case == "OK":
		return expectation{believes, []int{RReported}}
	case v.Case == "M-7":
		return discarded(RCount)
	}
	return discarded(RCount, RSingle)
}

// flowVersion carries a signal of flow control, of which a switch knows nothing: to it this is a newer version, which
// begins like the first and may be longer (M-25).
const flowVersion = 3

func expectFeedback(v vector, payload []byte) expectation {
	switch {
	case len(payload) >= 32 && payload[8] == flowVersion:
		return expectation{believes, []int{RReported}}
	case v.Case == "M-21":
		return discarded(RReport, RTruncated)
	case v.Case == "M-22":
		return discarded(RCounters)
	case v.Case == "M-25":
		return discarded(RTrailing)
	case v.Decoded.Version == 0 || v.Decoded.Version == 2:
		return discarded(RReport) // refused by name: no counters, an IPv6 pair
	case v.Decoded.N > 64:
		return discarded(RCounters)
	}
	return expectation{believes, []int{RReported}}
}

const vectorService = 1

// oneVector sends a packet to a fresh switch whose worker has joined.
func oneVector(p *model.Program, v vector, data []byte, feedback bool, want expectation) []string {
	s, service, err := vectorSwitch(p)
	if err != nil {
		return []string{err.Error()}
	}
	frame := service.FromClient(40000, data)
	if feedback {
		frame = service.FromWorker(0, data)
	}
	before, state := outcomes(s), s.State()
	j := &vectorJudge{v: v, want: want}
	j.out, j.still = s.Run(frame, 8)
	for r := range reasons {
		if s.Outcome(vectorService, r)+s.Outcome(0, r) > before[r] && r != RCredited {
			j.counted = append(j.counted, r)
		}
	}
	j.frames()
	j.reasons()
	if (want.verdict == discards || want.verdict == drops) && s.State() != state {
		j.fail("a packet that was refused changed registers (R-54)")
	}
	if odd := s.Odd(); odd != 0 {
		j.fail("%d odd accesses, last of %s", odd, s.LastOdd)
	}
	return j.failed
}

// vectorJudge compares what came of a vector with what is expected.
type vectorJudge struct {
	v          vector
	want       expectation
	counted    []int
	out, still []model.Frame
	failed     []string
}

func (j *vectorJudge) fail(format string, args ...any) {
	j.failed = append(j.failed, fmt.Sprintf("%s (%s, %s): %s", j.v.Name, j.v.Role, j.v.Case, fmt.Sprintf(format, args...)))
}

// one frame, sound, at a port.
func (j *vectorJudge) one(port uint64) bool {
	return len(j.out) == 1 && j.out[0].Port == port && bed.Sound(j.out[0].Data)
}

func (j *vectorJudge) frames() {
	switch j.want.verdict {
	case forwards:
		if !j.one(bed.WorkerPort) {
			j.fail("want it forwarded, got %d frames, reasons %v", len(j.out), j.counted)
		}
	case drops:
		if !j.one(bed.ClientPort) || string(bed.Payload(j.out[0].Data)[8:]) != "DROP" {
			j.fail("want DROP, got %d frames, reasons %v", len(j.out), j.counted)
		}
	default:
		if len(j.out) != 0 {
			j.fail("want nothing sent, got %d frames", len(j.out))
		}
	}
	if len(j.still) != 0 {
		j.fail("it stays in the loop")
	}
}

func (j *vectorJudge) reasons() {
	ok := len(j.counted) == 1 && slices.Contains(j.want.reasons, j.counted[0])
	if len(j.want.reasons) == 0 {
		ok = len(j.counted) == 0
	}
	if !ok {
		j.fail("want reason %v, counted %v", j.want.reasons, j.counted)
	}
}

func outcomes(s *bed.Switch) [reasons]uint64 {
	var all [reasons]uint64
	for r := range all {
		all[r] = s.Outcome(vectorService, r) + s.Outcome(0, r)
	}
	return all
}

func vectorSwitch(p *model.Program) (*bed.Switch, bed.Service, error) {
	service := bed.Service{Index: vectorService, Workers: 1, Depth: 3, Limit: 10, Patience: 1000, Loss: 100}
	s, err := bed.New(p)
	if err != nil {
		return nil, service, err
	}
	if err := s.Add(service); err != nil {
		return nil, service, err
	}
	s.Run(service.FromWorker(0, bed.Feedback{Flags: bed.Join, N: 3, Incarnation: 1}.Bytes()), 8)
	return s, service, nil
}
