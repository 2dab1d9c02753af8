// SPDX-License-Identifier: Apache-2.0

//go:build replica && bench

package replica

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"
)

// etcd's interface is gRPC; the two calls that are needed are written here.

// raw hands bytes through: what is a message is made by hand.
type raw struct{}

func (raw) Marshal(v any) ([]byte, error)   { return v.([]byte), nil }
func (raw) Unmarshal(p []byte, v any) error { *v.(*[]byte) = append([]byte(nil), p...); return nil }
func (raw) Name() string                    { return "proto" }

const (
	etcdPut    = "/etcdserverpb.KV/Put"
	etcdStatus = "/etcdserverpb.Maintenance/Status"
)

func putMessage(key, value string) []byte {
	p := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), key)
	return protowire.AppendString(protowire.AppendTag(p, 2, protowire.BytesType), value)
}

// number of a field, within the message of another field where that is not 0.
func number(p []byte, within, field protowire.Number) uint64 {
	for len(p) > 0 {
		n, kind, at := protowire.ConsumeTag(p)
		if at < 0 {
			return 0
		}
		p = p[at:]
		switch {
		case within == 0 && n == field && kind == protowire.VarintType:
			v, _ := protowire.ConsumeVarint(p)
			return v
		case n == within && kind == protowire.BytesType:
			inner, _ := protowire.ConsumeBytes(p)
			return number(inner, 0, field)
		}
		if at = protowire.ConsumeFieldValue(n, kind, p); at < 0 {
			return 0
		}
		p = p[at:]
	}
	return 0
}

// etcdProgram is the one that make deps built.
func etcdProgram(t *testing.T) string {
	t.Helper()
	cache := os.Getenv("BOBTAIL_CACHE")
	if cache == "" {
		home, _ := os.UserHomeDir()
		cache = filepath.Join(home, ".cache", "bobtail")
	}
	found, _ := filepath.Glob(filepath.Join(cache, "etcd-*", "bin", "etcd"))
	if len(found) == 0 {
		t.Fatalf("no etcd below %s: make deps builds it", cache)
	}
	return found[len(found)-1]
}

// etcdSide is a cluster of etcd as it is delivered, asked at its leader.
func etcdSide(t *testing.T, dir string, extra ...string) side {
	t.Helper()
	program := etcdProgram(t)
	var all []string
	url := func(i, port int) string { return fmt.Sprintf("http://127.119.10.%d:%d", i+1, port) }
	for i := range speedMembers {
		all = append(all, fmt.Sprintf("e%d=%s", i, url(i, 2380)))
	}
	for i := range speedMembers {
		name := fmt.Sprint("e", i)
		process(t, dir, name, append([]string{program, "--name=" + name, "--data-dir=" + filepath.Join(dir, "etcd-"+name), "--log-level=error",
			"--listen-client-urls=" + url(i, 2379), "--advertise-client-urls=" + url(i, 2379), "--listen-peer-urls=" + url(i, 2380),
			"--initial-advertise-peer-urls=" + url(i, 2380), "--initial-cluster=" + strings.Join(all, ","), "--initial-cluster-state=new"}, extra...)...)
	}
	leader := etcdLeader(t)
	conns := make([]*grpc.ClientConn, 8)
	for i := range conns {
		c, err := grpc.NewClient(leader, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		conns[i] = c
	}
	return side{strings.TrimSpace("etcd " + strings.Join(extra, " ")), func(worker int, key, value string) error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		var answer []byte
		return conns[worker%len(conns)].Invoke(ctx, etcdPut, putMessage(key, value), &answer)
	}}
}

// etcdLeader waits for one, and for all of them to know it.
func etcdLeader(t *testing.T) (address string) {
	t.Helper()
	err := until("a leader of etcd", func() bool {
		leaders := map[uint64]bool{}
		address = ""
		for i := range speedMembers {
			at := fmt.Sprintf("127.119.10.%d:2379", i+1)
			c, err := grpc.NewClient(at, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})))
			if err != nil {
				return false
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			var answer []byte
			err = c.Invoke(ctx, etcdStatus, []byte{}, &answer)
			cancel()
			c.Close()
			const header, memberID, leaderField = 1, 2, 4
			own, leads := number(answer, header, memberID), number(answer, 0, leaderField)
			if err != nil || leads == 0 {
				return false
			}
			leaders[leads] = true
			if own == leads {
				address = at
			}
		}
		return len(leaders) == 1 && address != ""
	})
	if err != nil {
		t.Fatal(err)
	}
	return address
}
