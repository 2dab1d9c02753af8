// SPDX-License-Identifier: Apache-2.0

package rounds

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/config"
	"github.com/bobtail-dev/bobtail/e2e/faults/bed"
)

const sigterm = syscall.SIGTERM

// happening is a plan's events at work.
type happening struct {
	w       *world
	seed    uint64
	over    chan struct{} // closed when the load has ended
	running sync.WaitGroup

	mu        sync.Mutex
	errs      []error
	loads     []*load      // further loads that events brought
	restarted map[int]bool // servers with a new life
}

func (w *world) happen(p *plan, seed uint64) *happening {
	h := &happening{w: w, seed: seed, over: make(chan struct{}), restarted: map[int]bool{}}
	for _, e := range p.events {
		h.running.Add(1)
		go func() {
			defer h.running.Done()
			time.Sleep(e.at)
			if err := h.run(e); err != nil {
				h.mu.Lock()
				h.errs = append(h.errs, fmt.Errorf("%s: %w", e, err))
				h.mu.Unlock()
			}
		}()
	}
	return h
}

func (h *happening) run(e event) error {
	w := h.w
	switch e.kind {
	case killServer:
		w.servers[e.victim].Kill()
		time.Sleep(e.length)
		return h.newLife(e.victim)
	case drainServer:
		return h.drain(e.victim)
	case drainServers:
		return h.drainAll(e.victim)
	case killRouter:
		w.routers[e.victim].Kill()
		time.Sleep(e.length)
		return w.startRouter(e.victim)
	case pauseServer:
		return h.pauseUntilSuspected(e)
	case pauseRouter, stopFailover:
		return h.pause(w.routers[e.victim], e.length)
	case overload:
		return h.overload()
	case reconfigure:
		return h.reconfigure()
	case idlePeers:
		return h.idlePeers()
	case stranger:
		return w.stranger(e.length / time.Duration(strangerPackets*w.v.routers()))
	case socketFlood:
		return h.flood(e.victim)
	case halfOpen:
		return h.beginOnly(e)
	}
	h.cut(e, true)
	time.Sleep(e.length)
	h.cut(e, false)
	return nil
}

// drainAll drains one server after the other. The first of them that is a C
// program has a slow life between two drains.
func (h *happening) drainAll(first int) error {
	slow := first
	if h.w.goServer(slow) {
		slow = (first + 1) % servers
	}
	for i := range servers {
		server := (first + i) % servers
		var err error
		if server == slow && !h.w.v.Legacy { // of a legacy worker so slow the router takes credits for lost
			err = h.drainBusy(server)
		}
		if err = errors.Join(err, h.drain(server)); err != nil {
			return err
		}
		time.Sleep(300 * time.Millisecond) // to join again
	}
	return nil
}

func (h *happening) drain(server int) error {
	if err := h.w.servers[server].Stop(patience); err != nil {
		return err
	}
	return h.newLife(server)
}

// drainBusy gives a server a life in which a request takes longer than a drain
// is quiet, and returns when it is at work on one: what does not wait for that
// request ends without an answer to it.
func (h *happening) drainBusy(server int) error {
	if err := h.w.servers[server].Stop(patience); err != nil {
		return err
	}
	if err := h.live(server, slowService); err != nil {
		return err
	}
	_, err := bed.Until(patience, func() error {
		st, err := h.w.servers[server].State()
		if err == nil && (st.Backlog == nil || *st.Backlog == 0) {
			err = fmt.Errorf("server %d gets no request", server)
		}
		return err
	})
	return err
}

func (h *happening) newLife(server int) error { return h.live(server, fastService) }

func (h *happening) live(server int, service time.Duration) error {
	h.mu.Lock()
	h.restarted[server] = true
	h.mu.Unlock()
	return h.w.startServer(server, service)
}

// pause stops a process for a time, or until the load is over.
func (h *happening) pause(p *bed.Process, length time.Duration) error {
	p.Signal(syscall.SIGSTOP)
	select {
	case <-time.After(length):
	case <-h.over:
	}
	p.Signal(syscall.SIGCONT)
	return nil
}

// pauseUntilSuspected stops a server until every router suspects it. A busy
// worker is given T_leak, which follows from how long requests took, so
// no fixed time would do.
func (h *happening) pauseUntilSuspected(e event) error {
	p := h.w.servers[e.victim]
	p.Signal(syscall.SIGSTOP)
	defer p.Signal(syscall.SIGCONT)
	time.Sleep(e.length)
	if h.w.v.Legacy {
		return nil // such a worker is silent when idle and never suspected
	}
	_, err := bed.Until(patience, func() error {
		for i, r := range h.w.routers {
			st, err := r.State()
			if err != nil {
				continue // another event ended this one
			}
			for _, m := range st.Members {
				if m.Address == h.w.v.address(h.w.v.serverHost(e.victim)) && m.Joined && !m.Suspect {
					return fmt.Errorf("router %d does not suspect %s:%d, silent for %d ms", i, m.Address, m.Port, m.FeedbackAgeMilliseconds)
				}
			}
		}
		return nil
	})
	return err
}

