// SPDX-License-Identifier: Apache-2.0

package announce

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/mdlayher/packet"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/bobtail-dev/bobtail/hack/test/privileged"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// twoHosts makes an announcer in one network namespace and a kernel in another one
// at the other end of its veth; the test runs where the kernel is.
func twoHosts(t *testing.T) (a *Announcer, announce func(netip.Addr), client netlink.Link) {
	t.Helper()
	privileged.Need(t, "makes network namespaces")
	runtime.LockOSThread() // never unlocked: the thread ends with the test's goroutine
	home, err := netns.New()
	must(t, err)
	v := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "client"}
	v.Name = "owner"
	away, err := netns.New()
	must(t, err)
	t.Cleanup(func() { home.Close(); away.Close() })
	must(t, netns.Set(home))
	v.PeerNamespace = netlink.NsFd(away)
	must(t, netlink.LinkAdd(v))
	owner, err := netlink.LinkByName("owner")
	must(t, err)
	must(t, netlink.LinkSetUp(owner))
	a, err = Open(owner.Attrs().Index)
	must(t, err)
	ran := make(chan struct{})
	go func() { defer close(ran); a.Run() }()
	t.Cleanup(func() { _ = a.Close(); <-ran })
	announce = func(vip netip.Addr) { // where the announcer is, because it joins a group
		t.Helper()
		must(t, netns.Set(home))
		a.Announce(vip)
		must(t, netns.Set(away))
	}
	must(t, netns.Set(away))
	client, err = netlink.LinkByName("client")
	must(t, err)
	for _, text := range []string{"192.0.2.9/24", "2001:db8::9/64"} {
		addr, err := netlink.ParseAddr(text)
		must(t, err)
		if addr.IP.To4() == nil {
			addr.Flags = unix.IFA_F_NODAD
		}
		must(t, netlink.AddrAdd(client, addr))
	}
	must(t, netlink.LinkSetUp(client))
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if l, err := netlink.LinkByName("client"); err == nil && l.Attrs().OperState == netlink.OperUp {
			break
		}
	}
	return a, announce, client
}

// knows waits until the kernel has a neighbour entry with the announcer's address.
func knows(t *testing.T, a *Announcer, client netlink.Link, addr netip.Addr, want bool) {
	t.Helper()
	for end := time.Now().Add(8 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		all, err := netlink.NeighList(client.Attrs().Index, 0)
		must(t, err)
		for _, n := range all {
			at, ok := netip.AddrFromSlice(n.IP)
			if ok && at.Unmap() == addr && n.State&(netlink.NUD_REACHABLE|netlink.NUD_STALE|netlink.NUD_DELAY|netlink.NUD_PROBE) != 0 && bytes.Equal(n.HardwareAddr, a.device.HardwareAddr) {
				if !want {
					t.Errorf("%s was answered for", addr)
				}
				return
			}
			if ok && at.Unmap() == addr && n.State&netlink.NUD_FAILED != 0 && !want {
				return
			}
		}
	}
	if want {
		t.Errorf("nobody answers for %s: arp %v, ndp %v", addr, a.Counters(ARP), a.Counters(NDP))
	}
}

// ask makes the kernel look for an address.
func ask(t *testing.T, addr netip.Addr) {
	t.Helper()
	c, err := net.Dial("udp", netip.AddrPortFrom(addr, 9).String())
	must(t, err)
	defer c.Close()
	_, _ = c.Write([]byte("x"))
}

// A kernel asks for VIPs of both families, and is answered for owned ones only.
func TestKernelFindsTheOwner(t *testing.T) {
	a, announce, client := twoHosts(t)
	owned := []netip.Addr{netip.MustParseAddr("192.0.2.5"), netip.MustParseAddr("2001:db8::5")}
	others := []netip.Addr{netip.MustParseAddr("192.0.2.6"), netip.MustParseAddr("2001:db8::6")}
	for _, other := range others { // the kernel gives up after three seconds
		ask(t, other)
	}
	for _, vip := range owned {
		announce(vip)
		ask(t, vip)
		knows(t, a, client, vip, true)
	}
	for _, other := range others {
		knows(t, a, client, other, false)
	}
	for _, p := range []Protocol{ARP, NDP} {
		if c := a.Counters(p); c["answered"] == 0 || c["announced"] == 0 || c["malformed"] != 0 || c["conflict"] != 0 || c["join_failed"] != 0 {
			t.Errorf("%s: %v", p, c)
		}
	}
	six := netip.MustParseAddr("2001:db8::5")
	entry := &netlink.Neigh{LinkIndex: client.Attrs().Index, Family: netlink.FAMILY_V6, State: netlink.NUD_PROBE, IP: six.AsSlice(), HardwareAddr: a.device.HardwareAddr}
	before := a.Counters(NDP)["answered"]
	must(t, netlink.NeighSet(entry)) // the kernel asks the address itself, to see whether it is still there
	for end := time.Now().Add(8 * time.Second); a.Counters(NDP)["answered"] == before; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("a solicitation sent to the VIP itself was not answered: %v", a.Counters(NDP))
		}
	}
	a.Withdraw(six)
	must(t, netlink.NeighDel(entry))
	ask(t, six)
	knows(t, a, client, six, false)
}

