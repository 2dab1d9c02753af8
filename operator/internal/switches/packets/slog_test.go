// SPDX-License-Identifier: Apache-2.0

//go:build linux

package packets

import (
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/bobtail-dev/bobtail/hack/p4/bed"
	"github.com/bobtail-dev/bobtail/hack/test/netns"
	"github.com/bobtail-dev/bobtail/operator/internal/switches"
)

// Where templates come in, and the network whose addresses are stamps.
const templatePort = 68

var stamps = netip.MustParsePrefix("172.30.0.0/16")

// echoes answers every datagram to where it came from.
func (h host) echoes(t *testing.T) netip.AddrPort {
	t.Helper()
	at := netip.AddrPortFrom(h.address, 8000)
	h.in(t, func() {
		netns.IP(t, "route", "add", stamps.String(), "via", "198.18.0.254", "dev", "up0", "onlink")
		netns.IP(t, "neigh", "add", "198.18.0.254", "lladdr", "02:00:00:00:00:ff", "dev", "up0", "nud", "permanent")
		c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at))
		must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		go func() {
			for buffer := make([]byte, 2048); ; {
				n, from, err := c.ReadFromUDPAddrPort(buffer)
				if err != nil {
					return
				}
				_, _ = c.WriteToUDPAddrPort(buffer[:n], from) // the switch counts what does not come back
			}
		}()
	})
	return at
}

// A load that a switch makes: all packets of the run reach real sockets and come back by their stamps, and each is counted
// in a bucket (S-3, S-4, S-23).
func TestLoadMadeBySwitch(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute: make switch-packets")
	}
	if !netns.Inside(t) {
		return
	}
	b, _ := benchOf(t, "slog", stamps, 2)
	const packets = 600
	run := switches.Run{Name: "lab/load", Version: "one", Number: 9, Packets: packets, Rate: 1000, TemplateRate: 5000, TemplatePort: templatePort, Net: stamps, OwnMAC: ownMAC}
	for _, h := range b.hosts {
		run.Targets = append(run.Targets, switches.RunTarget{Address: h.echoes(t), NextHop: switches.NextHop{MAC: h.mac, Port: h.port}})
	}
	b.wanted.Runs = []switches.Run{run}
	b.settle(t, "one", map[string]string{"lab/load": "one"})
	template := bed.Frame(bed.Ends{Src: 172<<24 | 30<<16, Dst: 198<<24 | 18<<16, SrcPort: 1 << 15, DstPort: 8000}, make([]byte, 22))
	b.pipe.Generate(templatePort, template, 5000)
	counts := func(f switches.Fate) uint64 { return b.keeper.Counts("leaf")["lab/load"].By[f] }
	netns.Until(t, func() bool { return counts(switches.Received) == packets && counts(switches.Spent) > 0 }, func() string {
		return fmt.Sprintf("%v, %+v", b.keeper.Counts("leaf")["lab/load"].By, b.pipe.Counts())
	})
	m := b.keeper.Measured("leaf")["lab/load"]
	if counts(switches.Sent) != packets || counts(switches.OutOfRange) != 0 || counts(switches.Unmatched) != 0 || m.Latency.Total() != packets {
		t.Errorf("%v, %d latencies", b.keeper.Counts("leaf")["lab/load"].By, m.Latency.Total())
	}
	if v, err := m.Latency.Percentile("50"); err != nil || v.Nanoseconds < 1000 {
		t.Errorf("the median is %+v, %v", v, err)
	}
	b.wanted.Runs = nil
	b.settle(t, "none", nil)
	if n := len(b.peer.Held()); n != len(b.wanted.Wanted) {
		t.Errorf("%d entries are left, and %d are wanted", n, len(b.wanted.Wanted))
	}
}
