// SPDX-License-Identifier: Apache-2.0

package stf

import (
	"os"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

func router(t testing.TB) *model.Program {
	p, err := model.Load("../../../dataplane/p4/router/v1model.p4", nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A file that says what is not so fails, and says where.
func TestWhatIsExpectedIsJudged(t *testing.T) {
	const station = "add Ingress.route.station hdr.ethernet.dst:0x0200000000aa Ingress.route.to_port(port:5)\n"
	const frame = "0200000000AA 0200000000BB 0806 0102"
	const all = "FFFFFFFFFFFF 0200000000BB 0806 0102"
	const copies = "add Ingress.route.station hdr.ethernet.dst:0xffffffffffff Ingress.route.to_group(number:2)\nmc_mgrp_create 3\n" +
		"mc_node_create 8 4 6\nmc_node_create 9 4\nmc_node_associate 3 1\nmc_node_associate 3 0\npacket 1 " + all + "\n"
	for _, c := range []struct{ text, want string }{
		{station + "packet 1 " + frame + "\nexpect 5 " + frame + "$", ""},
		{station + "packet 1 " + frame + "\nexpect 5 0200000000AA ************ 08", ""},
		{station + "packet 1 " + frame + "\nexpect 5", ""},
		{station + "packet 1 " + frame + "\nexpect 6 " + frame, "nothing more came out of port 6"},
		{station + "packet 1 " + frame, "nobody expected"},
		{station + "packet 1 " + frame + "\nexpect 5 " + frame[:20] + "$", "port 5 sent"},
		{station + "packet 1 " + frame + "\nexpect 5 FF", "port 5 sent"},
		{"packet 1 " + frame + "\nno_packet", ""},
		{station + "packet 1 " + frame + "\nexpect 5\nno_packet", "no_packet is said"},
		{"setdefault Ingress.route.station Ingress.route.to_port(7)\npacket 1 " + frame + "\nexpect 7", ""},
		{"remove all", ":1: remove is no command"},
		{"add Ingress.route.none hdr.a:1 x()", "no table"},
		{"add Ingress.route.station hdr.ethernet.src:1 Ingress.route.to_port(port:5)", "no key hdr.ethernet.src"},
		{"add Ingress.route.station hdr.ethernet.dst:1 Ingress.route.to_port(port:512)", "does not fit"},
		{"packet 1 0", "half a byte"},
		{copies + "expect 4 " + all + "$\nexpect 4 " + all + "$\nexpect 6 " + all + "$", ""},
		{copies + "expect 4 " + all, "nobody expected"},
		{"mc_node_associate 3 0", "a group and a handle"},
		{"mc_node_create 1", "an instance and ports"},
	} {
		r, err := Replay("x.stf", c.text, model.NewMachine(router(t)))
		said := ""
		if err != nil {
			said = err.Error()
		} else {
			said = strings.Join(r.Failed, "\n")
		}
		if c.want == "" && said != "" || !strings.Contains(said, c.want) {
			t.Errorf("%q: %q, want %q", c.text, said, c.want)
		}
	}
}

// Nothing in a file makes the player panic.
func FuzzReplay(f *testing.F) {
	p := router(f)
	text, err := os.ReadFile("../../../dataplane/p4/router/stf/forward.stf")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Add("add Ingress.route.station hdr.ethernet.dst:0x02**/4 Ingress.route.to_port(port:5)")
	f.Add("mc_mgrp_create 3\nmc_node_create 8 4 6\nmc_node_associate 3 0\nadd Ingress.route.station hdr.ethernet.dst:2 Ingress.route.to_group(3)\npacket 0 000000000002")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Count(text, "packet") < 20 {
			Replay("x.stf", text, model.NewMachine(p)) //nolint:errcheck // that it returns is the test
		}
	})
}
