// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/hack/p4/model"
	"github.com/bobtail-dev/bobtail/hack/p4/syntax"
)

// The smallest program; what is tried stands at the top, in ingress' declarations, or in its apply.
const smallest = `#include <core.p4>
#include <v1model.p4>
%s
header h_t { bit<8> a; bit<16> b; bit<8> c; }
struct headers_t { h_t h; }
struct meta_t { bit<8> x; bit<16> y; int<16> s; bool t; }
parser P(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start { pkt.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout meta_t meta) { apply { } }
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
%s
    apply {
%s
    }
}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) { apply { } }
control C(inout headers_t hdr, inout meta_t meta) { apply { } }
control D(packet_out pkt, in headers_t hdr) { apply { pkt.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
`

func loadText(text string) (*model.Program, error) {
	return model.LoadFrom("x.p4", func(name string) (string, error) {
		if name != "x.p4" {
			return "", os.ErrNotExist
		}
		return text, nil
	}, nil)
}

// What is outside the subset is refused with file, line and construct, and nothing runs.
func TestRefused(t *testing.T) {
	top := strings.Count(strings.Split(smallest, "%s")[0], "\n") + 1
	for _, c := range []struct{ top, decl, body, want string }{
		{"extern X { X(); }", "", "", "'extern' is not in the subset"},
		{"enum E { A }", "", "", "'enum' is not in the subset"},
		{"#if 1\n#endif", "", "", "#if is not in the subset"},
		{"#include <psa.p4>", "", "", "<psa.p4> is not in the subset"},
		{"#include \"none.p4\"", "", "", "not exist"},
		{"#ifdef A", "", "", "without #endif"},
		{"#define F(a) a\nconst bit<8> k = F(1;", "", "", "does not end"},
		{"header v_t { varbit<8> a; }", "", "", "varbit is not in the subset"},
		{"header odd_t { bit<7> a; }", "", "", "want whole bytes"},
		{"struct wide_t { bit<65> a; }", "", "", "widths are 1 to 64"},
		{"struct twice_t { bit<8> a; bit<8> a; }", "", "", "two members a"},
		{"const bit<4> k = 16;", "", "", "16 does not fit bit<4>"},
		{"", "Meter<bit<8>>(1) m;", "", "Meter is not in the subset of v1model"},
		{"", "register<bit<8>>(0) r;", "", "want 1 to"},
		{"", "table t { key = { hdr.h.a: range; } actions = { NoAction; } }", "", "range is not in the subset"},
		{"", "table t { key = { hdr.h.a: exact; } actions = { none; } }", "", "none is no action"},
		{"", "table t { key = { hdr.h.a: exact; } actions = { NoAction; } const entries = { } }", "", "property 'entries' is not in the subset"},
		{"", "", "meta.x = meta.y;", "bit<16> is assigned to bit<8>"},
		{"", "", "meta.x = meta.x * 2;", "operator * is not in the subset"},
		{"", "", "meta.x = meta.x / 2;", "operator / is not in the subset"},
		{"", "", "meta.x = (bit<8>)meta.s;", "a cast of int<16> to bit<8>"},
		{"", "", "meta.x = meta.x << meta.x;", "want a constant"},
		{"", "", "if (meta.x) { }", "want a bool in an if"},
		{"", "", "meta.x = none;", "none is not declared"},
		{"", "", "hdr.h.none = 1;", "h_t has no member none"},
		{"", "", "hdr.h = hdr.h;", "whole h_t"},
		{"", "", "return;", "'return' is not in the subset"},
		{"", "", "switch (meta.x) { }", "'switch' is not in the subset"},
		{"", "", "hdr.h.a.push_front(1);", "push_front is not in the subset"},
		{"", "", "meta.x = 8w1 + 8s1;", "two types"},
		{"", "", "meta.x = 9w1[3:0] ++ 4w1; meta.x[8:0] = 1;", "[8:0] of bit<8>"},
		{"", "action a(in bit<8> v, inout bit<8> w) { w = v; }", "a(meta.x + 1, meta.x);", "is written by what is called"},
		{"", "", "digest(1, 1);", "digest is not in the subset"},
	} {
		text := fmt.Sprintf(smallest, c.top, c.decl, c.body)
		_, err := loadText(text)
		var e *syntax.Error
		if err == nil || !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q%q%q: %v, want %q", c.top, c.decl, c.body, err, c.want)
			continue
		}
		if e.Pos.File != "x.p4" || e.Pos.Line < top-1 {
			t.Errorf("%q: the place is %v", c.want, e.Pos)
		}
	}
}

