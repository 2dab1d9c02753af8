// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"strings"
	"testing"
)

// C-70, C-71: a checksum may be left to a device behind us, or be finished before us. A client behind a node sends and
// receives through the node's programs; whoever receives a finished checksum looks at it.
func TestChecksumsFinishedBeforeAndBehind(t *testing.T) {
	t.Parallel()
	b := New(t, 1)
	node, s1 := b.Host("client"), b.Host("s1")
	pod := node.pod("pc", pods+"2")
	for name, h := range b.all {
		if name != "client" {
			h.Run("ip", "route", "add", pods+"0/24", "via", node.Addr)
		}
	}
	b.StartAll(port, nil)
	s1.Echo(port)
	talk := func(how string) {
		c, err := pod.dial(VIP + ":" + itoa(port))
		must(t, err)
		defer c.Close()
		for i := range 200 {
			if err := c.ask(how + " " + itoa(i)); err != nil {
				t.Fatalf("%s, request %d: %v", how, i, err)
			}
		}
		for _, h := range []*Host{pod, s1} {
			if out := h.Run("nstat", "-asz", "TcpInCsumErrors"); !strings.Contains(out, "TcpInCsumErrors                 0 ") {
				t.Errorf("%s: %s received wrong checksums: %s", how, h.Name, out)
			}
		}
	}
	talk("never finished")
	b.inHub("ethtool -K vs1 tx off")
	node.Run("ethtool", "-K", "ppc", "tx", "off")
	talk("finished behind the programs")
	pod.Run("ethtool", "-K", "eth0", "tx", "off")
	s1.Run("ethtool", "-K", "eth0", "tx", "off")
	talk("finished by the sender")
	if n := node.Counter("client_to_server"); n < 600 {
		t.Errorf("%d packets were translated to the server, want 600 at least", n)
	}
}
