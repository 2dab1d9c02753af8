// SPDX-License-Identifier: Apache-2.0

//go:build replica

package replica

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/redis"
)

const redisPort = 6379

// module is a module of Redis as it was built.
func module(name string) string {
	if dir := os.Getenv("REDIS_MODULES"); dir != "" {
		return filepath.Join(dir, name)
	}
	wd, _ := os.Getwd()
	return filepath.Join(wd, "..", "..", "build", "dataplane", "modules", "redis", name)
}

// redisServer is Debian's server with its libraries, as a command line begins.
func redisServer() ([]string, error) {
	root := os.Getenv("REDIS_PEERS")
	if root == "" {
		return nil, errors.New("REDIS_PEERS does not say where Redis is unpacked: use make e2e-redis")
	}
	return []string{"env", "LD_LIBRARY_PATH=" + os.Getenv("REDIS_PEERS_LIB"), filepath.Join(root, "usr/bin/redis-server")}, nil
}

// folder of a member's Redis, which is no disk of the group.
func (g *Group) folder(m *Member) string { return filepath.Join(g.Dir, "redis-"+m.Name) }

// redis is the command line of a member inside of a Redis server; words are the
// options of bobtail-replica.
func (g *Group) redis(m *Member, words []string) ([]string, error) {
	argv, err := redisServer()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(g.folder(m), 0o755); err != nil {
		return nil, err
	}
	argv = append(argv, "--bind", m.IP, "--port", strconv.Itoa(redisPort), "--protected-mode", "no", "--save", "", "--appendonly", "no",
		"--dir", g.folder(m), "--dbfilename", "bobtail.rdb", "--enable-debug-command", "yes",
		"--loadmodule", module("bobtail-ycsb.so"),
		"--loadmodule", module("bobtail-redis.so"), "allow-read=ycsb.scan", "allow-write=ycsb.insert")
	for _, w := range words {
		argv = append(argv, strings.TrimPrefix(w, "--"))
	}
	return argv, nil
}

// AskRedis sends one command to the port that Redis itself serves, and returns
// the answer's text, of an array each element's on a line.
func (g *Group) AskRedis(m *Member, words ...string) (string, error) {
	var conn net.Conn
	err := g.inside(func() (err error) {
		conn, err = net.DialTimeout("tcp", fmt.Sprintf("%s:%d", m.IP, redisPort), patience)
		return err
	})
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := conn.Write(redis.AppendCommand(nil, words...)); err != nil {
		return "", err
	}
	v, err := whole(conn)
	return lines(v), errors.Join(err, v.Err())
}

// whole reads one answer.
func whole(conn io.Reader) (redis.Value, error) {
	var raw []byte
	part := make([]byte, 1<<16)
	for {
		n, err := conn.Read(part)
		raw = append(raw, part[:n]...)
		if all, bad := redis.Parse(raw); bad == nil && len(all) == 1 {
			return all[0], nil
		}
		if err != nil {
			return redis.Value{}, err
		}
	}
}

func lines(v redis.Value) string {
	switch v.Kind {
	case redis.Array:
		var all []string
		for _, item := range v.Items {
			all = append(all, lines(item))
		}
		return strings.Join(all, "\n")
	case redis.Integer:
		return strconv.FormatInt(v.Int, 10)
	default:
		return v.Text
	}
}
