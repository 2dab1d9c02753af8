// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"testing"
	"time"
)

// translations counts what is left of connections: in the direction of the server, and in that of the client.
func translations(t *testing.T, n *Node) (out, in int) {
	t.Helper()
	for name, count := range map[string]*int{"crab_flows_out": &out, "crab_flows_in": &in} {
		it := n.m(testFamily, name).Iterate()
		var key, value []byte
		for it.Next(&key, &value) {
			*count++
		}
		must(t, it.Err())
	}
	return out, in
}

// serverEnds is the last the server sends.
func serverEnds(flags byte) packet {
	p := gotData(testDIP)
	p.flags, p.data = flags, nil
	return p
}

// C-72: a translation ends a while after RST or both FINs, and after a longer one without a packet; not before.
func TestExpireFlows(t *testing.T) { bothFamilies(t, testExpireFlows) }

func testExpireFlows(t *testing.T) {
	idle, ended := Lives{Idle: time.Millisecond, Ended: time.Hour}, Lives{Idle: time.Hour, Ended: time.Millisecond}
	type step func(*Node)
	toServer := func(flags byte) step {
		return func(n *Node) { run(t, n, "crab_client_out_pod", clientEnds(flags)) }
	}
	toClient := func(flags byte) step { return func(n *Node) { run(t, n, "crab_client_in", serverEnds(flags)) } }
	for name, c := range map[string]struct {
		steps       []step
		lives       Lives
		idle, ended int
	}{
		"open, fresh":                {nil, Lives{}, 0, 0},
		"open, silent":               {nil, idle, 1, 0},
		"open, silent for less":      {nil, ended, 0, 0},
		"RST of the client":          {[]step{toServer(rst | ack)}, ended, 0, 1},
		"RST of the client, fresh":   {[]step{toServer(rst | ack)}, Lives{}, 0, 0},
		"RST of the server":          {[]step{toClient(rst | ack)}, ended, 0, 1},
		"RST the client disbelieved": {[]step{toClient(rst | ack), toServer(ack)}, ended, 0, 0},
		"FIN of the client":          {[]step{toServer(fin | ack)}, ended, 0, 0},
		"FIN of the server":          {[]step{toClient(fin | ack)}, ended, 0, 0},
		"both FINs":                  {[]step{toServer(fin | ack), toClient(fin | ack), toServer(ack)}, ended, 0, 1},
		"both FINs, but not so long": {[]step{toServer(fin | ack), toClient(fin | ack)}, idle, 0, 0},
	} {
		n := established(t)
		for _, s := range c.steps {
			s(n)
		}
		time.Sleep(2 * time.Millisecond)
		if c.lives == ended || c.lives == idle { // the coarse clock, by which a client's packet is noted, may be a tick behind
			time.Sleep(8 * time.Millisecond)
		}
		e, err := n.Expire(c.lives)
		gone := c.idle + c.ended
		if err != nil || e.Idle != c.idle || e.Ended != c.ended || e.Flows != 1-gone || e.Evicted != 0 {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
		if out, in := translations(t, n); out != 1-gone || in != 1-gone {
			t.Errorf("%s: %d and %d translations are left", name, out, in)
		}
		counted(t, n, map[string]uint64{"client_flow_expired": uint64(gone)})
	}
}

// connect makes the redirected connection of one client port.
func connect(t *testing.T, n *Node, from uint16) {
	t.Helper()
	p := clientSYN(uint32(from))
	p.sport = from
	run(t, n, "crab_client_out", p)
	answer := redirectedSYNACK(uint32(from)+1, redirected)
	answer.dport = from
	run(t, n, "crab_client_in", answer)
}

// C-72: what the full map pushes out is counted, and only that: not what was removed, replaced or expired.
func TestEvictionsAreCounted(t *testing.T) { bothFamilies(t, testEvictionsAreCounted) }

func testEvictionsAreCounted(t *testing.T) {
	n := clientNode(t)
	for i := range 100 {
		connect(t, n, uint16(2000+i))
	}
	for i := range 40 { // used again, each by a new connection
		p := clientSYN(90000)
		p.sport = uint16(2000 + i)
		run(t, n, "crab_client_out", p)
	}
	e, err := n.Expire(Lives{})
	if err != nil || e.Flows != 60 || e.Evicted != 0 {
		t.Fatalf("40 of 100 connections were replaced: %+v, %v", e, err)
	}
	time.Sleep(10 * time.Millisecond)
	if e, err = n.Expire(Lives{Idle: time.Millisecond}); err != nil || e.Idle != 60 || e.Flows != 0 || e.Evicted != 0 {
		t.Fatalf("60 expired: %+v, %v", e, err)
	}
	const made = 3000
	for i := range made {
		connect(t, n, uint16(3000+i))
	}
	out, _ := translations(t, n)
	e, err = n.Expire(Lives{})
	if err != nil || e.Flows != out || e.Evicted != uint64(made-out) || out > int(testSizes.Flows) {
		t.Errorf("%d connections, %d are left: %+v, %v", made, out, e, err)
	}
}
