// SPDX-License-Identifier: Apache-2.0

package rounds

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
	"github.com/bobtail-dev/bobtail/e2e/faults/bed"
	"github.com/bobtail-dev/bobtail/e2e/faults/shim"
)

// snapshot is every count at one quiet moment.
type snapshot struct {
	process map[*bed.Process]bed.Samples
	rows    map[*bed.Process][]ctl.WorkerState // of each router
	kernel  []bed.UDP                          // by host
	shim    shim.Counts
}

// onePacket is a size of which a message has no second packet.
const onePacket = 1000

// driverBatch is how many buffers the socket driver keeps ready (BT_IO_BATCH).
const driverBatch = 64

// freezeMost bounds how long the network stands still for a snapshot: well
// below T_dead, so that nobody is taken for dead.
const freezeMost = 400 * time.Millisecond

// snapshot stops the network until every datagram that was delivered has been
// read: FEEDBACK never rests, and counts are taken one by one.
func (w *world) snapshot() (*snapshot, error) {
	defer w.net.Shim.Freeze()()
	end := time.Now().Add(freezeMost)
	last, err := w.count()
	for err == nil && time.Now().Before(end) {
		time.Sleep(10 * time.Millisecond)
		s, e := w.count()
		if e == nil && s.still(last) {
			return s, nil
		}
		last, err = s, e
	}
	return last, err
}

// still tells whether nothing was read since an earlier count.
func (s *snapshot) still(last *snapshot) bool {
	for p, c := range s.process {
		if c.Sum("io_rx_packets_total") != last.process[p].Sum("io_rx_packets_total") {
			return false
		}
	}
	return slices.Equal(s.kernel, last.kernel)
}

func (w *world) count() (*snapshot, error) {
	s := &snapshot{process: map[*bed.Process]bed.Samples{}, rows: map[*bed.Process][]ctl.WorkerState{}, shim: w.net.Shim.Counts()}
	for _, p := range w.processes() {
		c, err := p.Counters()
		if err != nil {
			return nil, err
		}
		s.process[p] = c
	}
	for _, p := range w.routers {
		st, err := p.State()
		if err != nil {
			return nil, err
		}
		s.rows[p] = st.Members
	}
	for host := range w.v.hosts() {
		u, err := w.net.Kernel(host)
		if err != nil {
			return nil, err
		}
		s.kernel = append(s.kernel, u)
	}
	return s, nil
}

// growth is the difference of a program's counters between two snapshots.
type growth struct{ before, after bed.Samples }

func (g growth) of(name string, labels ...string) int64 {
	return g.after.Sum(name, labels...) - g.before.Sum(name, labels...)
}

// fast is how many packets a router's program in the kernel dealt with, which
// no socket saw.
func (g growth) fast() int64 { return g.of("router_fast_path_total") }

// reasons lists the values of a label whose counter of that name grew.
func (g growth) reasons(name, label string) map[string]int64 {
	grown := map[string]int64{}
	for _, s := range g.after {
		if s.Name == name {
			if n := g.of(name, label, s.Labels[label]); n != 0 {
				grown[s.Labels[label]] = n
			}
		}
	}
	return grown
}

// survivor is the growth of a process that lived through the round; nothing
// can be said of the counts of others.
func survivor(before, after *snapshot, p *bed.Process) (growth, bool) {
	b, was := before.process[p]
	a, is := after.process[p]
	return growth{b, a}, was && is
}

// checkCounters holds that packets and requests are conserved in every program
// that lived through the round, in the kernels and in the shim, and that drops
// have no other reason than the faults explain.
func (r *runner) checkCounters(v *verdict, before, after *snapshot, done []execution, a allowance) {
	w := r.w
	for i, p := range w.routers {
		if g, ok := survivor(before, after, p); ok {
			checkRouter(v, fmt.Sprintf("router %d", i), g, a)
			v.hold(!w.v.FastPath || g.fast() > 0, "fast path", "router %d: its program dealt with no packet", i)
			checkBuffers(v, fmt.Sprintf("router %d", i), "router_buffers_in_use", g.after, w.v.routerThreads())
			w.checkHops(v, i, &after.shim)
			w.checkHost(v, w.v.routerHost(i), before, after, g)
		}
	}
	for i, p := range w.servers {
		if g, ok := survivor(before, after, p); ok && !w.goServer(i) {
			executed := int64(0)
			for _, e := range done {
				if e.life == fmt.Sprintf("executions-%d-%d.log", i, w.lives[i]) {
					executed++
				}
			}
			checkServer(v, fmt.Sprintf("server %d", i), g, executed, a)
			w.checkHost(v, w.v.serverHost(i), before, after, g)
		}
	}
	c := after.shim
	v.hold(c.Unbalanced() == "", "conserved", "shim: %s", c.Unbalanced())
	v.equal("bed", "packets the shim or its links had no room for", int64(c.Overrun), 0)
}