// What the subset has gives the values that P4_16 says.
func TestValues(t *testing.T) {
	for _, c := range []struct {
		body string
		x, y uint64
	}{
		{"meta.x = hdr.h.a + 255; meta.y = 16w5 - 16w6;", 0, 65535},
		{"meta.x = 8w250 |+| 8w10; meta.y = 16w5 |-| 16w6;", 255, 0},
		{"meta.x = ~8w0x0f; meta.y = 8w1 ++ 8w2;", 0xf0, 0x102},
		{"meta.s = -16s3; meta.y = (bit<16>)(meta.s >> 1); meta.x = 8w6 >> 1;", 3, 0xfffe},
		{"meta.s = -16s1; if (meta.s < 0) { meta.x = 1; } if ((bit<16>)meta.s > 5) { meta.y = 2; }", 1, 2},
		{"meta.y[11:4] = 8w0xab; meta.x = meta.y[7:0];", 0xb0, 0xab0},
		{"meta.t = true; meta.x = meta.t ? 8w4 : 8w5; meta.y = !meta.t || hdr.h.isValid() ? 16w1 : 16w2;", 4, 1},
		{"hdr.h.setInvalid(); if (!hdr.h.isValid()) { meta.x = 9; } hdr.h.setValid(); meta.y = hdr.h.b; hdr.h.c = 4;", 9, 0xa5a5},
		{"bit<8> v = 3; { bit<8> w = v + 1; meta.x = w; } meta.y = (bit<16>)(bit<8>)16w0x1ff;", 4, 0xff},
	} {
		p, err := loadText(fmt.Sprintf(smallest, "", "", c.body+" hdr.h.a = meta.x; hdr.h.b = meta.y; std.egress_spec = 1;"))
		if err != nil {
			t.Errorf("%s: %v", c.body, err)
			continue
		}
		out := model.NewMachine(p).Pass(model.Frame{Data: []byte{1, 2, 3, 4, 5}})
		want := []byte{byte(c.x), byte(c.y >> 8), byte(c.y), 4, 5}
		if len(out) != 1 || string(out[0].Data) != string(want) {
			t.Errorf("%s: %v, want %x", c.body, out, want)
		}
	}
}

// Nothing makes the front end panic, or run for ever.
func FuzzSource(f *testing.F) {
	f.Add(fmt.Sprintf(smallest, "const bit<8> k = 8w3;", "action a(bit<8> v) { meta.x = v; } table t { key = { hdr.h.a: exact; } actions = { a; NoAction; } default_action = a(1); }", "if (t.apply().hit) { meta.y = 1; } else { mark_to_drop(std); }"))
	sources := map[string]string{} // of the router, for whoever includes them
	for _, name := range []string{"tna.p4", "v1model.p4", "router.p4", "parser.p4", "headers.p4"} {
		text, err := os.ReadFile("../../../dataplane/p4/router/" + name)
		if err != nil {
			f.Fatal(err)
		}
		sources[name] = string(text)
		f.Add(string(text))
	}
	f.Add("#define A B B\n#define B A A\nA")
	f.Add("#define F(x) x F(x)\nF(F(F(1)))")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := model.LoadFrom("x.p4", func(name string) (string, error) {
			if name == "x.p4" {
				return text, nil
			}
			if source, ok := sources[name]; ok {
				return source, nil
			}
			return "", os.ErrNotExist
		}, nil)
		if err != nil {
			return
		}
		m := model.NewMachine(p)
		for _, data := range [][]byte{nil, {1, 2, 3, 4, 5, 6, 7, 8}, make([]byte, 200)} {
			m.Run(model.Frame{Data: data}, 4)
		}
	})
}
