// SPDX-License-Identifier: Apache-2.0

package switches

import (
	"net/netip"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// What is bound here is what the shipped sources declare, in both shells; the P4Info in
// testdata is theirs.
func TestRouterItself(t *testing.T) {
	for _, shell := range []string{"v1model", "tna"} {
		p, err := model.Load("../../../dataplane/p4/router/"+shell+".p4", nil)
		if err != nil {
			t.Fatal(err)
		}
		i, err := NewInfo(p.P4Info())
		if err != nil {
			t.Fatal(err)
		}
		f := Fabric{Ports: []uint32{1, 2}, NextHops: []NextHop{{0x02000000000a, 1}}, Pool: []netip.Prefix{netip.MustParsePrefix("192.0.2.8/31")}, MAC: 0x0200000000ff}
		if _, err := i.Entries(f); err != nil {
			t.Errorf("%s: %v", shell, err)
		}
		for _, choice := range []Choice{ByCredit, ByTurn, AtRandom} {
			s := service("a", choice, 3, workers(1, 5))
			places, refused := Allocate(nil, []Service{s}, i)
			if len(refused) > 0 {
				t.Errorf("%s: %v", shell, refused)
			}
			if _, err := i.ServiceEntries(s, places["a"]); err != nil {
				t.Errorf("%s: %v", shell, err)
			}
		}
		if shell == "v1model" && !proto.Equal(p.P4Info(), routerInfo(t).P4) {
			t.Error("testdata/router.p4info.txtpb is not what hack/p4 makes of dataplane/p4/router/v1model.p4")
		}
	}
}
