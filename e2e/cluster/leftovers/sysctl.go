// SPDX-License-Identifier: Apache-2.0

package leftovers

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bobtail-dev/bobtail/e2e/cluster/layout"
)

const sysctlRoot = "/proc/sys"

// unsteady settings change by themselves or by reading them.
var unsteady = []string{
	"kernel/random/", "kernel/ns_last_pid", "fs/binfmt_misc", "fs/nr_open", "kernel/pty/nr",
	"kernel/sched_domain", "vm/stat_refresh", "vm/compact_memory", "vm/drop_caches", "net/ipv4/tcp_fastopen_key",
	"kernel/hostname",
}

// sysctls reads every writable kernel setting of the root namespaces.
func sysctls(layout.State) (map[string]string, error) {
	items := map[string]string{}
	err := filepath.WalkDir(sysctlRoot, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // some are not readable even for root
		}
		name := strings.TrimPrefix(path, sysctlRoot+"/")
		for _, u := range unsteady {
			if strings.HasPrefix(name, u) {
				return nil
			}
		}
		info, err := d.Info()
		if err != nil || info.Mode()&0o200 == 0 {
			return nil
		}
		if b, err := os.ReadFile(path); err == nil {
			items[name] = strings.TrimSpace(string(b))
		}
		return nil
	})
	return items, err
}

// kubeletWrites are the machine-wide settings that every kubelet changes.
var kubeletWrites = []string{"vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops"}

// RestoreSysctls puts back what kubelets changed.
func RestoreSysctls(before Snapshot) error {
	for _, name := range kubeletWrites {
		was, ok := before[settings][name]
		if !ok {
			continue
		}
		path := filepath.Join(sysctlRoot, name)
		now, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.TrimSpace(string(now)) == was {
			continue
		}
		if err := os.WriteFile(path, []byte(was), 0); err != nil {
			return fmt.Errorf("restore sysctl %s to %s: %w", name, was, err)
		}
	}
	return nil
}
