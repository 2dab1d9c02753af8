// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"fmt"
	"os"
	"strings"
)

// Bound says for every controller whether a version 1 hierarchy holds it.
func Bound() (map[string]bool, error) {
	b, err := os.ReadFile("/proc/cgroups")
	if err != nil {
		return nil, err
	}
	return parseBound(string(b))
}

// parseBound reads the table "name hierarchy folders enabled"; hierarchy 0 is
// version 2, or none.
func parseBound(table string) (map[string]bool, error) {
	bound := map[string]bool{}
	for _, line := range strings.Split(table, "\n") {
		f := strings.Fields(line)
		if len(f) == 0 || strings.HasPrefix(f[0], "#") {
			continue
		}
		if len(f) < 4 {
			return nil, fmt.Errorf("/proc/cgroups line not understood: %q", line)
		}
		bound[f[0]] = f[1] != "0"
	}
	return bound, nil
}
