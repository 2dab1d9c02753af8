// SPDX-License-Identifier: Apache-2.0

package redirect

import "testing"

// Generic XDP is taken off a device and put back, as often as the role comes and goes; the tc programs stay the whole time, and its
// program stays loaded, so that it is back at once.
func TestGenericXDPRests(t *testing.T) {
	n := openTest(t, Options{})
	near, _ := veths(t)
	for range 2 {
		a, err := n.AttachBalancer(near, XDPGeneric)
		if err != nil || a.XDP != XDPGeneric {
			t.Fatalf("%+v, %v", a, err)
		}
		if got := n.modeOf(t); got != XDPGeneric {
			t.Errorf("attached: %s", got)
		}
		must(t, n.RestBalancer(near))
		if got := n.modeOf(t); got != XDPNone {
			t.Errorf("at rest: %s", got)
		}
		if left := atWork(t, n); len(left) != 2 {
			t.Errorf("at rest there are %v, want the two programs of tc", left)
		}
		if n.loaded[generic.program] == nil {
			t.Error("the program is not loaded any more")
		}
	}
}

// modeOf is that of the only balancer.
func (n *Node) modeOf(t *testing.T) XDPMode {
	t.Helper()
	all, err := n.Attachments()
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	return all[0].XDP
}
