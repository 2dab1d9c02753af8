// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"

	"github.com/bobtail-dev/bobtail/hack/p4/bed"
	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// BoxVectors sends the shared vectors to a switch that is a flow-control box: packets to the port for requests, FEEDBACK
// to the other one. What C and Go refuse changes nothing, and everything is counted once (R-54, W-13).
func BoxVectors(file string, p *model.Program) (run int, failed []string, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, nil, err
	}
	var all vectorFile
	if err := json.Unmarshal(text, &all); err != nil {
		return 0, nil, fmt.Errorf("%s: %w", file, err)
	}
	b, err := bed.NewBox(p, 4096, 0)
	if err != nil {
		return 0, nil, err
	}
	b.At(10_000)
	for _, v := range all.Packets {
		data, err := hex.DecodeString(v.Hex)
		if err != nil {
			return run, nil, fmt.Errorf("%s: %s: %w", file, v.Name, err)
		}
		run++
		failed = append(failed, boxVector(b, v, bed.AskBox(bed.ClientIP, uint16(20000+run), data))...)
	}
	for _, v := range all.Feedback {
		data, err := hex.DecodeString(v.Hex)
		if err != nil {
			return run, nil, fmt.Errorf("%s: %s: %w", file, v.Name, err)
		}
		run++
		failed = append(failed, boxVector(b, v, bed.TellBox(1, append([]byte{0xcc, 8, 0x20, 0xe0, 0, 0, 0, 1}, data...)))...)
	}
	if odd := b.Odd(); odd != 0 {
		failed = append(failed, fmt.Sprintf("box: %d odd accesses, last of %s", odd, b.LastOdd))
	}
	return run, failed, nil
}

// boxVector sends one: what becomes of it must be what was counted, and what no client may send reaches no member.
func boxVector(b *bed.Box, v vector, in model.Frame) (failed []string) {
	fail := func(format string, args ...any) {
		failed = append(failed, fmt.Sprintf("box: %s (%s, %s): ", v.Name, v.Role, v.Case)+fmt.Sprintf(format, args...))
	}
	var before [bed.BoxReasons]uint64
	for r := range before {
		before[r] = b.Reason(r)
	}
	changes := b.Changes
	out, _ := b.All(in)
	reason, counted := 0, 0
	for r := range before {
		if n := b.Reason(r) - before[r]; n > 0 {
			reason, counted = r, counted+int(n)
		}
	}
	frames := map[bool]int{true: 1}[reason >= bed.BoxReason["option"] && reason <= bed.BoxReason["busy_again"]]
	if reason == bed.BoxReason["passed"] {
		frames = bed.BoxMembers
	}
	if counted != 1 || len(out) != frames {
		fail("%d reasons, the last of them %d, and %d frames: want one, and %d", counted, reason, len(out), frames)
	}
	for _, f := range out {
		if !bed.Sound(f.Data) {
			fail("checksums or lengths are wrong: %x", f.Data)
		}
	}
	if reason != bed.BoxReason["passed"] && b.Changes != changes {
		fail("reason %d, and registers changed (R-54)", reason)
	}
	if want := boxWants(v, in); want != 0 && want != reason {
		fail("reason %d, want %d", reason, want)
	}
	return failed
}

// boxWants is what is counted of a packet that the rules leave no doubt about; 0: there is some.
func boxWants(v vector, in model.Frame) int {
	p := bed.Payload(in.Data)
	asks := len(p) >= 8 && p[2]>>4 == 0 && p[3] >= 0xc0 && p[1] == 8 && v.Case == "OK" && in.Port == bed.ClientPort
	switch {
	case asks && p[2]&15 >= 2 && p[2]&15 <= 3:
		return bed.BoxReason["passed"]
	case asks && p[2]&15 < 2:
		return bed.BoxReason["unordered"]
	}
	return map[string]int{"M-1": 1, "M-2": 2, "M-3": 3, "OPT-SIZE": 14}[v.Case]
}
