// SPDX-License-Identifier: Apache-2.0

//go:build replica

package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/redis"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/replica"
	"github.com/bobtail-dev/bobtail/e2e/replica/history"
)

// begun with a client that speaks Redis, too.
func beginRedis(t *testing.T, voters, places int, kind Kind) (*play, *redis.Client) {
	t.Helper()
	kind.Redis = true
	p := begin(t, voters, places, kind)
	var members []string
	for _, m := range p.g.Members {
		members = append(members, m.Address())
	}
	var c *redis.Client
	p.must(p.g.inside(func() (err error) {
		c, err = redis.Dial(context.Background(), replica.Config{Members: members, Timeout: patience})
		return err
	}))
	t.Cleanup(func() { _ = c.Close() })
	return p, c
}

// The leader's server is killed again and again.
func TestRedisKills(t *testing.T) { kills(t, Kind{Redis: true}, 1, 40) }

// The faults of TestFaults, and by a box.
func TestRedisFaults(t *testing.T) {
	for _, kind := range []Kind{{Redis: true}, {Redis: true, HovercRaft: true}} {
		t.Run(fmt.Sprint(kind.HovercRaft), func(t *testing.T) {
			p := begin(t, 3, 3, kind)
			from := p.r.IntN(len(events))
			for i := range rounds(2, 2*len(events)) {
				e := events[(from+5*i)%len(events)]
				t.Log(e.name)
				p.round(fmt.Sprintf("redis%d", i), func() { e.do(p) })
				p.must(p.g.AwaitReady(p.g.Members...))
			}
			p.same(p.g.Members...)
		})
	}
}

// fill writes records and values until no member's log reaches back to an entry any
// more, so that only a snapshot has it.
func (p *play) fill(c *redis.Client, entry uint64) {
	p.t.Helper()
	const writers = 8
	for n := 0; n < 20000; n += writers * 20 {
		var ended sync.WaitGroup
		errs := make([]error, writers)
		for w := range writers {
			ended.Go(func() {
				for i := range 20 {
					key := fmt.Sprintf("user%06d", n+w*20+i)
					_, err := c.Write(context.Background(), "YCSB.INSERT", "table", key, strings.Repeat(key, 20))
					_, err2 := c.Write(context.Background(), "HSET", "hash"+key[8:], key, key)
					errs[w] = errors.Join(errs[w], err, err2)
				}
			})
		}
		ended.Wait()
		p.must(errors.Join(errs...))
		there := true
		for _, m := range p.up() {
			s := p.g.Status(m)
			there = there && s != nil && s.First > entry
		}
		if there {
			return
		}
	}
	p.t.Fatal("20,000 records, and a member keeps its whole log")
}

// a new member takes up a snapshot that Redis wrote, a member that was away
// for long as well, and one that starts again takes up its own.
func TestRedisSnapshots(t *testing.T) {
	p, c := beginRedis(t, 3, 4, Kind{})
	away, next := p.g.Members[p.leader().ID%3], p.g.Members[3]
	away.Kill()
	had := p.g.Status(p.leader()).Last
	p.round("written", func() { p.fill(c, had+1) })
	p.must(p.g.Start(next))
	p.add(next)
	p.must(p.g.Start(away))
	p.round("learned", func() {
		for _, m := range []*Member{next, away} {
			p.must(until(m.Name+" installed a snapshot", func() bool {
				n, err := p.g.Value(m, "replica_events_total", "snapshots_installed")
				return err == nil && n > 0
			}))
		}
		p.order("promote", map[string]any{"id": next.ID})
	})
	p.must(p.g.AwaitReady(p.g.Members...))
	p.same(p.g.Members...)
	for _, m := range p.g.Members {
		m.Kill()
	}
	for _, m := range p.g.Members {
		p.must(p.g.Start(m))
	}
	p.must(p.g.AwaitReady(p.g.Members...))
	p.same(p.g.Members...)
	v, err := c.Read(context.Background(), "YCSB.SCAN", "table", "user000003", "3")
	p.must(err)
	want := []string{}
	for i := 3; i < 6; i++ {
		key := fmt.Sprintf("user%06d", i)
		want = append(want, key, strings.Repeat(key, 20))
	}
	if got := v.Strings(); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Fatalf("the records are %q, want %q", got, want)
	}
}

