// SPDX-License-Identifier: Apache-2.0

package judge_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/hack/p4/judge"
	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// The smallest program with something in its ingress.
const frame = `
#include <core.p4>
#include <tna.p4>
header h_t { bit<32> a; bit<32> b; bit<32> c; bit<32> d; }
struct headers_t { h_t h; }
struct pair_t { int<32> lo; int<32> hi; }
struct meta_t { bit<32> x; bit<32> y; bit<32> z; bit<16> at; }
parser P(packet_in pkt, out headers_t hdr, out meta_t meta, out ingress_intrinsic_metadata_t i) {
    state start { pkt.extract(i); pkt.advance(PORT_METADATA_SIZE); pkt.extract(hdr.h); transition accept; }
}
control I(inout headers_t hdr, inout meta_t meta, in ingress_intrinsic_metadata_t i,
          inout ingress_intrinsic_metadata_for_tm_t tm) {
%s
}
control D(packet_out pkt, inout headers_t hdr, in meta_t meta) { apply { pkt.emit(hdr); } }
parser EP(packet_in pkt, out headers_t hdr, out meta_t meta, out egress_intrinsic_metadata_t e) {
    state start { pkt.extract(e); transition accept; }
}
control E(inout headers_t hdr, inout meta_t meta, in egress_intrinsic_metadata_t e) { apply { } }
control ED(packet_out pkt, inout headers_t hdr, in meta_t meta) { apply { pkt.emit(hdr); } }
Pipeline(P(), I(), D(), EP(), E(), ED()) pipe;
Switch(pipe) main;
`

const register = `Register<int<32>, bit<16>>(1024) r;
    RegisterAction<int<32>, bit<16>, int<32>>(r) get = { void apply(inout int<32> v, out int<32> rv) { rv = v; } };
    RegisterAction<int<32>, bit<16>, int<32>>(r) up = { void apply(inout int<32> v, out int<32> rv) { v = v + 1; } };
`

func judged(t *testing.T, body string) *judge.Verdict {
	t.Helper()
	text := fmt.Sprintf(frame, body)
	p, err := model.LoadFrom("x.p4", func(string) (string, error) { return text, nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	return judge.Gress(p, p.Ingress)
}

func action(body string) string {
	return `Register<pair_t, bit<16>>(1024) r;
    RegisterAction<pair_t, bit<16>, int<32>>(r) act = { void apply(inout pair_t v, out int<32> rv) { ` + body + ` } };
    apply { act.execute(meta.at); }`
}

func repeated(n int, format string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.ReplaceAll(format, "#", fmt.Sprint(i)))
	}
	return b.String()
}

