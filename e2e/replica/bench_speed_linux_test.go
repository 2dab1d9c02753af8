// SPDX-License-Identifier: Apache-2.0

//go:build replica && bench

package replica

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/redis"
	"github.com/bobtail-dev/bobtail/e2e/faults/bed"
	"github.com/bobtail-dev/bobtail/e2e/replica/history"
)

// Puts of the same size, as many outstanding, into groups of as many members: one
// side after the other, again and again. What counts is the ratio.
const (
	speedMembers     = 3
	speedOutstanding = 64
	speedKeys        = 1000
	speedValue       = 100 // bytes
	speedRounds      = 7
	speedRound       = 2 * time.Second
	speedWarm        = 500 * time.Millisecond
)

// A side puts values. put is called by many at once, each with a number of its own.
type side struct {
	name string
	put  func(worker int, key, value string) error
}

// rate of puts that ended well, in a second.
func (s side) rate(t *testing.T, lasts time.Duration) float64 {
	t.Helper()
	var done, failed atomic.Int64
	var ended sync.WaitGroup
	var last atomic.Value
	began := time.Now()
	value := string(bytes.Repeat([]byte("v"), speedValue))
	for w := range speedOutstanding {
		ended.Go(func() {
			for time.Since(began) < lasts {
				if err := s.put(w, fmt.Sprintf("key-%06d", rand.IntN(speedKeys)), value); err != nil {
					failed.Add(1)
					last.Store(err)
				} else {
					done.Add(1)
				}
			}
		})
	}
	ended.Wait()
	if n := failed.Load(); n > done.Load()/100 {
		t.Fatalf("%s: %d puts failed, %d did not: %v", s.name, n, done.Load(), last.Load())
	}
	return float64(done.Load()) / time.Since(began).Seconds()
}

// compare is the median ratio of a to each other side, all measured in each round.
func compare(t *testing.T, a side, others ...side) []float64 {
	t.Helper()
	ratios := make([][]float64, len(others))
	sides := append([]side{a}, others...)
	for _, s := range sides {
		s.rate(t, speedWarm)
	}
	for round := range speedRounds {
		rate := make([]float64, len(sides))
		for i := range sides {
			at := (i + round) % len(sides) // nobody is always first
			rate[at] = sides[at].rate(t, speedRound)
		}
		line := ""
		for i, s := range sides {
			line += fmt.Sprintf("  %s %.1f kops", s.name, rate[i]/1000)
			if i > 0 {
				ratios[i-1] = append(ratios[i-1], rate[0]/rate[i])
			}
		}
		t.Logf("round %d:%s", round+1, line)
	}
	var median []float64
	for _, r := range ratios {
		slices.Sort(r)
		median = append(median, r[len(r)/2])
	}
	return median
}

