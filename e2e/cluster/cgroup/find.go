// SPDX-License-Identifier: Apache-2.0

// Package cgroup finds the machine's control group mounts and manages the
// folders that belong to one cluster.
//
// Every process of a cluster is born below one cgroup2 folder, and pods
// inherit it; this gives later programs a place to attach to per node, and
// lets `down` end exactly these processes and no others.
package cgroup

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
)

// Mounts is what the machine offers.
type Mounts struct {
	V1 map[string]string // hierarchy ("cpu,cpuacct", "name=systemd") to mount point
	V2 string            // cgroup2 mount point, "" if there is none
}

// Hybrid says that the kubelet must work on version 1 hierarchies: the memory
// controller is bound to one, so version 2 cannot offer it.
func (m Mounts) Hybrid() bool {
	for hierarchy := range m.V1 {
		for _, c := range strings.Split(hierarchy, ",") {
			if c == "memory" {
				return true
			}
		}
	}
	return false
}

// V1Paths returns the mount points of the version 1 hierarchies, sorted.
func (m Mounts) V1Paths() []string {
	var paths []string
	for _, p := range m.V1 {
		paths = append(paths, p)
	}
	sort.Strings(paths)
	return paths
}

// Find reads the mounts of the calling process.
func Find() (Mounts, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return Mounts{}, err
	}
	defer func() { _ = f.Close() }()
	return parse(f)
}

// parse understands mountinfo(5): fields, a lone dash, then type, source and
// the options of the super block, which name the controllers.
func parse(r io.Reader) (Mounts, error) {
	m := Mounts{V1: map[string]string{}}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		left, right, ok := strings.Cut(lines.Text(), " - ")
		l, rt := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 5 || len(rt) < 3 {
			return m, fmt.Errorf("mountinfo line not understood: %q", lines.Text())
		}
		switch rt[0] {
		case "cgroup2":
			if m.V2 == "" {
				m.V2 = l[4]
			}
		case "cgroup":
			if h := controllers(rt[2]); m.V1[h] == "" {
				m.V1[h] = l[4]
			}
		}
	}
	return m, lines.Err()
}

// controllers keeps the controller names among the super block's options.
func controllers(options string) string {
	var names []string
	for _, o := range strings.Split(options, ",") {
		switch {
		case o == "rw", o == "ro", o == "xattr", strings.Contains(o, "release_agent="), strings.HasPrefix(o, "clone_children"):
		default:
			names = append(names, o)
		}
	}
	return strings.Join(names, ",")
}