// A host that has the VIP in its neighbour table elsewhere is led here by the announcement.
func TestAnnouncementMovesTheVIP(t *testing.T) {
	a, announce, client := twoHosts(t)
	for _, text := range []string{"192.0.2.5", "2001:db8::5"} {
		vip := netip.MustParseAddr(text)
		family := map[bool]int{false: netlink.FAMILY_V6, true: netlink.FAMILY_V4}[vip.Is4()]
		must(t, netlink.NeighSet(&netlink.Neigh{LinkIndex: client.Attrs().Index, Family: family, State: netlink.NUD_REACHABLE, IP: vip.AsSlice(), HardwareAddr: his}))
		announce(vip)
		knows(t, a, client, vip, true)
	}
}

// A host that wants to have a VIP for itself finds by duplicate address detection
// that it cannot, each time it looks.
func TestHostCannotTakeAVIP(t *testing.T) {
	a, announce, client := twoHosts(t)
	vip := netip.MustParseAddr("2001:db8::5")
	announce(vip)
	for end := time.Now().Add(8 * time.Second); a.Counters(NDP)["announced"] < uint64(len(repeats)) && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		// an announcement by itself would tell the host, too
	}
	for round := range 2 {
		addr, err := netlink.ParseAddr("2001:db8::5/64")
		must(t, err)
		must(t, netlink.AddrAdd(client, addr))
		failed := false
		for end := time.Now().Add(8 * time.Second); !failed && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			all, err := netlink.AddrList(client, netlink.FAMILY_V6)
			must(t, err)
			for _, one := range all {
				failed = failed || one.IP.Equal(addr.IP) && one.Flags&unix.IFA_F_DADFAILED != 0
			}
		}
		if c := a.Counters(NDP); !failed || c["conflict"] == 0 {
			t.Errorf("round %d: the host keeps the VIP: %v", round, c)
		}
		must(t, netlink.AddrDel(client, addr))
	}
}

// until waits for something that happens elsewhere.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(8 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}

// A host that asks by a VIP of ours has it on a device: it is told whose it is, at
// most once in ten seconds, and counted each time, as with ARP.
func TestAskingByAVIPIsAConflict(t *testing.T) {
	a, announce, client := twoHosts(t)
	device, err := net.InterfaceByIndex(client.Attrs().Index)
	must(t, err)
	conn, err := packet.Listen(device, packet.Datagram, unix.ETH_P_IPV6, nil)
	must(t, err)
	defer conn.Close()
	vip, other := netip.MustParseAddr("2001:db8::5"), netip.MustParseAddr("2001:db8::6")
	announce(vip)
	until(t, "the announcements end", func() bool { return a.Counters(NDP)["announced"] == uint64(len(repeats)) })
	for round := range uint64(2) {
		m := solicit(vip, other, device.HardwareAddr)
		_, err = conn.WriteTo(m.bytes(), &packet.Addr{HardwareAddr: groupMAC(m.dst)})
		must(t, err)
		until(t, "a conflict is counted", func() bool { return a.Counters(NDP)["conflict"] == round+1 })
	}
	m := solicit(netip.MustParseAddr("2001:db8::9"), vip, device.HardwareAddr)
	before := a.Counters(NDP)["answered"]
	_, err = conn.WriteTo(m.bytes(), &packet.Addr{HardwareAddr: groupMAC(m.dst)})
	must(t, err)
	until(t, "who asks by an address of its own is answered", func() bool { return a.Counters(NDP)["answered"] > before })
	if c := a.Counters(NDP); c["announced"] != uint64(len(repeats))+1 || c["conflict"] != 2 {
		t.Errorf("told %d times: %v", c["announced"]-uint64(len(repeats)), c)
	}
}

// A group that could not be joined is tried again, until it is or the VIP is gone.
func TestGroupIsJoinedAnew(t *testing.T) {
	a, announce, _ := twoHosts(t)
	vip := netip.MustParseAddr("2001:db8::5")
	var tried, fail, joined, left int // under the announcer's lock
	a.rejoin = 20 * time.Millisecond
	a.group = func(int, netip.Addr) (func(), error) {
		if tried++; tried <= fail {
			return nil, errors.New("no room for groups")
		}
		joined++
		return func() { left++ }, nil
	}
	locked := func(is func() bool) func() bool {
		return func() bool {
			a.mu.Lock()
			defer a.mu.Unlock()
			return is()
		}
	}
	fail = 3
	announce(vip)
	until(t, "the group is joined", locked(func() bool { return joined == 1 }))
	until(t, "the network is told again", func() bool { return a.Counters(NDP)["announced"] == uint64(len(repeats))+1 })
	if c := a.Counters(NDP); c["join_failed"] != 3 {
		t.Errorf("after three times without room: %v", c)
	}
	announce(vip) // renewed, and still in the group
	a.Withdraw(vip)
	if !locked(func() bool { return joined == 1 && left == 1 })() {
		t.Errorf("joined %d times, left %d times", joined, left)
	}
	a.mu.Lock()
	tried, fail = 0, 1000
	a.mu.Unlock()
	announce(vip)
	until(t, "it is tried again", locked(func() bool { return tried > 3 }))
	a.Withdraw(vip)
	a.mu.Lock()
	last := tried
	a.mu.Unlock()
	time.Sleep(5 * a.rejoin)
	if !locked(func() bool { return tried == last && joined == 1 })() {
		t.Errorf("tried %d times more for a VIP that is gone", tried-last)
	}
}
