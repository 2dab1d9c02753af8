// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/cluster/cgroup"
	"github.com/bobtail-dev/bobtail/e2e/cluster/layout"
)

// clockTick is that of /proc, which Linux fixes at a hundredth of a second.
const clockTick = 10 * time.Millisecond

// kernelThread is PF_KTHREAD of a task's flags.
const kernelThread = 0x00200000

// books are where the kernel writes down who had the processors.
type books struct {
	all     []string // files that together know every process
	cluster string   // folder of the embedded cluster: all its daemons and pods are born there
	kernel  []string // stat of the kernel's threads: they carry the cluster's packets
}

// books of this machine and its cluster. Every file counts the time that processes
// ran by the scheduler's clock, so that they can be taken from one another.
func (e *Env) books() (books, error) {
	state, err := layout.OpenState(filepath.Dir(e.value("KUBECONFIG")))
	if err != nil {
		return books{}, err
	}
	c, err := state.ReadCluster()
	if err != nil {
		return books{}, err
	}
	b := books{cluster: filepath.Join(c.Cgroup2, state.CgroupName())}
	mounts, err := cgroup.Find()
	if err != nil {
		return books{}, err
	}
	for hierarchy, at := range mounts.V1 {
		if slices.Contains(strings.Split(hierarchy, ","), "cpuacct") {
			b.all = []string{filepath.Join(at, "cpuacct.usage")}
		}
	}
	if b.all == nil { // version 2 alone: its root counts interrupts, too, which its folders do not
		b.all, _ = filepath.Glob(filepath.Join(c.Cgroup2, "*", "cpu.stat"))
	}
	tasks, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range tasks {
		if text, err := os.ReadFile(path); err == nil {
			if _, kernel, err := taskTime(text); err == nil && kernel {
				b.kernel = append(b.kernel, path)
			}
		}
	}
	return b, nil
}

// read makes one entry.
func (b books) read() (ledger, error) {
	l := ledger{at: time.Now(), processors: runtime.NumCPU()}
	text, err := os.ReadFile("/proc/stat")
	if err == nil {
		l.withheld, err = stolen(text)
	}
	if err != nil {
		return l, err
	}
	for _, path := range b.all {
		one, err := groupTime(path)
		if err != nil {
			return l, err
		}
		l.all += one
	}
	if l.ours, err = groupTime(filepath.Join(b.cluster, "cpu.stat")); err != nil {
		return l, err
	}
	pressure, err := os.ReadFile(filepath.Join(b.cluster, "cpu.pressure"))
	if err == nil {
		l.waited, err = waited(pressure)
	}
	if err != nil {
		return l, fmt.Errorf("read what the cluster waited for: %w", err)
	}
	for _, path := range b.kernel {
		if text, err := os.ReadFile(path); err == nil { // a thread that has ended keeps no time
			one, _, _ := taskTime(text)
			l.ours += one
		}
	}
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err != nil {
			return l, fmt.Errorf("getrusage: %w", err)
		}
		l.ours += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return l, nil
}

// groupTime reads cpuacct.usage, nanoseconds, or cpu.stat.
func groupTime(path string) (time.Duration, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read the processor time of a control group: %w", err)
	}
	if filepath.Base(path) == "cpuacct.usage" {
		ns, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
		return time.Duration(ns), err
	}
	for line := range strings.Lines(string(text)) {
		if us, ok := strings.CutPrefix(line, "usage_usec "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(us), 10, 64)
			return time.Duration(n) * time.Microsecond, err
		}
	}
	return 0, fmt.Errorf("%s has no usage_usec", path)
}

// waited is the time in which some task of a control group waited for a processor.
func waited(pressure []byte) (time.Duration, error) {
	for line := range strings.Lines(string(pressure)) {
		_, total, ok := strings.Cut(line, "total=")
		if ok && strings.HasPrefix(line, "some ") {
			us, err := strconv.ParseInt(strings.TrimSpace(total), 10, 64)
			return time.Duration(us) * time.Microsecond, err
		}
	}
	return 0, errors.New("cpu.pressure has no total")
}

// stolen is the time of /proc/stat that the host withheld from all processors.
func stolen(text []byte) (time.Duration, error) {
	line, _, _ := bufio.ScanLines(text, true)
	fields := strings.Fields(string(text[:line]))
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, errors.New("/proc/stat does not tell what the host withheld")
	}
	ticks, err := strconv.ParseInt(fields[8], 10, 64)
	return time.Duration(ticks) * clockTick, err
}

// taskTime reads a task's stat: how long it ran, and whether it is the kernel's own.
func taskTime(text []byte) (ran time.Duration, kernel bool, err error) {
	// The name stands in brackets and may hold spaces and brackets.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 13 {
		return 0, false, errors.New("the stat of a task is short")
	}
	flags, e1 := strconv.ParseUint(fields[6], 10, 64)
	user, e2 := strconv.ParseInt(fields[11], 10, 64)
	system, e3 := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * clockTick, flags&kernelThread != 0, errors.Join(e1, e2, e3)
}
