// SPDX-License-Identifier: Apache-2.0

//go:build replica && bench

package replica

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bobtail-dev/bobtail/e2e/faults/bed"
	"github.com/bobtail-dev/bobtail/e2e/harness"
	"github.com/bobtail-dev/bobtail/e2e/replica/history"
)

// What one operation costs the leader (table 12.1), counted in the packets that
// its link carries.

const (
	benchOps  = 2000
	benchWarm = 50
)

var figures harness.Measurements

func TestMain(m *testing.M) {
	code := m.Run()
	root, _ := filepath.Abs("../..")
	figures.Set("leftovers", len(bed.Leftovers()))
	if target := os.Getenv("REPLICA_TARGET"); target != "" {
		if err := figures.Write(root, target); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// tap counts the R2P2 packets of one host's link.
type tap struct {
	fd    int
	stop  chan struct{}
	ended sync.WaitGroup

	mu       sync.Mutex
	seen     *sync.Cond
	entries  int               // sent: messages with entries, one after the other
	several  int               // of them, with more than one entry
	replies  int               // sent to clients
	requests int               // received from clients, or from the box
	acks     int               // received: answers by which more is known to be durable
	apart    int               // signs of life, announcements of a commit, their answers, FEEDBACK, questions for bodies
	acked    map[uint16]uint64 // by member, or by the aggregator with what it told
	served   int               // with entries, to members themselves
	asked    uint64            // the last entry that was sent to members themselves: answers to nothing are apart
}

// Of R2P2 packets and of the messages in them; docs/reference/protocol.md.
const (
	typeRequest, typeReply, typeMember = 0, 1, 5
	msgAppend, msgAppendReply          = 2, 3
	msgCommitted, msgShared            = 4, 12 // AGG_COMMIT; an append by way of the aggregator
	msgHeader                          = 24
	noMember                           = 16 // ids are below
)

func openTap(ns string) (*tap, error) {
	t := &tap{stop: make(chan struct{}), acked: map[uint16]uint64{}}
	t.seen = sync.NewCond(&t.mu)
	err := bed.Inside(ns, func() (err error) {
		const allProtocols = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8
		t.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, allProtocols)
		return err
	})
	if err != nil {
		return nil, err
	}
	_ = unix.SetsockoptInt(t.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)
	timeout := unix.NsecToTimeval(int64(100 * time.Millisecond))
	if err := unix.SetsockoptTimeval(t.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		return nil, err
	}
	t.ended.Go(t.read)
	return t, nil
}

func (t *tap) close() {
	close(t.stop)
	t.ended.Wait()
	unix.Close(t.fd)
}

func (t *tap) read() {
	buf := make([]byte, 65536)
	for {
		select {
		case <-t.stop:
			return
		default:
		}
		n, from, err := unix.Recvfrom(t.fd, buf, 0)
		if err != nil {
			continue
		}
		link := from.(*unix.SockaddrLinklayer)
		t.take(buf[:n], link.Pkttype == unix.PACKET_OUTGOING)
	}
}

// take reads an IPv4 packet: where its UDP payload begins, then what it is.
func (t *tap) take(ip []byte, sent bool) {
	if len(ip) < 20 || ip[0]>>4 != 4 || ip[9] != unix.IPPROTO_UDP {
		return
	}
	at := int(ip[0]&15)*4 + 8
	if len(ip) < at+8 || ip[at] != 0xCC {
		return
	}
	p := ip[at:]
	t.mu.Lock()
	defer t.mu.Unlock()
	switch kind := p[2] >> 4; {
	case kind == typeRequest && !sent:
		t.requests++
	case kind == typeReply && sent:
		t.replies++
	case kind == typeMember && len(p) >= int(p[1])+msgHeader+12:
		t.message(p[p[1]:], sent)
	default:
		t.apart++
	}
	t.seen.Broadcast()
}

func (t *tap) message(m []byte, sent bool) {
	from, count, index := binary.BigEndian.Uint16(m[2:]), binary.BigEndian.Uint32(m[msgHeader:]), binary.BigEndian.Uint64(m[msgHeader+4:])
	switch {
	case sent && (m[1] == msgAppend || m[1] == msgShared) && count > 0:
		t.entries++
		if count > 1 {
			t.several++
		}
		if m[1] == msgAppend {
			t.served++
			t.asked = max(t.asked, index+uint64(count))
		}
	case !sent && m[1] == msgAppendReply && from < noMember && index > t.acked[from] && t.acked[from] < t.asked:
		t.acks++
		t.acked[from] = index
	case !sent && m[1] == msgCommitted && len(m) >= msgHeader+20 && binary.BigEndian.Uint64(m[msgHeader+12:]) > t.acked[from]:
		t.acks++
		t.acked[from] = binary.BigEndian.Uint64(m[msgHeader+12:])
	default:
		t.apart++
	}
}

// errServed: a member missed what came by way of the aggregator, and its leader serves it itself.
var errServed = errors.New("the leader of an aggregated group sent entries to a member itself")

// level waits until all others are known to hold what the furthest of them holds,
// so that the next request is the only entry of its messages. With an aggregator it
// is the only other one.
func (t *tap) level(others int, ops int) error {
	end := time.Now().Add(patience)
	tick := time.AfterFunc(patience, t.seen.Broadcast)
	defer tick.Stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		if others == 1 && t.served > 0 {
			return errServed
		}
		var most uint64
		for _, i := range t.acked {
			most = max(most, i)
		}
		there := 0
		for _, i := range t.acked {
			if i == most {
				there++
			}
		}
		if there == others && t.acks >= others*ops {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("the members are not level: %v", t.acked)
		}
		t.seen.Wait()
	}
}