func (h *happening) cut(e event, on bool) {
	w, s := h.w, h.w.net.Shim
	server := w.v.serverHost(e.victim)
	switch e.kind {
	case cutReplies:
		s.Cut(server, clientHost, on)
		return
	case cutRouter:
		s.Cut(clientHost, w.v.routerHost(e.victim), on)
		s.Cut(w.v.routerHost(e.victim), clientHost, on)
		return
	}
	for i := range w.v.routers() {
		if e.kind != cutRequests {
			s.Cut(server, w.v.routerHost(i), on)
		}
		if e.kind != cutFeedback {
			s.Cut(w.v.routerHost(i), server, on)
		}
	}
}

// overloadTimeout is much longer than a request waits for its DROP.
const overloadTimeout = 10 * time.Second

// overload offers three times what the workers can do for a second.
func (h *happening) overload() error {
	l, err := h.w.startLoad(shape{name: "overload", rate: 3 * capacity, seconds: 1, bytes: 1200, sockets: 8, timeout: overloadTimeout}, h.seed^3)
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.loads = append(h.loads, l)
	h.mu.Unlock()
	return nil
}

// reconfigure changes what may change at run time on every program, again and
// again, and ends with the configuration of the start.
func (h *happening) reconfigure() error {
	policies := slices.DeleteFunc(slices.Clone(config.Policies), func(p string) bool { return p == "JBSQ" })
	policies = append(slices.Insert(policies, len(policies)-1, "JBSQ"), "JBSQ") // from and to each of the others
	for i, policy := range policies {
		d := h.w.v.document()
		d.Service.Policy = policy
		d.Service.WorkerQueueDepth = 2 + (i+int(h.seed%5))%7
		if policy == "JBSQ" { // the only policy that may hold back
			d.Service.HoldBack = config.HoldBack{Packets: 8, Microseconds: 50}
		}
		if i == len(policies)-1 {
			d = h.w.v.document()
		}
		for _, p := range h.configurable() {
			if !p.Running() {
				continue // killed by another event of the round
			}
			if err := applyOnceThere(p, d); err != nil && p.Running() {
				return err
			}
		}
		time.Sleep(300 * time.Millisecond)
	}
	return nil
}

// applyOnceThere applies to a program that another event of the round may have started just now: it runs, and does not
// listen yet.
func applyOnceThere(p *bed.Process, d *config.Document) error {
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := p.Apply(d)
		starts := errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT)
		if !starts || !p.Running() || time.Now().After(end) {
			return err
		}
	}
}

// configurable are the programs that take the bed's document; servers without
// header extensions have their routers from the command line.
func (h *happening) configurable() []*bed.Process {
	if h.w.v.Legacy {
		return h.w.routers
	}
	return h.w.processes()
}

// idlePeers opens more connections to every control socket than it keeps and
// says nothing on them until the load is over; the programs must go on
// answering others.
func (h *happening) idlePeers() error {
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	for _, p := range h.w.processes() {
		for range 20 {
			// A full backlog refuses for a moment.
			_, err := bed.Until(patience, func() error {
				c, err := net.Dial("unixpacket", p.Ctl)
				if err == nil {
					conns = append(conns, c)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	<-h.over
	return nil
}

// flood fills the socket buffers of a router that is stopped for a moment with
// datagrams nobody should send.
func (h *happening) flood(router int) error {
	p := h.w.routers[router]
	p.Signal(syscall.SIGSTOP)
	defer p.Signal(syscall.SIGCONT)
	return bed.Inside(h.w.net.Namespace(clientHost), func() error {
		garbage := make([]byte, 1400)
		garbage[0], garbage[1] = 0xCC, 8 // REQ0 of a policy and flags that contradict each other
		for _, port := range []string{"8000", "9000"} {
			c, err := net.Dial("udp", net.JoinHostPort(h.w.v.address(h.w.v.routerHost(router)), port))
			if err != nil {
				return err
			}
			for i := range 4000 {
				garbage[2], garbage[3], garbage[4] = byte(i>>4), byte(i)&0x3f, byte(i)
				_, _ = c.Write(garbage)
				if i%64 == 0 {
					time.Sleep(time.Millisecond)
				}
			}
			c.Close()
		}
		return nil
	})
}

// finish is called when the load has ended; it waits for what is under way.
func (h *happening) finish() []error {
	close(h.over)
	h.running.Wait()
	for _, l := range h.loads {
		if err := l.finish(); err != nil {
			h.errs = append(h.errs, err)
		}
	}
	return h.errs
}
