// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/config"
)

// overlay moves the rest of a test, and the programs it starts, into a network
// namespace whose only interface takes packets of mtu bytes. The test's thread
// stays there and ends with it; sockets opened from it work from all threads.
func overlay(t *testing.T, mtu int) {
	t.Helper()
	runtime.LockOSThread()
	if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		t.Skipf("a network of another MTU needs root (CAP_SYS_ADMIN for a network namespace): %v", err)
	}
	if out, err := exec.Command("ip", "link", "set", "lo", "mtu", strconv.Itoa(mtu), "up").CombinedOutput(); err != nil {
		t.Skipf("ip link set lo mtu %d: %v %s", mtu, err, out)
	}
}

// count is the sum of the counters of a name and label value.
func count(cs []r2p2.Counter, name, value string) (n uint64) {
	for _, c := range cs {
		if c.Name == name && c.Value == value {
			n += c.Count
		}
	}
	return n
}

// A packet of 1400 bytes carries 1364; a client leaves 32 of them to the router.
var overlaySizes = []int{0, 1331, 1332, 1333, 1364, 1365, 1378, 1379, 1464, 1465, 65536}

// R-13, both ways round: nobody is told the MTU, and every size passes.
func TestR13EverySizeOverAnOverlay(t *testing.T) {
	overlay(t, 1400)
	keys := keyDir(t)
	r := newCRouter(t, keys)
	s, goPort := goServer(t, 1, echo)
	_, cPort := cserver(t, 1, "--reply-bytes=echo")
	doc := document(3, []int{1}, []*crouter{r}, config.Member{Address: "127.0.0.1", FirstPort: goPort, Workers: 1, Name: "go-server"})
	apply(t, underCtl(t, s, keys), doc)
	apply(t, r.conn, doc)
	joined(t, r, 1)
	lost := false
	for _, to := range []netip.AddrPort{r.addr(), netip.AddrPortFrom(loopback, uint16(cPort))} {
		c, disturbed := goClient(t, r2p2.ClientConfig{Timeout: 20 * time.Second}, to), false
		if c.MTU() != 1400 || s.MTU() != 1400 {
			t.Fatalf("client %d, server %d, want 1400", c.MTU(), s.MTU())
		}
		for _, n := range overlaySizes {
			disturbed = echoed(t, c, n) || disturbed
		}
		if n := rejected(c.Counters()) + count(c.Counters(), "io_tx_dropped_total", "too_long"); n != 0 && !disturbed {
			t.Errorf("%d packets rejected or not sent: %v", n, c.Counters())
		}
		lost = disturbed || lost
	}
	for _, n := range []int{1364, 65536} {
		_, again := answeredLoad(t, fmt.Sprintf("--target=%s", r.addr()), "--rate=50", "--duration=200ms", "--timeout=20s", "--verify",
			"--arrivals=fixed", fmt.Sprintf("--request-bytes=%d", n))
		lost = again || lost
	}
	if n := rejected(s.Counters()) + count(s.Counters(), "io_tx_dropped_total", "too_long"); n != 0 && !lost {
		t.Errorf("%d packets rejected or not sent by the Go server: %v", n, s.Counters())
	}
}

// An MTU that is set too high: what does not leave is counted, calls end.
func TestR13TooHighAnMTUIsCounted(t *testing.T) {
	overlay(t, 1400)
	s, err := r2p2.NewServer(r2p2.ServerConfig{Address: loopback, Handler: echo, MTU: 1500})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := goClient(t, r2p2.ClientConfig{Timeout: time.Second, MTU: 1500}, s.Addrs()...)
	for _, n := range []int{1400, 65536} {
		if _, err := c.Call(t.Context(), body(n)); !errors.Is(err, r2p2.ErrTimeout) {
			t.Errorf("%d bytes: %v, want %v", n, err, r2p2.ErrTimeout)
		}
	}
	if n := count(c.Counters(), "io_tx_dropped_total", "too_long"); n < 2 {
		t.Errorf("%d packets counted as too long: %v", n, c.Counters())
	}
	if _, err := c.Do(t.Context(), &r2p2.Request{Payload: body(1000), Timeout: time.Minute}); err != nil {
		t.Errorf("what fits: %v", err)
	}
}
