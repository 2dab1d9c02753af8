// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"bytes"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/loads"
)

func someLoads(n int) []loads.Load {
	var all []loads.Load
	for i := range n {
		all = append(all, loads.Load{Server: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), uint16(80+i%2)), Open: uint32(i * 1000)})
	}
	return all
}

func someSixLoads(n int) []loads.Load {
	all := someLoads(n)
	for i, l := range all {
		b := [16]byte{0: 0xfd}
		copy(b[12:], l.Server.Addr().AsSlice())
		all[i].Server = netip.AddrPortFrom(netip.AddrFrom16(b), l.Server.Port())
	}
	return all
}

func reportBody(t testing.TB, r Report) []byte {
	t.Helper()
	b, err := sealReport(key, r)
	if err != nil {
		t.Fatal(err)
	}
	body, sum, reason := split(b)
	if reason != "" || newKeyring([][]byte{key}).opens(0, body, sum) != 0 {
		t.Fatalf("what was written is not signed: %q", reason)
	}
	return body
}

// C-62: what is told arrives; a report with as many loads as it may have fits one frame.
func TestReportRoundTrip(t *testing.T) {
	for _, all := range [][]loads.Load{nil, someLoads(1), someLoads(MaxLoads), someSixLoads(1), someSixLoads(MaxLoadsSix)} {
		n := len(all)
		want := Report{Nonce: 1, Echo: 2, Sequence: 3, From: strings.Repeat("n", maxName), NewerKey: n == 1, Loads: all}
		body := reportBody(t, want)
		if size := len(body) + tagSize; size > 1500-48 {
			t.Errorf("%d loads are %d bytes, more than a frame carries", n, size)
		}
		if got, reason := parseReport(body); reason != "" || !reflect.DeepEqual(got, want) {
			t.Errorf("%d loads: %q, %+v", n, reason, got)
		}
	}
	if _, err := sealReport(key, Report{From: "a", Loads: someLoads(MaxLoads + 1)}); err == nil {
		t.Error("a report with too many loads was written")
	}
	if _, err := sealReport(key, Report{From: "a", Loads: someSixLoads(MaxLoadsSix + 1)}); err == nil {
		t.Error("a report with too many loads of IPv6 was written")
	}
	if _, err := sealReport(key, Report{From: "a", Loads: append(someLoads(1), someSixLoads(1)...)}); err == nil {
		t.Error("a report of both families was written")
	}
	if _, err := sealReport(key, Report{}); err == nil {
		t.Error("a report without name was written")
	}
}

func TestReportRefuses(t *testing.T) {
	good := reportBody(t, Report{Nonce: 1, From: "node-a", Loads: someLoads(2)})
	heartbeat, err := seal(key, Packet{Nonce: 1, Message: said("node-a")})
	if err != nil {
		t.Fatal(err)
	}
	const loadSize = 10
	for name, c := range map[string]struct {
		change func(b []byte) []byte
		want   Reason
	}{
		"a heartbeat": {func([]byte) []byte { return heartbeat[:len(heartbeat)-tagSize] }, Malformed},
		"version":     {func(b []byte) []byte { b[4] = 3; return b }, OtherVersion},
		"version 2":   {func(b []byte) []byte { b[4] = versionBoth; return b }, Malformed},
		"none of IPv6": {func([]byte) []byte {
			b := reportBody(t, Report{Nonce: 1, From: "node-a"})
			b[4] = versionBoth
			return b
		}, Malformed},
		"IPv4 in IPv6": {func([]byte) []byte {
			l := loads.Load{Server: netip.MustParseAddrPort("[::ffff:10.0.0.1]:80")}
			return reportBody(t, Report{Nonce: 1, From: "node-a", Loads: []loads.Load{l}})
		}, Malformed},
		"more loads":     {func(b []byte) []byte { b[7]++; return b }, Malformed},
		"too many loads": {func(b []byte) []byte { b[7] = MaxLoads + 1; return append(b, make([]byte, (MaxLoads-1)*loadSize)...) }, Malformed},
		"longer name":    {func(b []byte) []byte { b[32]++; return b }, Malformed},
		"no name":        {func(b []byte) []byte { b[32] = 0; return b }, Malformed},
		"no nonce":       {func(b []byte) []byte { copy(b[8:16], make([]byte, 8)); return b }, Malformed},
		"a byte behind":  {func(b []byte) []byte { return append(b, 0) }, Malformed},
		"a server twice": {func(b []byte) []byte { copy(b[len(b)-loadSize:], b[len(b)-2*loadSize:]); return b }, Malformed},
		"cut":            {func(b []byte) []byte { return b[:len(b)-1] }, Malformed},
		"nothing":        {func([]byte) []byte { return nil }, TooShort},
	} {
		if _, reason := parseReport(c.change(bytes.Clone(good))); reason != c.want {
			t.Errorf("%s: %q, want %q", name, reason, c.want)
		}
	}
}

