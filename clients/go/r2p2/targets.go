// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"
)

// DefaultPort is where routers take requests.
const DefaultPort = 8000

// Resolver looks up the addresses of a name; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// targets are the routers (or servers) a client may use: names and addresses,
// the names resolved again and again, because pods come and go.
type targets struct {
	names    []target
	resolver Resolver

	mu   sync.Mutex
	list []netip.AddrPort // sorted, one address family
}

type target struct {
	host string
	port uint16
	ip   netip.Addr // valid for a literal address
}

func newTargets(texts []string, resolver Resolver) (*targets, error) {
	if len(texts) == 0 {
		return nil, fmt.Errorf("r2p2: Targets must name at least one router, such as %q", "echo.demo.svc:8000")
	}
	t := &targets{resolver: resolver}
	for i, text := range texts {
		one, err := parseTarget(text)
		if err != nil {
			return nil, fmt.Errorf("r2p2: Targets[%d]: %w", i, err)
		}
		t.names = append(t.names, one)
	}
	return t, nil
}

func parseTarget(text string) (target, error) {
	if ip, err := netip.ParseAddr(text); err == nil {
		return target{ip: ip.Unmap(), port: DefaultPort}, nil
	}
	host, portText, err := net.SplitHostPort(text)
	if err != nil {
		host, portText = text, strconv.Itoa(DefaultPort)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || port == 0 || host == "" {
		return target{}, fmt.Errorf("must be a name or an address with an optional port, such as %q; got %q", "echo.demo.svc:8000", text)
	}
	out := target{host: host, port: uint16(port)}
	if ip, err := netip.ParseAddr(host); err == nil {
		out.ip = ip.Unmap()
	}
	return out, nil
}

// literal says that there is no name to resolve again.
func (t *targets) literal() bool {
	return !slices.ContainsFunc(t.names, func(n target) bool { return !n.ip.IsValid() })
}

// refresh resolves all names. A name that does not resolve keeps nothing, but
// when none does the old list stays: DNS being away must not end a client.
func (t *targets) refresh(ctx context.Context) error {
	var found []netip.AddrPort
	var failed error
	for _, n := range t.names {
		ips := []netip.Addr{n.ip}
		if !n.ip.IsValid() {
			var err error
			if ips, err = t.resolver.LookupNetIP(ctx, "ip", n.host); err != nil {
				failed = fmt.Errorf("r2p2: resolve %s: %w", n.host, err)
				continue
			}
		}
		for _, ip := range ips {
			found = append(found, netip.AddrPortFrom(ip.Unmap(), n.port))
		}
	}
	found = oneFamily(found)
	if len(found) == 0 {
		if failed == nil {
			failed = ErrNoTarget
		}
		return failed
	}
	slices.SortFunc(found, netip.AddrPort.Compare)
	t.mu.Lock()
	t.list = slices.Compact(found)
	t.mu.Unlock()
	return nil
}

// oneFamily keeps the IPv4 addresses when there are any: a socket speaks one
// family, and pods that have both answer on both.
func oneFamily(all []netip.AddrPort) []netip.AddrPort {
	v4 := slices.DeleteFunc(slices.Clone(all), func(a netip.AddrPort) bool { return !a.Addr().Is4() })
	if len(v4) > 0 {
		return v4
	}
	return all
}

func (t *targets) resolveLoop(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			look, cancel := context.WithTimeout(ctx, every)
			_ = t.refresh(look)
			cancel()
		}
	}
}

// stay returns current while it is listed, else any other.
func (t *targets) stay(current netip.AddrPort) (netip.AddrPort, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.list) == 0 {
		return netip.AddrPort{}, false
	}
	if slices.Contains(t.list, current) {
		return current, true
	}
	return t.list[rand.IntN(len(t.list))], true
}

// all returns the list as it is now.
func (t *targets) all() []netip.AddrPort {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.list)
}

// another returns the one after failed in the list; failed again when it is
// the only one.
func (t *targets) another(failed netip.AddrPort) netip.AddrPort {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.list) == 0 {
		return failed
	}
	i, found := slices.BinarySearchFunc(t.list, failed, netip.AddrPort.Compare)
	if found {
		i++
	}
	return t.list[i%len(t.list)]
}

// spread gives the i-th socket a router to start with.
func (t *targets) spread(offset, i int) netip.AddrPort {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.list) == 0 {
		return netip.AddrPort{}
	}
	return t.list[(offset+i)%len(t.list)]
}
