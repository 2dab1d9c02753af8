// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/bobtail-dev/bobtail/hack/test/privileged"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect/programs"
)

// The kernel takes up to seconds to verify a program, so tests that only send
// packets share one node, which forgets everything between them.
var shared struct {
	dir  string
	node *Node
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.node != nil {
		shared.node.Close()
		_ = Remove(shared.node.root)
	}
	if shared.dir != "" {
		_ = unix.Unmount(shared.dir, 0)
		_ = os.Remove(shared.dir)
	}
	os.Exit(code)
}

func sharedNode(t *testing.T) *Node {
	t.Helper()
	privileged.Need(t, "loads eBPF programs")
	if shared.node == nil {
		dir, err := os.MkdirTemp("", "crab")
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("bpf", dir, "bpf", 0, ""); err != nil {
			_ = os.Remove(dir)
			privileged.Lacking(t, "cannot mount a bpffs: "+err.Error())
		}
		shared.dir = dir
		shared.node, err = Open(Options{Root: filepath.Join(dir, "node"), Sizes: testSizes})
		if err != nil {
			t.Fatalf("%+v", err)
		}
	}
	if err := shared.node.forget(); err != nil {
		t.Fatal(err)
	}
	return shared.node
}

// forget takes a node back to what Open made of it; programs stay loaded.
func (n *Node) forget() error {
	vips, err := n.VIPs()
	if err != nil {
		return err
	}
	for _, v := range vips {
		if err := n.DeleteVIP(v.VIPKey); err != nil {
			return err
		}
	}
	if err := n.AllowEcho(nil); err != nil {
		return err
	}
	all := []map[string]*ebpf.Map{n.maps}
	if six := n.six.Load(); six != nil {
		all = append(all, *six)
	}
	for _, maps := range all {
		for name, m := range maps {
			if m.Type() == ebpf.LRUHash || strings.HasPrefix(name, "crab_watched") || strings.HasPrefix(name, "crab_conns") {
				if err := empty(m); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
		}
	}
	n.evicted, n.idle = map[string]uint64{}, 0
	for i := range Reasons {
		if err := n.maps["crab_counters"].Put(uint32(i), make([]uint64, ebpf.MustPossibleCPU())); err != nil {
			return err
		}
	}
	if err := n.maps["crab_meta"].Put(uint32(0), programs.Meta{}); err != nil {
		return err
	}
	return n.writeMeta(Wire{Kind: 42})
}

func empty(m *ebpf.Map) error {
	var keys [][]byte
	var key, value []byte
	it := m.Iterate()
	for it.Next(&key, &value) {
		keys = append(keys, append([]byte(nil), key...))
	}
	for _, k := range keys {
		if err := remove(m, k); err != nil {
			return err
		}
	}
	return it.Err()
}
