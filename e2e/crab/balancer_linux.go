// SPDX-License-Identifier: Apache-2.0

package crab

import "testing"

// balancer is what a scene asks of the balancer on its bed, whichever kind that is.
type balancer interface {
	// counted is what became of the SYNs it got so far.
	counted() syns
	// loses waits until it gives no more connections to a server whose program has ended.
	loses(t testing.TB, server *Host)
}

// syns that a balancer counted.
type syns struct {
	redirected int // once for each connection
	repeated   int // of these, as well, to the server of the first one
	hashed     int
	foreign    int // with an address in them that was not ours
	malformed  int
}

// since takes off what was counted before.
func (s syns) since(before syns) syns {
	return syns{s.redirected - before.redirected, s.repeated - before.repeated, s.hashed - before.hashed,
		s.foreign - before.foreign, s.malformed - before.malformed}
}

// onNode is the balancer that the node's programs are.
type onNode struct{ *Host }

func (n onNode) counted() syns {
	c := n.Show().Counters
	return syns{int(c["lb_syn_redirected"]), int(c["lb_syn_repeated"]), int(c["lb_fallback_syn"]), int(c["lb_foreign_redirect"]), int(c["option_malformed"])}
}

// loses: the node's programs are told; who asks the servers is another part (TestProbes).
func (n onNode) loses(t testing.TB, server *Host) {
	t.Helper()
	n.Apply(func(c *Config) {
		for _, s := range c.VIPs[0]["backends"].([]map[string]any) {
			if s["addr"] == server.Addr {
				s["state"] = "Down"
			}
		}
	})
}
