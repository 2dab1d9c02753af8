// SPDX-License-Identifier: Apache-2.0

package hostfacts

import (
	"encoding/binary"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"

	"github.com/bobtail-dev/bobtail/hack/test/privileged"
)

// A veth's driver runs XDP, and its kernel says so.
func TestXDPOfAVeth(t *testing.T) {
	privileged.Need(t, "a veth")
	v := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "bthf0"}, PeerName: "bthf1"}
	if err := netlink.LinkAdd(v); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netlink.LinkDel(v) })
	for range 100 { // the same each time, whatever lies in memory
		if got := XDP("bthf0"); !got.Native || got.ZeroCopy {
			t.Fatalf("a veth has %+v", got)
		}
	}
	if got := XDP("nobody"); got.Native || len(Links("nobody")) != 0 {
		t.Errorf("no device has %+v", got)
	}
}

// An answer is read whatever else is in it, and one that is no answer says nothing.
func TestFeaturesOf(t *testing.T) {
	answer := func(bits uint64) []byte {
		value := binary.NativeEndian.AppendUint64(nil, bits)
		out := make([]byte, nl.SizeofGenlmsg)
		out = append(out, nl.NewRtAttr(netdevIfIndex, nl.Uint32Attr(7)).Serialize()...)
		return append(out, nl.NewRtAttr(netdevXDPFeatures, value).Serialize()...)
	}
	for bits, want := range map[uint64]XDPFeatures{0: {}, 1: {Native: true}, 9: {Native: true, ZeroCopy: true}, 6: {}} {
		if got := featuresOf(answer(bits)); got != want {
			t.Errorf("bits %d: %+v", bits, got)
		}
	}
	short := append(make([]byte, nl.SizeofGenlmsg), nl.NewRtAttr(netdevXDPFeatures, []byte{1, 0, 0, 0}).Serialize()...)
	other := append(make([]byte, nl.SizeofGenlmsg), nl.NewRtAttr(netdevIfIndex, []byte{1, 0, 0, 0, 0, 0, 0, 0}).Serialize()...)
	for _, text := range [][]byte{short, other, make([]byte, nl.SizeofGenlmsg), nil, {1}, make([]byte, 4), {0, 0, 0, 0, 255, 255, 3, 0}, answer(1)[:20]} {
		if got := featuresOf(text); got != (XDPFeatures{}) {
			t.Errorf("%v: %+v", text, got)
		}
	}
}
