// SPDX-License-Identifier: Apache-2.0

package switchboard

import (
	"net/netip"
	"testing"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// An answer is of one Service: neither the namespace alone nor the name alone is it.
func TestAnsweredIsOfOneService(t *testing.T) {
	b := New()
	b.Answer("leaf", []v1alpha1.SwitchService{{Namespace: "shop", Name: "db"}, {Namespace: "other", Name: "web"}, {Namespace: "shop", Name: "web", ConfigHash: "it"}}, true)
	for _, c := range []struct {
		namespace, name, hash string
		found                 bool
	}{{"shop", "web", "it", true}, {"shop", "none", "", false}, {"none", "web", "", false}} {
		if got, found, there := b.Answered("leaf", c.namespace, c.name); found != c.found || !there || got.ConfigHash != c.hash {
			t.Errorf("%s/%s: %+v, found %v, there %v", c.namespace, c.name, got, found, there)
		}
	}
}

// A group is the same one when each of its four parts is.
func TestSameGroup(t *testing.T) {
	g := Group{Switch: "leaf", At: netip.MustParseAddrPort("192.0.2.1:8000"), Cluster: 1, Number: 2}
	for name, change := range map[string]func(*Group){
		"switch":  func(o *Group) { o.Switch = "spine" },
		"address": func(o *Group) { o.At = netip.MustParseAddrPort("192.0.2.2:8000") },
		"cluster": func(o *Group) { o.Cluster++ },
		"number":  func(o *Group) { o.Number++ },
	} {
		o := g
		if change(&o); g.same(o) {
			t.Errorf("another %s is the same group", name)
		}
	}
	if o := g; !g.same(o) {
		t.Error("it is not the same as itself")
	}
}
