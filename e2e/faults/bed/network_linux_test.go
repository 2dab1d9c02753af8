// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"net"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/faults/shim"
	"github.com/bobtail-dev/bobtail/hack/test/privileged"
)

// pipe is two hosts, one of which sends numbered REPLY packets to the other.
type pipe struct {
	*Network
	t    *testing.T
	from *net.UDPConn
	to   *net.UDPConn
}

func newPipe(t *testing.T, address func(int) string) *pipe {
	t.Helper()
	privileged.Need(t, "makes network namespaces")
	n, err := NewNetwork(2)
	if err != nil {
		t.Fatal(err)
	}
	p := &pipe{Network: n, t: t}
	t.Cleanup(func() {
		p.from.Close()
		p.to.Close()
		n.Close()
		if left := Leftovers(); left != nil {
			t.Errorf("left over: %v", left)
		}
	})
	open := func(host, port int) (c *net.UDPConn) {
		err := Inside(n.Namespace(host), func() (err error) {
			c, err = net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(address(host)), Port: port})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	p.from, p.to = open(0, 5000), open(1, 5001)
	if err := p.to.SetReadBuffer(1 << 20); err != nil {
		t.Fatal(err)
	}
	p.open()
	return p
}

// open waits until packets arrive: a kernel may throw away what comes while it is still making
// its interface.
func (p *pipe) open() {
	p.t.Helper()
	buf := make([]byte, 2000)
	_, err := Until(time.Minute, func() error {
		if _, err := p.from.WriteTo(reply(0), p.to.LocalAddr()); err != nil {
			return err
		}
		_ = p.to.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		_, _, err := p.to.ReadFrom(buf)
		return err
	})
	for err == nil { // those that were late
		_ = p.to.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		if _, _, late := p.to.ReadFrom(buf); late != nil {
			return
		}
	}
	p.t.Fatal(err)
}

const bodyBytes = 40

func reply(number int) []byte {
	b := append([]byte{0xCC, 8, 0x10, 0xC0, 0, 1, 0, 1}, make([]byte, bodyBytes)...)
	binary.BigEndian.PutUint32(b[8:], uint32(number))
	return b
}

// send sends n packets and returns all that arrive.
func (p *pipe) send(n int) (got [][]byte) {
	p.t.Helper()
	before, err := p.Kernel(1)
	if err != nil {
		p.t.Fatal(err)
	}
	for i := range n {
		if _, err := p.from.WriteTo(reply(i), p.to.LocalAddr()); err != nil {
			p.t.Fatal(err)
		}
	}
	_, err = Until(time.Minute, func() error {
		if c := p.Shim.Counts(); c.Waiting != 0 || int(c.Of[0][shim.Reply]) < n {
			return fmt.Errorf("%d of %d sent packets reached the shim, %d wait there", c.Of[0][shim.Reply], n, c.Waiting)
		}
		return nil
	})
	if err != nil {
		p.t.Fatal(err)
	}
	got = p.receive(before.BadChecksum)
	if c := p.Shim.Counts(); c.Unbalanced() != "" || c.Overrun != 0 {
		p.t.Errorf("unbalanced: %s; overrun %d", c.Unbalanced(), c.Overrun)
	}
	return got
}

// receive reads until all that the shim delivered was read or found corrupt,
// however late the machine is; a short silence then shows that nothing else comes.
func (p *pipe) receive(corruptBefore uint64) (got [][]byte) {
	p.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		after, err := p.Kernel(1)
		if err != nil {
			p.t.Fatal(err)
		}
		complete := uint64(len(got))+after.BadChecksum-corruptBefore >= p.Shim.Counts().ToHost[1][shim.Reply] || time.Now().After(end)
		_ = p.to.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		buf := make([]byte, 2000)
		k, _, err := p.to.ReadFrom(buf)
		if err == nil {
			got = append(got, buf[:k])
		} else if complete {
			return got
		}
	}
}

func numbers(packets [][]byte) (list []int) {
	for _, b := range packets {
		list = append(list, int(binary.BigEndian.Uint32(b[8:])))
	}
	return list
}

func rule(k shim.Kind, chance float64) shim.Rule {
	return shim.Rule{From: shim.Any, To: shim.Any, DelayMax: 20 * time.Millisecond, CopyMax: 20 * time.Millisecond}.With(k, chance)
}

// TestShim: each kind of fault does what it says, on packets that real kernels
// sent and received, and the counts say so.
func TestShim(t *testing.T) {
	for _, family := range []struct {
		name    string
		address func(int) string
	}{{"IPv4", V4}, {"IPv6", V6}} {
		t.Run(family.name, func(t *testing.T) {
			p := newPipe(t, family.address)
			const n = 200
			all := make([]int, n)
			for i := range all {
				all[i] = i
			}
			t.Run("unharmed", func(t *testing.T) {
				p.Shim.Reset(1)
				if got := numbers(p.send(n)); !slices.Equal(got, all) {
					t.Errorf("got %v", got)
				}
			})
			t.Run("lost", func(t *testing.T) { testLost(t, p, n) })
			t.Run("corrupted and mangled", func(t *testing.T) { testFlipped(t, p, n) })
			t.Run("duplicated", func(t *testing.T) {
				p.Shim.Reset(1)
				p.Shim.SetRules(rule(shim.Duplicated, 1))
				got := numbers(p.send(n))
				slices.Sort(got)
				if len(got) != 2*n || !slices.Equal(slices.Compact(got), all) {
					t.Errorf("%d packets arrived, want each of %d twice", len(got), n)
				}
			})
			t.Run("reordered and delayed", func(t *testing.T) {
				for _, k := range []shim.Kind{shim.Reordered, shim.Delayed} {
					p.Shim.Reset(1)
					p.Shim.SetRules(rule(k, 0.3))
					got := numbers(p.send(n))
					c := p.Shim.Counts()
					if slices.IsSorted(got) || c.Total(k) == 0 {
						t.Errorf("%s: %d times, yet packets arrived in order", k, c.Total(k))
					}
					if slices.Sort(got); !slices.Equal(got, all) {
						t.Errorf("%s lost or doubled something: %v", k, got)
					}
				}
			})
			t.Run("cut one way", func(t *testing.T) { testCut(t, p, n) })
		})
	}
}

