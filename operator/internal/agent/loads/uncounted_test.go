// SPDX-License-Identifier: Apache-2.0

package loads

import (
	"net/netip"
	"reflect"
	"testing"
)

// A server that nobody counts, or one of another node, hides none that comes after it.
func TestUncountedServersHideNoOthers(t *testing.T) {
	addr := netip.MustParseAddrPort
	v := Served{Balancers: []string{"x", "y"}, Pool: Pool{Servers: []Server{
		{Addr: addr("10.0.0.1:80"), Node: "a"}, {Addr: addr("10.0.0.2:80"), Node: "b"}, {Addr: addr("10.0.0.3:80"), Node: "a"}}}}
	want := []Load{{addr("10.0.0.3:80"), 3}}
	got := ByBalancer("a", []Served{v, v}, map[netip.AddrPort]uint32{addr("10.0.0.2:80"): 2, addr("10.0.0.3:80"): 3})
	if !reflect.DeepEqual(got, map[string][]Load{"x": want, "y": want}) {
		t.Errorf("%v", got)
	}
}