// group of ours, with clients enough for all workers.
func ourSide(t *testing.T, name, dir string, kind Kind) side {
	t.Helper()
	kind.Here, kind.Patient = true, true
	g, err := NewGroup(dir, speedMembers, speedMembers, kind)
	t.Cleanup(func() {
		if g == nil {
			return
		}
		if t.Failed() {
			g.tell(t)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		for _, m := range g.All() {
			if t.Failed() && m.proc != nil {
				t.Logf("%s:\n%s", m.Name, bed.Tail(m.proc.Log, 12))
			}
		}
	})
	if err == nil {
		err = g.AwaitReady(g.Members...)
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := g.Dial(8, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return side{name, func(worker int, key, value string) error {
		o := history.Op{Kind: 'P', Key: key, Value: value}
		reply, err := c.list[worker%len(c.list)].Write(context.Background(), c.Ask(&o))
		if err == nil {
			err = c.Answer(&o, reply)
		}
		if err == nil && o.Status != '+' {
			err = fmt.Errorf("status %c", o.Status)
		}
		return err
	}}
}

// tell says how every member stands, and what happened to it.
func (g *Group) tell(t *testing.T) {
	t.Helper()
	for _, m := range g.Members {
		s := g.Status(m)
		if s == nil {
			t.Logf("%s does not answer", m.Name)
			continue
		}
		t.Logf("%s: %s %s %s %s; term %d, log %d to %d, commit %d, applied %d, snapshot %d, %d of %d heard", m.Name, s.Phase, s.Role, s.Reason, s.Message, s.Term,
			s.First, s.Last, s.Commit, s.Applied, s.Snapshot.Index, s.Quorum.Heard, s.Quorum.Voters)
		if c, err := g.ask(m, map[string]any{"v": 1, "op": "counters"}); err == nil {
			for _, one := range c.Counters {
				if one.Value > 0 {
					t.Logf("  %s %v %d", one.Name, one.Labels, one.Value)
				}
			}
		}
	}
}

// process started for the comparison, ended with the test.
func process(t *testing.T, dir, name string, argv ...string) {
	t.Helper()
	p, err := bed.StartHere(name, dir, "", argv...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%s:\n%s", name, bed.Tail(p.Log, 5))
		}
	})
}

// redisWaitSide is Redis' own replication: a primary with two copies, which are
// asked whether one of them has the write. It may be lost all the same when the
// primary is, and nobody takes over by itself.
func redisWaitSide(t *testing.T, dir string) side {
	t.Helper()
	server, err := redisServer()
	if err != nil {
		t.Fatal(err)
	}
	const primary = "127.119.9.1"
	for i := range speedMembers {
		own := filepath.Join(dir, fmt.Sprint("redis", i))
		if err := os.MkdirAll(own, 0o755); err != nil {
			t.Fatal(err)
		}
		argv := append(slices.Clone(server), "--bind", fmt.Sprintf("127.119.9.%d", i+1), "--port", strconv.Itoa(redisPort), "--save", "", "--appendonly", "no", "--dir", own, "--repl-diskless-sync-delay", "0", "--protected-mode", "no")
		if i > 0 {
			argv = append(argv, "--replicaof", primary, strconv.Itoa(redisPort))
		}
		process(t, dir, fmt.Sprint("redis", i), argv...)
	}
	conns := make([]net.Conn, speedOutstanding)
	var readers [speedOutstanding]*bufio.Reader
	for i := range conns {
		err := until("the primary", func() bool {
			c, err := net.Dial("tcp", net.JoinHostPort(primary, strconv.Itoa(redisPort)))
			conns[i] = c
			return err == nil
		})
		if err != nil {
			t.Fatal(err)
		}
		readers[i] = bufio.NewReader(conns[i])
		t.Cleanup(func() { conns[i].Close() })
	}
	put := func(worker int, key, value string) error {
		p := redis.AppendCommand(redis.AppendCommand(nil, "SET", key, value), "WAIT", "1", "0")
		if _, err := conns[worker].Write(p); err != nil {
			return err
		}
		first, err := readers[worker].ReadString('\n')
		second, err2 := readers[worker].ReadString('\n')
		if first != "+OK\r\n" || len(second) < 2 || second[0] != ':' || second[1] < '1' {
			err = fmt.Errorf("%q, %q", first, second)
		}
		return errors.Join(err, err2)
	}
	if err := until("a copy", func() bool { return put(0, "first", "x") == nil }); err != nil {
		t.Fatal(err)
	}
	return side{"redis WAIT 1", put}
}

// TestSpeed: kops_ratio_vs_etcd_tmpfs, kops_ratio_vs_etcd_fsync, and Redis.
func TestSpeed(t *testing.T) {
	t.Run("tmpfs", func(t *testing.T) {
		dir, err := os.MkdirTemp("/dev/shm", "bobtail-replica-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		ratio := compare(t, ourSide(t, "bobtail, Volatile", dir, Kind{Volatile: true}), etcdSide(t, dir, "--unsafe-no-fsync"))
		figures.SetFinite("kops_ratio_vs_etcd_tmpfs", ratio[0])
	})
	t.Run("fsync", func(t *testing.T) {
		dir := onDisk(t)
		ratio := compare(t, ourSide(t, "bobtail, Always", dir, Kind{}), etcdSide(t, dir))
		figures.SetFinite("kops_ratio_vs_etcd_fsync", ratio[0])
	})
	t.Run("redis", func(t *testing.T) {
		dir, err := os.MkdirTemp("/dev/shm", "bobtail-replica-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		ratio := compare(t, ourSide(t, "a group of Redis, Volatile", dir, Kind{Redis: true, Volatile: true}), redisWaitSide(t, dir))
		figures.SetFinite("kops_ratio_redis_group_vs_wait_1_weaker", ratio[0])
	})
}

// onDisk is a folder whose files are on a disk, and not in memory.
func onDisk(t *testing.T) string {
	t.Helper()
	wd, _ := os.Getwd()
	base := filepath.Join(wd, "..", "..", "build")
	if err := os.MkdirAll(base, 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(base, "bench-replica-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	kind, err := exec.Command("stat", "-f", "-c", "%T", dir).Output()
	if err != nil || bytes.Contains(kind, []byte("tmpfs")) {
		t.Fatalf("%s is on %q, and fsync costs nothing there: %v", dir, kind, err)
	}
	t.Logf("fsync on %s", bytes.TrimSpace(kind))
	return dir
}