// W-4, W-5: each rule is found where it is broken, and nothing where it is not.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		name, body, finding string
		stages, doubles     int
	}{
		{"nothing", `apply { }`, "", 0, 0},
		{"a chain", `apply { meta.x = hdr.h.a + 1; meta.y = meta.x + 1; meta.z = meta.y + 1; }`, "", 3, 0},
		{"side by side", `apply { meta.x = hdr.h.a + 1; meta.y = hdr.h.b + 1; meta.z = hdr.h.c + 1; }`, "", 1, 0},
		{"read before written is no wait", `apply { meta.x = hdr.h.a; hdr.h.a = hdr.h.b; }`, "", 1, 0},
		{"written twice waits", `apply { meta.x = hdr.h.a; meta.x = hdr.h.b; }`, "", 2, 0},
		{"two arms", `apply { if (hdr.h.a == 1) { meta.x = 1; } else { meta.x = 2; } }`, "", 1, 0},
		{"a gateway waits for what it reads", `apply { meta.x = hdr.h.a + 1; if (meta.x == 1) { meta.y = 1; } }`, "", 2, 0},
		{"two operations", `apply { meta.x = hdr.h.a + hdr.h.b + hdr.h.c; }`, "2 operations", 2, 0},
		{"a gateway that compares sizes", `apply { if (hdr.h.a < hdr.h.b) { meta.x = 1; } }`, "constants only", 1, 0},
		{"a gateway that computes", `apply { if (hdr.h.a + 1 == 2) { meta.x = 1; } }`, "only compares", 1, 0},
		{"a gateway of equals", `apply { if (hdr.h.a == hdr.h.b) { meta.x = 1; } }`, "", 1, 0},
		{"two accesses", register + `apply { meta.x = (bit<32>)get.execute(meta.at); up.execute(meta.at); }`, "second time", 1, 1},
		{"two accesses, one in an arm", register + `apply { up.execute(0); if (hdr.h.a == 1) { up.execute(1); } }`, "second time", 1, 1},
		{"one access in each arm", register + `apply { if (hdr.h.a == 1) { up.execute(0); } else { meta.x = (bit<32>)get.execute(1); } }`, "", 1, 0},
		{"one stage for both arms", register + `apply { if (hdr.h.a == 1) { up.execute(0); } else { meta.x = hdr.h.b + 1; meta.y = (bit<32>)get.execute(meta.x[15:0]); meta.z = meta.y; } }`, "", 3, 0},
		{"the earlier arm waits for the later one", register + `apply { if (hdr.h.a == 1) { meta.x = (bit<32>)get.execute(0); meta.y = meta.x + 1; } else { meta.x = hdr.h.b + 1; meta.y = meta.x + 1; meta.z = (bit<32>)get.execute(meta.y[15:0]); } }`, "", 4, 0},
		{"two inputs", action(`v.lo = (int<32>)hdr.h.a; v.hi = (int<32>)hdr.h.b;`), "", 1, 0},
		{"three inputs", action(`v.lo = (int<32>)hdr.h.a; v.hi = (int<32>)hdr.h.b; rv = (int<32>)hdr.h.c;`), "3 inputs", 1, 0},
		{"two comparisons", action(`if (v.lo > 1 || v.hi > 1) { rv = 1; }`), "", 1, 0},
		{"three comparisons", action(`if (v.lo > 1 || v.hi > 1 || v.lo == 7) { rv = 1; }`), "compares 3 times", 1, 0},
		{"five constants", action(`v.lo = 1; v.hi = 2; rv = 3; if (v.lo > 4) { rv = 5; }`), "5 constants", 1, 0},
		{"too large", `Register<int<32>, bit<32>>(140000) r; RegisterAction<int<32>, bit<32>, int<32>>(r) up = { void apply(inout int<32> v, out int<32> rv) { v = v + 1; } }; apply { up.execute(0); }`, "blocks", 1, 0},
		{"four actions", strings.Replace(register, "\n", "\n"+repeated(2, "RegisterAction<int<32>, bit<16>, int<32>>(r) more# = { void apply(inout int<32> v, out int<32> rv) { v = 0; } };\n"), 1) + `apply { up.execute(0); }`, "", 1, 0},
		{"five actions", strings.Replace(register, "\n", "\n"+repeated(3, "RegisterAction<int<32>, bit<16>, int<32>>(r) more# = { void apply(inout int<32> v, out int<32> rv) { v = 0; } };\n"), 1) + `apply { up.execute(0); }`, "5 actions", 1, 0},
		{"four registers a stage", repeated(4, manyRegisters) + `apply { ` + repeated(4, "up#.execute(0);") + ` }`, "", 1, 0},
		{"five registers a stage", repeated(5, manyRegisters) + `apply { ` + repeated(5, "up#.execute(0);") + ` }`, "", 2, 0},
		{"twelve stages", `apply { ` + repeated(12, "meta.x = meta.x + 1;") + ` }`, "", 12, 0},
		{"thirteen stages", `apply { ` + repeated(13, "meta.x = meta.x + 1;") + ` }`, "there are 12", 13, 0},
		{"an action with a swap", `action swap() { bit<32> t = hdr.h.a; hdr.h.a = hdr.h.b; hdr.h.b = t; } table t { key = { hdr.h.c: exact; } actions = { swap; } default_action = swap(); } apply { t.apply(); meta.x = hdr.h.b + 1; }`, "", 3, 0},
		{"what a table's action takes is waited for", `action add() { hdr.h.d = meta.x + 1; } table t { key = { hdr.h.c: exact; } actions = { add; } default_action = add(); } apply { meta.x = hdr.h.a + 1; t.apply(); }`, "", 2, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := judged(t, c.body)
			if v.Stages != c.stages || v.DoubleAccesses != c.doubles {
				t.Errorf("%d stages, %d double accesses; want %d and %d", v.Stages, v.DoubleAccesses, c.stages, c.doubles)
			}
			found := strings.Join(v.Findings, "\n")
			if c.finding == "" && found != "" || !strings.Contains(found, c.finding) {
				t.Errorf("findings %q, want %q", found, c.finding)
			}
		})
	}
}

const manyRegisters = `Register<int<32>, bit<16>>(1024) r#; RegisterAction<int<32>, bit<16>, int<32>>(r#) up# = { void apply(inout int<32> v, out int<32> rv) { v = v + 1; } };
`
