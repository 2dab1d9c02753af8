// SPDX-License-Identifier: Apache-2.0

package switches

import (
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
)

func routerInfo(t testing.TB) *Info {
	t.Helper()
	text, err := os.ReadFile("testdata/router.p4info.txtpb")
	if err != nil {
		t.Fatal(err)
	}
	i, err := ParseInfo(text)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestFabric(t *testing.T) {
	i := routerInfo(t)
	f := Fabric{Ports: []uint32{2, 1}, NextHops: []NextHop{{0x02000000000a, 1}, {0x02000000000b, 2}}, Pool: []netip.Prefix{netip.MustParsePrefix("192.0.2.8/31")}, MAC: 0x0200000000ff}
	all, err := i.Entries(f)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	buckets := 0
	for _, e := range all {
		if e.table == tableBucket {
			buckets++
			continue
		}
		got = append(got, e.key+" "+e.value)
	}
	if buckets != lastBucket {
		t.Errorf("%d buckets of latencies, want %d", buckets, lastBucket)
	}
	want := []string{
		"multicast group 2 0x02.0",
		"multicast group 3 0x01.0",
		"station hdr.ethernet.dst=0xffffffffffff action 16777225 1=0x01",
		"station hdr.ethernet.dst=0x02000000000a action 16777224 1=0x01",
		"station hdr.ethernet.dst=0x02000000000b action 16777224 1=0x02",
		"own hdr.ipv4.dst=0xc0000208 action 16777219",
		"own_source hdr.ipv4.src=0xc0000208 action 16777220",
		"address hdr.arp.target=0xc0000208 hdr.arp.operation=0x01 hdr.arp.protocol=0x0800 action 16777226 1=0x0200000000ff",
		"own hdr.ipv4.dst=0xc0000209 action 16777219",
		"own_source hdr.ipv4.src=0xc0000209 action 16777220",
		"address hdr.arp.target=0xc0000209 hdr.arp.operation=0x01 hdr.arp.protocol=0x0800 action 16777226 1=0x0200000000ff",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if d := Compare(all, nil, Owner{Tag: ours}, Ranks); len(d.Steps) != 3 || d.Steps[0][0].Entry.table != Groups {
		t.Errorf("the group that a station points at is not written first: %s", steps(d))
	}
	if _, err := testInfo(t).Entries(f); err == nil || !strings.Contains(err.Error(), "table station is not there") {
		t.Errorf("another program: %v", err)
	}
}

// W-24: what does not fit is refused with the number that would.
func TestFit(t *testing.T) {
	i := routerInfo(t)
	for _, row := range []struct {
		hops int
		pool string
		want string
	}{
		{4095, "10.0.0.0/22", ""},
		{4096, "10.0.0.0/22", "`spec.nextHops`: 4096, and table station of the pipeline has room for 4095"},
		{1, "10.0.0.0/21", "`spec.addressPool`: 2048, and table own of the pipeline has room for 1024; `spec.addressPool`: 2048, and table own_source of the pipeline has room for 1024; `spec.addressPool`: 2048, and table address of the pipeline has room for 1024"},
	} {
		got := strings.Join(i.Fit(Fabric{NextHops: make([]NextHop, row.hops), Pool: []netip.Prefix{netip.MustParsePrefix(row.pool)}}), "; ")
		if got != row.want {
			t.Errorf("%d next hops, pool %s: %q, want %q", row.hops, row.pool, got, row.want)
		}
	}
}
