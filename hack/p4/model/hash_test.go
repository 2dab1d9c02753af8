// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// Both hash functions give the check values of their catalogue entries ("123456789"), in both architectures' spelling.
func TestHash(t *testing.T) {
	text := fmt.Sprintf(smallest, "header nine_t { bit<32> a; bit<32> b; bit<8> c; }\nstruct more_t { bit<16> x; bit<32> y; }", "",
		`hash(meta.y, HashAlgorithm.crc16, (bit<16>)0, { 32w0x31323334, 32w0x35363738, 8w0x39 }, (bit<32>)0x10000);
		 hash(meta.z, HashAlgorithm.crc32, (bit<32>)0, { 32w0x31323334, 32w0x35363738, 8w0x39 }, (bit<64>)0x100000000);
		 hdr.h.b = meta.y; hdr.h.a = meta.z[31:24]; hdr.h.c = meta.z[7:0]; std.egress_spec = 1;`)
	text = strings.Replace(text, "bool t; }", "bool t; bit<32> z; }", 1)
	p, err := loadText(text)
	if err != nil {
		t.Fatal(err)
	}
	out := model.NewMachine(p).Pass(model.Frame{Data: []byte{0, 0, 0, 0}})
	if len(out) != 1 || fmt.Sprintf("%x", out[0].Data) != "cbbb3d26" {
		t.Errorf("got %v", out)
	}
	for body, want := range map[string]string{
		"hash(meta.y, HashAlgorithm.csum16, (bit<16>)0, { hdr.h.a }, (bit<32>)0x10000);": "this hash function is not in the subset",
		"hash(meta.y, HashAlgorithm.crc16, (bit<16>)1, { hdr.h.a }, (bit<32>)0x10000);":  "with a base",
		"hash(meta.y, HashAlgorithm.crc16, (bit<16>)0, { hdr.h.a }, (bit<32>)16);":       "with a base or fewer numbers",
		"hash(meta.x, HashAlgorithm.crc16, (bit<16>)0, { hdr.h.a }, (bit<32>)0x10000);":  "wants a variable of bit<16>",
	} {
		if _, err := loadText(fmt.Sprintf(smallest, "", "", body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", body, err)
		}
	}
}
