// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/cluster/cgroup"
	"github.com/bobtail-dev/bobtail/e2e/cluster/layout"
	"github.com/bobtail-dev/bobtail/e2e/cluster/leftovers"
)

// Down ends the cluster, puts back what it changed, and returns what differs
// from the state before. On nothing it does nothing.
func (m *Manager) Down() ([]leftovers.Item, error) {
	if err := CheckRoot(); err != nil {
		return nil, err
	}
	unlock, err := m.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	return m.down()
}

func (m *Manager) down() ([]leftovers.Item, error) {
	if _, err := os.Stat(m.State.Before()); errors.Is(err, os.ErrNotExist) {
		m.say("nothing to take down in %s", m.State.Root)
		return nil, nil
	}
	before, err := leftovers.Read(m.State.Before())
	if err != nil {
		return nil, err
	}
	start := time.Now()
	c, _ := m.State.ReadCluster() // a start that failed early wrote none
	if err := m.endProcesses(c); err != nil {
		return nil, err
	}
	if err := m.buried(); err != nil {
		return nil, err
	}
	if err := m.removeCgroups(c, leftovers.HeldController(before, "hugetlb")); err != nil {
		return nil, err
	}
	if err := leftovers.RestoreSysctls(before); err != nil {
		return nil, err
	}
	if err := m.removeFiles(); err != nil {
		return nil, err
	}
	after, err := leftovers.Take(m.State)
	if err != nil {
		return nil, err
	}
	items := leftovers.Diff(before, after)
	if err := leftovers.WriteItems(m.State.Leftovers(), items); err != nil {
		return items, err
	}
	m.say("down in %.1f s; leftovers: %d; logs kept in %s", time.Since(start).Seconds(), len(items), m.State.LogDir())
	return items, os.Remove(m.State.Before())
}

// endProcesses kills the cluster's own cgroup2 folder: daemons, shims and every
// pod are in it, and nobody else is. Pid files then name what is left, should
// the machine have had no cgroup2.
func (m *Manager) endProcesses(c layout.Cluster) error {
	mounts, err := cgroup.Find()
	if err != nil {
		return err
	}
	if mounts.V2 != "" {
		if err := cgroup.Kill(filepath.Join(mounts.V2, m.State.CgroupName()), 10*time.Second); err != nil {
			return err
		}
	}
	for _, p := range append(machines(c), processes(c.Nodes)...) {
		r, err := m.ref(p)
		if err != nil {
			return err
		}
		if err := r.Stop(time.Second); err != nil {
			return fmt.Errorf("end %s: %w", p, err)
		}
	}
	return nil
}

// buried waits until the dead are gone from the process table: their parent is
// the machine's init, which takes its time, and until then they still hold
// namespaces.
func (m *Manager) buried() error {
	return poll(10*time.Second, 20*time.Millisecond, func() error {
		left, err := leftovers.Processes(m.State)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%d processes of the cluster are still in the process table", len(left))
		}
		return err
	})
}

// removeCgroups deletes this cluster's folder from every hierarchy.
// hugetlbHeld says whether another user held that controller before.
func (m *Manager) removeCgroups(c layout.Cluster, hugetlbHeld bool) error {
	mounts, err := cgroup.Find()
	if err != nil {
		return err
	}
	for _, root := range append(mounts.V1Paths(), mounts.V2) {
		if root == "" {
			continue
		}
		if err := cgroup.Remove(filepath.Join(root, m.State.CgroupName()), 5*time.Second); err != nil {
			return err
		}
	}
	if c.CgroupV1 {
		if err := m.removeHiddenHugetlb(mounts, hugetlbHeld); err != nil {
			m.say("warning: %v", err) // the comparison with the state before will show it
		}
	}
	if c.MountedC2 {
		if err := syscall.Unmount(c.Cgroup2, 0); err != nil && !errors.Is(err, syscall.EINVAL) {
			return fmt.Errorf("unmount %s: %w", c.Cgroup2, err)
		}
	}
	return nil
}

// removeHiddenHugetlb: nodes mount the hugetlb controller where only they see
// it; a folder left in it would bind the controller for ever. The kernel lets
// go some time after the last unmount, and only if the folders were gone then.
func (m *Manager) removeHiddenHugetlb(mounts cgroup.Mounts, held bool) error {
	if mounts.V1["hugetlb"] != "" {
		return nil // the machine's own mount: cleaned with the others
	}
	if held {
		return m.emptyHugetlb() // it stays with whoever had it, another cluster for example
	}
	return poll(10*time.Second, 50*time.Millisecond, func() error {
		bound, err := cgroup.Bound()
		if err != nil || !bound["hugetlb"] {
			return err
		}
		if err := m.emptyHugetlb(); err != nil {
			return err
		}
		return errors.New("the hugetlb controller is still bound to a version 1 hierarchy: some other namespace uses it")
	})
}

func (m *Manager) emptyHugetlb() error {
	dir := filepath.Join(m.State.Root, "hugetlb")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount("hugetlb", dir, "cgroup", 0, "hugetlb"); err != nil {
		return nil // being destroyed at this moment
	}
	err := cgroup.Remove(filepath.Join(dir, m.State.CgroupName()), 5*time.Second)
	return errors.Join(err, syscall.Unmount(dir, 0))
}

// removeFiles deletes everything but the logs. It refuses to walk into a mount
// that a living namespace might still hold.
func (m *Manager) removeFiles() error {
	entries, err := os.ReadDir(m.State.Root)
	if err != nil {
		return err
	}
	keep := map[string]bool{
		filepath.Base(m.State.LogDir()): true, filepath.Base(m.State.Before()): true,
		filepath.Base(m.State.Lock()): true, filepath.Base(m.State.Leftovers()): true,
	}
	for _, e := range entries {
		if !keep[e.Name()] {
			if err := os.RemoveAll(filepath.Join(m.State.Root, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