// FuzzParseReport: whatever comes in, what is read writes itself again.
func FuzzParseReport(f *testing.F) {
	for _, n := range []int{0, 2} {
		f.Add(reportBody(f, Report{Nonce: 1, Echo: 2, Sequence: 3, From: "node", NewerKey: true, Loads: someLoads(n)}))
	}
	f.Add(reportBody(f, Report{Nonce: 1, Echo: 2, Sequence: 3, From: "node", Loads: someSixLoads(2)}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, reason := parseReport(b)
		if reason != "" {
			return
		}
		if again, reason := parseReport(reportBody(t, r)); reason != "" || !reflect.DeepEqual(r, again) {
			t.Fatalf("%+v became %+v (%s)", r, again, reason)
		}
	})
}

// A report counts within a living session only, and once.
func TestReportNeedsASession(t *testing.T) {
	a, b := newSide("a"), newSide("b")
	report := func() Report {
		nonce, echo, takes := a.report(0, "b")
		if !takes {
			t.Fatal("b is heard and takes reports, and a has none for it")
		}
		a.sequence++
		return Report{Nonce: nonce, Echo: echo, Sequence: a.sequence, From: "a"}
	}
	want(t, "of a stranger", b.acceptReport(0, Report{Nonce: 1, Echo: 2, Sequence: 3, From: "a"}), ReportWithoutSession)
	if _, _, takes := a.report(0, "b"); takes {
		t.Error("a peer that was never heard is told")
	}
	meet(t, 0, a, b)
	first := report()
	second := report()
	want(t, "a good one", b.acceptReport(0, first), "")
	want(t, "the next", b.acceptReport(0, second), "")
	want(t, "it again", b.acceptReport(0, second), ReportReplayed)
	want(t, "an older one", b.acceptReport(0, first), ReportReplayed)
	third := report()
	wrong := third
	wrong.Nonce++
	want(t, "of another life of a", b.acceptReport(0, wrong), ReportWithoutSession)
	wrong = third
	wrong.Echo++
	want(t, "for another life of b", b.acceptReport(0, wrong), ReportWithoutSession)
	wrong.From = "b"
	want(t, "our own", b.acceptReport(0, wrong), OwnName)
	want(t, "a heartbeat after reports", b.accept(0, a.to(0, b)), "")
	want(t, "a report sent before that heartbeat", b.acceptReport(0, third), "")
	want(t, "when a has been silent for long", b.acceptReport(2*life, report()), ReportWithoutSession)
	if _, _, takes := b.report(2*life, "a"); takes {
		t.Error("a peer that fell silent is told")
	}
}

// Agents of a version without reports are not sent any.
func TestOlderAgentsAreNotTold(t *testing.T) {
	a, b := newSide("a"), newSide("b")
	meet(t, 0, a, b)
	p := b.to(0, a)
	p.TakesReports = false
	want(t, "a heartbeat of b", a.accept(0, p), "")
	if _, _, takes := a.report(0, "b"); takes {
		t.Error("b takes no reports and is told")
	}
}
