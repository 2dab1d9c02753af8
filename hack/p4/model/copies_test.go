// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// Egress adds one to a and writes how it was reached into c.
const copiesV1 = `#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; bit<8> c; }
struct headers_t { h_t h; }
struct meta_t { bit<8> x; }
parser P(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start { pkt.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout meta_t meta) { apply { } }
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply { hdr.h.b = 9; std.egress_spec = 2; %s }
}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply { hdr.h.a = hdr.h.a + 1; hdr.h.c = std.instance_type[7:0]; %s }
}
control C(inout headers_t hdr, inout meta_t meta) { apply { } }
control D(packet_out pkt, in headers_t hdr) { apply { pkt.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
`

const copiesTNA = `#include <core.p4>
#include <tna.p4>
header h_t { bit<8> a; bit<8> b; bit<8> c; }
header mark_t { bit<8> kind; }
struct headers_t { h_t h; mark_t mark; }
struct meta_t { bit<8> x; }
parser P(packet_in pkt, out headers_t hdr, out meta_t meta, out ingress_intrinsic_metadata_t i) {
    state start { pkt.extract(i); pkt.advance(PORT_METADATA_SIZE); pkt.extract(hdr.h); transition accept; }
}
control I(inout headers_t hdr, inout meta_t meta, in ingress_intrinsic_metadata_t i,
          inout ingress_intrinsic_metadata_for_deparser_t d, inout ingress_intrinsic_metadata_for_tm_t tm) {
    apply { hdr.h.b = 9; tm.ucast_egress_port = 2; %s }
}
control D(packet_out pkt, inout headers_t hdr, in meta_t meta, in ingress_intrinsic_metadata_for_deparser_t d) {
    Mirror() mirror;
    apply {
        if (d.mirror_type == 1) { mirror.emit<mark_t>(5, hdr.mark); }
        if (d.mirror_type == 2) { mirror.emit(5); }
        pkt.emit(hdr.h);
    }
}
parser EP(packet_in pkt, out headers_t hdr, out meta_t meta, out egress_intrinsic_metadata_t e) {
    state start { pkt.extract(e); pkt.extract(hdr.h); transition accept; }
}
control E(inout headers_t hdr, inout meta_t meta, in egress_intrinsic_metadata_t e) { apply { hdr.h.a = hdr.h.a + 1; %s } }
control ED(packet_out pkt, inout headers_t hdr, in meta_t meta) { apply { pkt.emit(hdr.h); } }
Pipeline(P(), I(), D(), EP(), E(), ED()) pipe;
Switch(pipe) main;
`

type sent struct {
	port uint64
	data []byte
}

func outOf(t *testing.T, text string) []sent {
	t.Helper()
	p, err := loadText(text)
	if err != nil {
		t.Fatal(err)
	}
	m := model.NewMachine(p)
	m.Sessions[5], m.Groups[3], m.Groups[4] = 7, model.CopiesTo(4, 6), []model.Copy{{Port: 4, Instance: 8}, {Port: 4, Instance: 9}}
	var all []sent
	for _, f := range m.Pass(model.Frame{Port: 1, Data: []byte{1, 2, 3, 4}}) {
		all = append(all, sent{f.Port, f.Data})
	}
	return all
}

// Copies of packets, by multicast and by mirroring, go where they should and are what they should be in both architectures.
func TestCopies(t *testing.T) {
	v1 := func(ingress, egress string) string { return fmt.Sprintf(copiesV1, ingress, egress) }
	tna := func(ingress string, egress ...string) string {
		return fmt.Sprintf(copiesTNA, ingress, strings.Join(egress, ""))
	}
	for _, c := range []struct {
		name, text string
		want       []sent
	}{
		{"one", v1("", ""), []sent{{2, []byte{2, 9, 0, 4}}}},
		{"group", v1("std.mcast_grp = 3;", ""), []sent{{4, []byte{2, 9, 0, 4}}, {6, []byte{2, 9, 0, 4}}}},
		{"copies told apart", v1("std.mcast_grp = 4;", "hdr.h.c = std.egress_rid[7:0];"), []sent{{4, []byte{2, 9, 8, 4}}, {4, []byte{2, 9, 9, 4}}}},
		{"clone of what came", v1("clone(CloneType.I2E, 5);", ""), []sent{{2, []byte{2, 9, 0, 4}}, {7, []byte{2, 2, 1, 4}}}},
		{"clone of what came, the packet dropped", v1("clone(CloneType.I2E, 5); mark_to_drop(std);", ""), []sent{{7, []byte{2, 2, 1, 4}}}},
		{"clone of what leaves", v1("", "if (std.instance_type == 0) { clone(CloneType.E2E, 5); }"), []sent{{2, []byte{2, 9, 0, 4}}, {7, []byte{3, 9, 2, 4}}}},
		{"clone to nowhere", v1("clone(CloneType.I2E, 6);", ""), []sent{{2, []byte{2, 9, 0, 4}}}},
		{"one, TNA", tna(""), []sent{{2, []byte{2, 9, 3, 4}}}},
		{"group, TNA", tna("tm.mcast_grp_a = 3;"), []sent{{4, []byte{2, 9, 3, 4}}, {6, []byte{2, 9, 3, 4}}, {2, []byte{2, 9, 3, 4}}}},
		{"copies told apart, TNA", tna("tm.ucast_egress_port = 511; tm.mcast_grp_a = 4;", "hdr.h.c = e.egress_rid[7:0];"),
			[]sent{{4, []byte{2, 9, 8, 4}}, {4, []byte{2, 9, 9, 4}}}},
		{"mirror, TNA", tna("d.mirror_type = 2;"), []sent{{2, []byte{2, 9, 3, 4}}, {7, []byte{2, 2, 3, 4}}}},
		{"mirror with a header, TNA", tna("d.mirror_type = 1; hdr.mark.setValid(); hdr.mark.kind = 8;"), []sent{{2, []byte{2, 9, 3, 4}}, {7, []byte{9, 1, 2, 3, 4}}}},
		{"mirror of what is dropped, TNA", tna("d.mirror_type = 2; d.drop_ctl = 1;"), []sent{{7, []byte{2, 2, 3, 4}}}},
	} {
		got := outOf(t, c.text)
		same := len(got) == len(c.want)
		for i := range min(len(got), len(c.want)) {
			same = same && got[i].port == c.want[i].port && bytes.Equal(got[i].data, c.want[i].data)
		}
		if !same {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