// FLUSHALL ends a snapshot that is being written; another one is written, and all is
// there after a restart.
func TestRedisFlushes(t *testing.T) {
	p, c := beginRedis(t, 3, 3, Kind{})
	for i := range 8 {
		for _, m := range p.g.Members {
			_ = p.g.Order(m, "snapshot", nil) // one that is busy with another is fine
		}
		_, err := c.WriteAll(context.Background(), redis.Command{"FLUSHALL"}, redis.Command{"SET", "after", fmt.Sprint(i)})
		p.must(err)
	}
	for _, m := range p.g.Members {
		p.must(until("a snapshot of "+m.Name, func() bool {
			_ = p.g.Order(m, "snapshot", nil)
			s := p.g.Status(m)
			return s != nil && s.Snapshot.Index > 0
		}))
	}
	for _, m := range p.g.Members {
		m.Kill()
	}
	for _, m := range p.g.Members {
		p.must(p.g.Start(m))
	}
	p.must(p.g.AwaitReady(p.g.Members...))
	p.same(p.g.Members...)
	v, err := c.Read(context.Background(), "GET", "after")
	p.must(err)
	if v.Text != "7" {
		t.Fatalf("after is %q", v.Text)
	}
}

// Every command of this Redis has a row in the table of the module, and what counts
// as a read, or as a write, is one for Redis, too.
func TestRedisCommands(t *testing.T) {
	p, c := beginRedis(t, 1, 1, Kind{})
	m := p.g.Members[0]
	text, err := p.g.AskRedis(m, "BOBTAIL.COMMANDS")
	p.must(err)
	use := map[string]string{}
	row := strings.Split(text, "\n")
	for i := 0; i+2 < len(row); i += 3 {
		use[row[i]] = row[i+1]
	}
	text, err = p.g.AskRedis(m, "COMMAND", "LIST")
	p.must(err)
	for _, name := range strings.Split(text, "\n") {
		if strings.ContainsAny(name, ".|") {
			continue // of a module, or a subcommand
		}
		info, err := p.g.AskRedis(m, "COMMAND", "INFO", name)
		p.must(err)
		flags := "\n" + info + "\n"
		write, read := strings.Contains(flags, "\nwrite\n"), strings.Contains(flags, "\nreadonly\n")
		switch use[name] {
		case "write":
			if !write || read {
				t.Errorf("%s is a write in the table, and not for Redis", name)
			}
		case "read":
			if write || !read {
				t.Errorf("%s is a read in the table, and not for Redis", name)
			}
		case "refused":
			p.refused(c, name)
		default:
			t.Errorf("%s is not in the table", name)
		}
		delete(use, name)
	}
	for name := range use {
		t.Errorf("%s is in the table, and this Redis does not know it", name)
	}
}

// refused: a command that is refused says so by its name, sent as a write or a read.
func (p *play) refused(c *redis.Client, words ...string) {
	p.t.Helper()
	for _, ask := range []func(context.Context, ...string) (redis.Value, error){c.Write, c.Read} {
		var e redis.Error
		if _, err := ask(context.Background(), words...); !errors.As(err, &e) || !strings.Contains(string(e), "'"+words[0]+"'") || !strings.Contains(string(e), "refused") {
			p.t.Errorf("%v: %v", words, err)
		}
	}
}