func checkRouter(v *verdict, name string, g growth, a allowance) {
	const c = "conserved"
	dropped := g.of("router_dropped_total")
	v.equal(c, name+": requests forwarded, dropped or held, of those taken", g.of("router_forwarded_total")+dropped+g.of("router_held"), g.of("router_requests_total"))
	v.equal(c, name+": requests, FEEDBACK and discards, of packets received",
		g.of("router_requests_total")+g.of("router_feedback_total")+g.of("router_discarded_total"),
		g.of("io_rx_packets_total")+g.fast())
	v.equal(c, name+": packets sent or refused, of those forwarded and dropped",
		g.of("io_tx_packets_total")+g.of("io_tx_dropped_total")+g.of("router_fast_path_total", "kind", "request"), g.of("router_forwarded_total")+dropped)
	v.equal(c, name+": requests the program in the kernel had no memory for", g.of("router_fast_path_unsent_total"), 0)
	for reason, n := range g.reasons("router_dropped_total", "reason") {
		v.hold(reason == "queue_timeout" && a.queue || reason == "queue_full" && a.full, "explained", "%s dropped %d requests by %s", name, n, reason)
	}
	for reason, n := range g.reasons("router_discarded_total", "reason") {
		v.hold(a.rejected || reason == strangerCase && n == a.strangers, "explained", "%s discarded %d packets as %s", name, n, reason)
	}
	v.hold(a.strangers == 0 || g.of("router_discarded_total", "reason", strangerCase) == a.strangers, "stranger",
		"%s discarded %d FEEDBACK of strangers, %d were sent (R-114)", name, g.of("router_discarded_total", "reason", strangerCase), a.strangers)
	checkIO(v, name, g, a)
}

func checkServer(v *verdict, name string, g growth, executed int64, a allowance) {
	const c = "conserved"
	dropped := g.reasons("server_dropped_total", "reason")
	sum := int64(0)
	for reason, n := range dropped {
		sum += n
		v.hold(reason == "incomplete" && (a.timeouts || a.doubled || a.halfOpen) || reason == "displaced" && a.halfOpen, "explained", "%s dropped %d requests by %s", name, n, reason)
	}
	v.equal(c, name+": requests answered or dropped, of those taken", g.of("server_replies_total")+sum, g.of("server_requests_total"))
	v.equal(c, name+": packets taken or rejected, of those received", g.of("server_packets_received_total")+g.of("server_rejected_total"), g.of("io_rx_packets_total"))
	v.equal(c, name+": requests answered, of those executed", g.of("server_replies_total"), executed)
	v.equal(c, name+": packets sent or refused, of those made", g.of("io_tx_packets_total")+g.of("io_tx_dropped_total"), g.of("server_packets_sent_total"))
	for reason, n := range g.reasons("server_rejected_total", "case") {
		v.hold(a.rejected, "explained", "%s rejected %d packets as %s", name, n, reason)
	}
	v.equal(c, name+": requests at work when idle", g.after.Sum("server_backlog"), 0)
	checkBuffers(v, name, "server_buffers_in_use", g.after, 1)
	checkIO(v, name, g, a)
}

// checkRepairs holds, in rounds whose network neither loses nor copies, that the
// messages of several packets arrived as they were sent: repair makes up for a
// packet that was not, and would hide it. A machine that stands still for longer
// than an RTO makes a few of them look incomplete, never a quarter.
func (w *world) checkRepairs(v *verdict, before, after *snapshot, loads []*load, a allowance) {
	if a.timeouts || a.doubled || a.overflow {
		return
	}
	long, repairs := 0, int64(0)
	for _, l := range loads {
		if l.bytes > onePacket {
			long += 2 * len(l.outcomes) // request and reply
		}
	}
	for i, p := range w.servers {
		if g, ok := survivor(before, after, p); ok && !w.goServer(i) {
			repairs += g.of("server_sacks_sent_total") + g.of("server_packets_resent_total")
		}
	}
	v.hold(repairs <= int64(long/4), "sent once", "servers asked for and sent again %d packets of %d long messages, and none was lost (R-24)", repairs, long)
}

