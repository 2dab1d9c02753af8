// SPDX-License-Identifier: Apache-2.0

package leftovers

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/e2e/cluster/layout"
	"github.com/bobtail-dev/bobtail/hack/test/privileged"
)

// K-37: a real namespace of somebody else, with a link in and out of it, goes while a
// cluster is up; no probe takes any part of it for a leftover. One that comes is told.
func TestK37ANamespaceOfSomebodyElse(t *testing.T) {
	privileged.Need(t, "network namespaces")
	st, err := layout.OpenState(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("bt-lo-%d", os.Getpid())
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	take := func() Snapshot {
		t.Helper()
		s, err := Take(st)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	ip("netns", "add", name)
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })
	link := fmt.Sprintf("btl%d", os.Getpid()%1000000)
	ip("link", "add", link, "type", "veth", "peer", "name", "inside", "netns", name)
	ip("address", "add", "198.18.255.1/30", "dev", link)
	ip("link", "set", link, "up")
	with := take()
	ip("link", "del", link) // else the kernel does it, when it comes to it
	ip("netns", "del", name)
	without := take()
	ours := func(items []Item) (out []string) {
		for _, i := range items {
			if strings.Contains(i.Name, name) || strings.Contains(i.Name, link) || strings.Contains(i.Name, "198.18.255.") {
				out = append(out, i.String())
			}
		}
		return out
	}
	if left := ours(Diff(with, without)); len(left) != 0 {
		t.Errorf("taken for leftovers: %q", left)
	}
	if came := ours(Diff(without, with)); len(came) < 3 {
		t.Errorf("a namespace that came is told by %q; want its path, its mount and its link", came)
	}
}