// What a group refuses, it names; nothing of a refused request is executed. Redis'
// own port takes no writes.
func TestRedisRefusals(t *testing.T) {
	p, c := beginRedis(t, 3, 3, Kind{})
	ctx := context.Background()
	must := func(v redis.Value, err error) redis.Value { p.must(err); return v }
	must(c.Write(ctx, "SET", "a", "1"))
	p.refused(c, "SPOP", "s")
	p.refused(c, "SET", "a", "2", "PX", "1000")
	p.refused(c, "copy", "a", "b", "DB", "1")
	p.refused(c, "NoSuchCommand")
	if _, err := c.Read(ctx, "INCR", "a"); err == nil || !strings.Contains(err.Error(), "READONLY") || !strings.Contains(err.Error(), "'INCR'") {
		t.Errorf("a write sent as a read: %v", err)
	}
	if _, err := c.ReadAll(ctx, redis.Command{"GET", "a"}, redis.Command{"INCR", "a"}); err == nil || !strings.Contains(err.Error(), "READONLY") {
		t.Errorf("a read and a write sent as reads: %v", err)
	}
	if _, err := c.WriteAll(ctx, redis.Command{"INCR", "a"}, redis.Command{"RANDOMKEY"}); err == nil || !strings.Contains(err.Error(), "'RANDOMKEY'") {
		t.Errorf("a request of which one command is refused: %v", err)
	}
	all, err := c.WriteAll(ctx, redis.Command{"INCR", "a"}, redis.Command{"LPUSH", "a", "x"}, redis.Command{"INCR", "a"})
	p.must(err)
	if all[0].Int != 2 || all[1].Err() == nil || all[2].Int != 3 {
		t.Errorf("three commands of one request: %+v", all)
	}
	for _, body := range []string{"", "PING\r\n", "*1\r\n$4\r\nPING", "*0\r\n", "*1\r\n$-1\r\n"} {
		reply, err := p.c.list[0].Write(ctx, []byte(body))
		if body != "" && (err != nil || !bytes.HasPrefix(reply, []byte("-ERR Protocol error: at byte "))) {
			t.Errorf("%q: %q %v", body, reply, err)
		}
	}
	for _, m := range p.g.Members {
		for _, words := range [][]string{{"SET", "a", "9"}, {"EVAL", "return 1", "0"}, {"CONFIG", "SET", "maxmemory", "1mb"}, {"BGSAVE"}, {"DEBUG", "RELOAD"}, {"YCSB.INSERT", "t", "k", "v"}, {"REPLICAOF", "NO", "ONE"}} {
			if _, err := p.g.AskRedis(m, words...); err == nil || !strings.Contains(err.Error(), "member of a replication group") {
				t.Errorf("%v at the port of Redis: %v", words, err)
			}
		}
	}
	p.must(p.g.AwaitSame(p.g.Members...))
	for _, m := range p.g.Members {
		if got, err := p.g.AskRedis(m, "GET", "a"); err != nil || got != "3" {
			t.Errorf("%s holds %q of a: %v", m.Name, got, err)
		}
	}
	p.same(p.g.Members...)
}

// A server that would forget, evict or copy by itself is no member: it does not
// start, and names the setting.
func TestRedisSettings(t *testing.T) {
	for _, c := range []struct{ says, word, value string }{
		{"maxmemory", "--maxmemory", "100mb"},
		{"save", "--save", "60 1"},
		{"appendonly", "--appendonly", "yes"},
		{"dbfilename", "--dbfilename", "dump.rdb"},
		{"replicaof", "--replicaof", "127.0.0.1 1"},
		{"allow-write=set", "", "allow-write=set"},
	} {
		g := &Group{Dir: t.TempDir()}
		argv, err := g.redis(&Member{Name: "m1", IP: "127.119.8.1"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		at := len(argv)
		for i, w := range argv {
			if w == "--bind" {
				at = i
			}
			if w == c.word && c.word != "" {
				argv = append(argv[:i:i], argv[i+2:]...)
				break
			}
		}
		if c.word == "" {
			argv = append(argv, c.value)
		} else {
			argv = append(argv[:at:at], append([]string{c.word, c.value}, argv[at:]...)...)
		}
		cmd := exec.Command(argv[0], append(argv[1:], "name=m1")...)
		cmd.Dir = g.Dir
		cmd.Env = append(os.Environ(), "TZ=UTC")
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.says+" must") {
			t.Errorf("%s: %v: %s", c.says, err, out)
		}
	}
}

// Two servers that share a folder are refused: they would take up one another's data.
func TestRedisSharedFolder(t *testing.T) {
	p, _ := beginRedis(t, 1, 1, Kind{})
	m := p.g.Members[0]
	argv, err := p.g.redis(m, []string{"--name=m2"})
	p.must(err)
	out, err := p.g.Net.Command(context.Background(), m.Host, append(argv, "--port", "6380")...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "dir must be this server's own") {
		t.Errorf("%v: %s", err, out)
	}
	p.must(p.c.do(history.New(), 0, history.Op{Kind: 'P', Key: "x", Value: "y"}))
}
