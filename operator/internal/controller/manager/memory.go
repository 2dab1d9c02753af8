// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// memoryMax is what the container may have, as its control group says (cgroup v2).
const memoryMax = "/sys/fs/cgroup/memory.max"

// KeepWithin has the garbage collector work harder before the container's limit is reached: what a large switch holds is
// read every five seconds, and what was read before is garbage. Whoever sets GOMEMLIMIT has the last word.
func KeepWithin() {
	text, err := os.ReadFile(memoryMax)
	if err != nil || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if most, limited := mostOf(string(text)); limited {
		debug.SetMemoryLimit(most)
	}
}

// mostOf a limit is nine tenths of it: the rest is for what is no heap. false: there is none.
func mostOf(text string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n <= 0 {
		return 0, false
	}
	return n - n/10, true
}