// checkIO holds the reasons for which the driver may lose packets.
func checkIO(v *verdict, name string, g growth, a allowance) {
	for reason, n := range g.reasons("io_rx_dropped_total", "reason") {
		v.hold(reason == "kernel" && a.overflow, "explained", "%s: driver dropped %d received packets by %s", name, n, reason)
	}
	for reason, n := range g.reasons("io_tx_dropped_total", "reason") {
		v.hold(reason == "unreachable" && a.timeouts, "explained", "%s: driver dropped %d packets to send by %s", name, n, reason)
	}
}

// checkHops: R-123, a request that keeps its client's address goes on with one
// hop less than it came with, else a loop of routers would never end.
func (w *world) checkHops(v *verdict, router int, c *shim.Counts) {
	if w.v.Forwarding == "Transparent" {
		host := w.v.routerHost(router)
		v.equal("hops", fmt.Sprintf("router %d: requests passed on with fewer hops left, of all", router), int64(c.Passed[host][shim.Req0]), int64(c.Of[host][shim.Req0]))
	}
}

// checkBuffers holds that an idle program has given back every packet buffer
// but those its driver keeps ready to receive into.
// Each thread with sockets has a driver of its own.
func checkBuffers(v *verdict, name, gauge string, s bed.Samples, threads int64) {
	most := threads * driverBatch
	v.hold(s.Sum(gauge) >= 0 && s.Sum(gauge) <= most, "leaks", "%s: %d packet buffers in use when idle, its driver needs 0 to %d", name, s.Sum(gauge), most)
}

// checkDrops holds, in rounds whose network loses nothing, that each DROP the
// routers sent ended a request of a client that read it.
func (w *world) checkDrops(v *verdict, p *plan, before, after *snapshot, loads []*load) {
	if len(p.rules) > 0 || len(p.events) != 1 || p.events[0].kind != overload || w.v.Go {
		return
	}
	sent, ended := int64(0), int64(0)
	for _, r := range w.routers {
		g, _ := survivor(before, after, r)
		sent += g.of("router_dropped_total")
	}
	for _, l := range loads {
		ended += int64(l.Dropped)
	}
	b, a := before.kernel[clientHost], after.kernel[clientHost]
	unread := int64(a.BufferFull-b.BufferFull) + int64(a.NoPort-b.NoPort)
	v.hold(ended <= sent && ended >= sent-unread, "ended", "%d requests ended by DROP, routers sent %d, the client's sockets had no room for %d packets (R-30)", ended, sent, unread)
}

// checkHost holds that each datagram the shim gave a host was read by its
// program, found no port, no room, or was found corrupt by the kernel.
func (w *world) checkHost(v *verdict, host int, before, after *snapshot, g growth) {
	b, a := before.kernel[host], after.kernel[host]
	given := int64(0)
	for class, n := range after.shim.ToHost[host] {
		if c := shim.Class(class); c.R2P2() || c == shim.OtherUDP {
			given += int64(n) - int64(before.shim.ToHost[host][class])
		}
	}
	read := int64(a.Received - b.Received)
	name := strings.TrimPrefix(w.net.Namespace(host), "btf")
	v.equal("conserved", name+": datagrams read, without port, without room or corrupt, of those delivered",
		read+g.fast()+int64(a.NoPort-b.NoPort)+int64(a.BufferFull-b.BufferFull)+int64(a.BadChecksum-b.BadChecksum), given)
	unusable := g.of("io_rx_dropped_total", "reason", "no_buffer") + g.of("io_rx_dropped_total", "reason", "too_long")
	v.equal("conserved", name+": datagrams the program took or had no use for, of those the kernel handed over", g.of("io_rx_packets_total")+unusable, read)
	// Kernels differ in whether a wrong checksum is a drop of the socket's.
	full, corrupt := int64(a.BufferFull-b.BufferFull), int64(a.BadChecksum-b.BadChecksum)
	counted := g.of("io_rx_dropped_total", "reason", "kernel")
	v.hold(counted >= full && counted <= full+corrupt, "conserved",
		"%s: the program counted %d datagrams dropped by the kernel, which found no room for %d and %d corrupt", name, counted, full, corrupt)
}