// TestLeaderMessages: N members, one request at a time.
func TestLeaderMessages(t *testing.T) {
	worst := 0.0
	apart := Kind{Volatile: true, Patient: true, HovercRaft: true, Multicast: true, Repliers: "Random"}
	aggregated := apart
	aggregated.PlusPlus = true
	for _, kind := range []Kind{{Volatile: true, Patient: true}, apart, aggregated} {
		for n := 3; n <= 9; n += 2 {
			name, others, reply := "raft", n-1, 1.0
			if kind.HovercRaft {
				name, reply = "hovercraft", 1/float64(n)
			}
			if kind.PlusPlus {
				name, others = "hovercraftpp", 1
			}
			t.Run(fmt.Sprintf("%s_n%d", name, n), func(t *testing.T) {
				tx, rx := leaderMessages(t, kind, n, others)
				wantTx, wantRx := float64(others)+reply, float64(1+others)
				off := 100 * math.Max(math.Abs(tx/wantTx-1), math.Abs(rx/wantRx-1))
				t.Logf("tx %.3f (%.3f), rx %.3f (%.3f): %.2f %% off", tx, wantTx, rx, wantRx, off)
				worst = math.Max(worst, off)
				figures.SetFinite(fmt.Sprintf("leader_tx_per_op_%s_n%d", name, n), tx)
				figures.SetFinite(fmt.Sprintf("leader_rx_per_op_%s_n%d", name, n), rx)
			})
		}
	}
	figures.SetFinite("table_12_1_off_percent", worst)
}

func leaderMessages(t *testing.T, kind Kind, n, others int) (tx, rx float64) {
	p := begin(t, n, n, kind)
	put := history.Op{Kind: 'P', Key: "k", Value: "v"}
	write := func() {
		_, err := p.c.list[0].Write(context.Background(), put.Body())
		p.must(err)
	}
	for range benchWarm { // the leader, or the box, is found, and the box has begun to speak
		write()
	}
	p.c.Close()
	var err error
	p.c, err = p.g.Dial(1, 20*time.Second) // so patient that no request is asked for twice
	p.must(err)
	write()
	if kind.PlusPlus {
		p.aggregated(true)
	}
	for range 20 { // a leader that was replaced, or had to mend a member, while the machine did something else is none to measure
		if link := measureLeader(p, write, others); link != nil {
			t.Logf("%d sent with an entry, %d replies, %d requests, %d answers that hold more, %d apart", link.entries, link.replies, link.requests, link.acks, link.apart)
			return float64(link.entries+link.replies) / benchOps, float64(link.requests+link.acks) / benchOps
		}
	}
	t.Fatal("no leader lasted")
	return 0, 0
}

// measureLeader: what the leader's link carried for benchOps requests; nil when it
// did not lead all the time, left its aggregator, or went past it.
func measureLeader(p *play, write func(), others int) *tap {
	p.must(p.g.AwaitSame(p.g.Members...))
	l := p.leader()
	before, fallbacks := p.g.Status(l), p.value(l, "replica_events_total", "fallbacks")
	link, err := openTap(p.g.Net.Namespace(l.Host))
	p.must(err)
	for i := range benchOps {
		write()
		if err = link.level(others, i+1); err != nil {
			break
		}
	}
	link.close()
	after := p.g.Status(l)
	if errors.Is(err, errServed) || before == nil || after == nil || after.Role != "Leader" || after.Term != before.Term || p.value(l, "replica_events_total", "fallbacks") != fallbacks {
		return nil
	}
	p.must(err)
	if after.Last-before.Last != benchOps || link.requests != benchOps || link.several != 0 {
		p.t.Fatalf("%d requests were sent, %d came, and the log grew by %d; %d messages had several entries", benchOps, link.requests, after.Last-before.Last, link.several)
	}
	return link
}
