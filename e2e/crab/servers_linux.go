// SPDX-License-Identifier: Apache-2.0

package crab

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strconv"
)

func itoa(n int) string { return strconv.Itoa(n) }

// Servers are s1, s2, ….
func (b *Bed) Servers() []*Host {
	var all []*Host
	for i := 1; b.all[fmt.Sprintf("s%d", i)] != nil; i++ {
		all = append(all, b.all[fmt.Sprintf("s%d", i)])
	}
	return all
}

// Echo starts a server of its own process that answers each connection with the
// host's name and then with what it reads.
func (h *Host) Echo(port int) {
	h.bed.t.Helper()
	self, err := os.Executable()
	h.bed.must(err)
	c := h.Command(self)
	c.Env = append(os.Environ(), peerVariable+"="+h.listens(port), "CRAB_NAME="+h.Name)
	out, err := c.StdoutPipe()
	h.bed.must(err)
	h.bed.must(c.Start())
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		h.bed.t.Fatalf("%s: the echo server did not start: %v", h.Name, err)
	}
	kill := func() { _ = c.Process.Kill(); _ = c.Wait() }
	h.bed.t.Cleanup(kill)
	h.peer = kill
}

// listens is where a server waits: at the VIPs as well, if it has them.
func (h *Host) listens(port int) string {
	if h.bed.direct {
		return net.JoinHostPort("", itoa(port))
	}
	return net.JoinHostPort(h.Addr, itoa(port))
}

// returnsDirectly gives a server the VIPs, as docs/guides/crab-lb.md has it.
func (h *Host) returnsDirectly() {
	h.bed.t.Helper()
	h.Run("sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=1", "net.ipv4.conf.all.arp_announce=2")
	for _, vip := range h.bed.vips() {
		h.Run("ip", "addr", "add", vip, "dev", "lo")
	}
}

// completeChecksums: DPDK sees those that a veth leaves to the hardware (docs/guides/dpdk.md).
func (h *Host) completeChecksums() { h.Run("ethtool", "-K", "eth0", "tx", "off") }

// peerVariable makes the test's program an echo server on the address it holds.
const peerVariable = "CRAB_PEER"

// Peer serves until it is killed.
func Peer(addr, name string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Println("listening")
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go echo(c, name)
	}
}

func echo(c net.Conn, name string) {
	defer c.Close()
	if _, err := fmt.Fprintf(c, "%s\n", name); err != nil {
		return
	}
	buf := make([]byte, 4096)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		if _, err := c.Write(buf[:n]); err != nil {
			return
		}
	}
}