func testLost(t *testing.T, p *pipe, n int) {
	run := func(seed uint64) []int {
		p.Shim.Reset(seed)
		p.Shim.SetRules(rule(shim.Lost, 0.3))
		got := numbers(p.send(n))
		if c := p.Shim.Counts(); int(c.Total(shim.Lost))+len(got) != n {
			t.Errorf("%d lost and %d arrived of %d", c.Total(shim.Lost), len(got), n)
		}
		return got
	}
	first := run(5)
	if len(first) == 0 || len(first) == n {
		t.Errorf("%d of %d arrived", len(first), n)
	}
	if again := run(5); !slices.Equal(first, again) {
		t.Error("the same seed lost other packets")
	}
	if other := run(6); slices.Equal(first, other) {
		t.Error("another seed lost the same packets")
	}
}

func testFlipped(t *testing.T, p *pipe, n int) {
	p.Shim.Reset(1)
	before, err := p.Kernel(1)
	if err != nil {
		t.Fatal(err)
	}
	p.Shim.SetRules(rule(shim.Corrupted, 1))
	if got := p.send(n); len(got) != 0 {
		t.Errorf("%d packets with a wrong checksum arrived", len(got))
	}
	after, err := p.Kernel(1)
	if err != nil || after.BadChecksum-before.BadChecksum != uint64(n) {
		t.Errorf("the kernel counted %d wrong checksums, want %d (%v)", after.BadChecksum-before.BadChecksum, n, err)
	}
	p.Shim.Reset(1)
	p.Shim.SetRules(rule(shim.Mangled, 1))
	got := p.send(n)
	if len(got) != n {
		t.Fatalf("%d of %d mangled packets arrived", len(got), n)
	}
	for i, b := range got {
		changed := 0
		for k, x := range reply(i) {
			changed += bits.OnesCount8(x ^ b[k])
		}
		if changed != 1 {
			t.Fatalf("packet %d differs by %d bits", i, changed)
		}
	}
}

func testCut(t *testing.T, p *pipe, n int) {
	p.Shim.Reset(1)
	p.Shim.Cut(1, 0, true)
	if got := p.send(n); len(got) != n {
		t.Errorf("%d of %d arrived while the other way was cut", len(got), n)
	}
	p.Shim.Reset(1)
	p.Shim.Cut(0, 1, true)
	if got := p.send(n); len(got) != 0 {
		t.Errorf("%d packets passed a cut", len(got))
	}
	if c := p.Shim.Counts(); int(c.Total(shim.Partitioned)) != n {
		t.Errorf("%d packets counted as cut off, want %d", c.Total(shim.Partitioned), n)
	}
	p.Shim.Reset(1)
	p.Shim.Cut(0, 1, true)
	p.Shim.Heal()
	if got := p.send(n); len(got) != n {
		t.Errorf("%d of %d arrived after healing", len(got), n)
	}
}

// TestFreeze: what is sent while the network stands still arrives later.
func TestFreeze(t *testing.T) {
	p := newPipe(t, V4)
	thaw := p.Shim.Freeze()
	for i := range 50 {
		if _, err := p.from.WriteTo(reply(i), p.to.LocalAddr()); err != nil {
			t.Fatal(err)
		}
	}
	_ = p.to.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	if k, _, err := p.to.ReadFrom(make([]byte, 2000)); err == nil {
		t.Errorf("%d bytes passed a network that stands still", k)
	}
	thaw()
	if got := p.send(50); len(got) != 100 {
		t.Errorf("%d of 100 packets arrived", len(got))
	}
}

// TestSweep: namespaces of a run that was killed are removed by the next one,
// those of a run that lives are not.
func TestSweep(t *testing.T) {
	privileged.Need(t, "makes network namespaces")
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	dead := fmt.Sprintf("%s%dx1h0", prefix, gone.Process.Pid)
	mine := fmt.Sprintf("%s%dx99h0", prefix, os.Getpid())
	for _, ns := range []string{dead, mine} {
		if err := ip("netns", "add", ns); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = exec.Command("ip", "netns", "del", ns).Run() }()
	}
	orphan := exec.Command("ip", "netns", "exec", dead, "sleep", "600")
	if err := orphan.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := Until(time.Minute, func() error {
		if out, _ := exec.Command("ip", "netns", "pids", dead).Output(); len(out) == 0 {
			return fmt.Errorf("nothing runs in %s", dead)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := Sweep(); err != nil {
		t.Fatal(err)
	}
	if orphan.Wait() == nil {
		t.Error("a process in a swept namespace ended by itself")
	}
	if left := Leftovers(); !slices.Equal(left, []string{mine}) {
		t.Errorf("left: %v, want %s", left, mine)
	}
}

func TestReadUDP(t *testing.T) {
	v4 := "Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors\nUdp: 10 2 9 7 4 0 5\nUdpLite: InDatagrams\nUdpLite: 3\n"
	v6 := "Ip6InReceives 77\nUdp6InDatagrams 100\nUdp6NoPorts 20\nUdp6RcvbufErrors 40\nUdp6InCsumErrors 50\nUdpLite6InDatagrams 9\n"
	want := UDP{Received: 110, NoPort: 22, BufferFull: 44, BadChecksum: 55}
	if got := readUDP(v4, v6); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
