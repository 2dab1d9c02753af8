// SPDX-License-Identifier: Apache-2.0

//go:build linux

package packets

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	vns "github.com/vishvananda/netns"

	"github.com/bobtail-dev/bobtail/hack/test/netns"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
	"github.com/bobtail-dev/bobtail/operator/internal/switches"
)

// dialled is the address of a Service that a switch redirects.
var dialled = netip.MustParseAddrPort("192.0.2.9:80")

// in runs here, in the network namespace of a host.
func (h host) in(t *testing.T, do func()) {
	t.Helper()
	here, err := vns.Get()
	must(t, err)
	defer here.Close()
	must(t, vns.Set(h.ns))
	do()
	must(t, vns.Set(here))
}

// agent does what an agent of CRAB does on a host that balances nothing.
func (h host) agent(t *testing.T, prepare func(n *redirect.Node, uplink int) error) {
	t.Helper()
	h.in(t, func() {
		n, err := redirect.Open(redirect.Options{Root: netns.BPF(t) + "/crab"})
		must(t, err)
		t.Cleanup(func() { _ = n.Close() })
		up, err := net.InterfaceByName("up0")
		must(t, err)
		must(t, prepare(n, up.Index))
	})
}

// webServer says its own address to everybody who connects.
func (h host) webServer(t *testing.T) {
	t.Helper()
	h.in(t, func() {
		l, err := net.Listen("tcp4", netip.AddrPortFrom(h.address, dialled.Port()).String())
		must(t, err)
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, h.address.String()) // the client sees what does not arrive
				_ = c.Close()
			}
		}()
	})
}

// A Service redirected by a switch: the agents of clients and servers do their part, nobody balances but the switch, and it
// sees SYNs alone. No connection fails.
func TestConnectionsRedirectedBySwitch(t *testing.T) {
	if !netns.Inside(t) {
		return
	}
	b, _ := benchOf(t, "crab", netip.MustParsePrefix("192.0.2.0/28"), 3)
	client, servers := b.hosts[0], b.hosts[1:]
	vip := switches.VIP{Name: "shop/web", Version: "one", At: dialled, OwnMAC: ownMAC}
	var prefixes []netip.Prefix
	for _, s := range servers {
		vip.Servers = append(vip.Servers, switches.Server{Address: s.address, Weight: 1, NextHop: switches.NextHop{MAC: s.mac, Port: s.port}})
		prefixes = append(prefixes, netip.PrefixFrom(s.address, 32))
		s.agent(t, func(n *redirect.Node, uplink int) error {
			if err := n.AllowEcho([]netip.Addr{dialled.Addr()}); err != nil {
				return err
			}
			return n.AttachServer(uplink, redirect.Uplink)
		})
		s.webServer(t)
	}
	client.agent(t, func(n *redirect.Node, uplink int) error {
		entry := redirect.VIP{VIPKey: redirect.VIPKey{Addr: dialled.Addr(), Port: dialled.Port()}, Roles: redirect.RoleClient, Prefixes: prefixes}
		if err := n.SetVIP(entry); err != nil {
			return err
		}
		return n.AttachClient(uplink, redirect.Uplink)
	})
	b.wanted.VIPs = []switches.VIP{vip}
	b.settle(t, "one", map[string]string{"shop/web": "one"})
	b.redirected(t, client, 50) // ways are asked for
	times := int(requests) / 5  // each is a connection from SYN to FIN
	failed, by := b.redirected(t, client, times)
	if failed > 0 || len(by) != 2 {
		t.Errorf("%d connections failed; by server: %v", failed, by)
	}
	note(t, "switch_crab_connections_failed", "count", 0, float64(failed))
	note(t, "switch_crab_connections", "count", 0, float64(times))
	counted := b.keeper.Counts("leaf")["shop/web"].By[switches.Redirected]
	netns.Until(t, func() bool {
		counted = b.keeper.Counts("leaf")["shop/web"].By[switches.Redirected]
		return counted >= uint64(times)
	}, func() string { return fmt.Sprintf("the switch redirected %d connections", counted) })

	// One server goes: the next connections all go to the other one.
	vip.Version, vip.Servers = "two", vip.Servers[1:]
	b.wanted.VIPs = []switches.VIP{vip}
	b.settle(t, "two", map[string]string{"shop/web": "two"})
	if failed, by := b.redirected(t, client, 100); failed > 0 || by[servers[0].address.String()] > 0 {
		t.Errorf("without one server %d connections failed; by server: %v", failed, by)
	}
	b.wanted.VIPs = nil
	b.settle(t, "none", nil)
	if n := len(b.peer.Held()); n != len(b.wanted.Wanted) {
		t.Errorf("%d entries are left, and %d are wanted", n, len(b.wanted.Wanted))
	}
}

// redirected dials so many times, one after the other and some at once, and says who answered.
func (b *bench) redirected(t *testing.T, client host, times int) (failed int64, by map[string]int) {
	t.Helper()
	by = map[string]int{}
	var mu sync.Mutex
	var bad atomic.Int64
	var all sync.WaitGroup
	gate := make(chan struct{}, callers)
	client.in(t, func() {
		for range times {
			gate <- struct{}{}
			c, err := (&net.Dialer{Timeout: 20 * time.Second}).DialContext(context.Background(), "tcp4", dialled.String()) // its socket is made on this thread
			if err != nil {
				bad.Add(1)
				t.Log(err)
				<-gate
				continue
			}
			all.Go(func() {
				defer func() { <-gate }()
				_ = c.SetDeadline(time.Now().Add(20 * time.Second))
				text, err := io.ReadAll(c)
				_ = c.Close()
				if err != nil || len(text) == 0 {
					bad.Add(1)
					return
				}
				mu.Lock()
				by[string(text)]++
				mu.Unlock()
			})
		}
	})
	all.Wait()
	return bad.Load(), by
}
