// SPDX-License-Identifier: Apache-2.0

// Package starved is for tests. It knows how long the machine kept programs
// waiting for a processor, and what follows from it.
//
// UDP promises no delivery, and R2P2 gives a message of several packets up when
// its peer is silent for four RTOs. A process that waits longer than that
// for a processor is such a peer, and the loss is right.
package starved

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	givesUp  = 400 * time.Millisecond // four RTOs of a Kernel device
	patience = 2 * time.Minute
)

// waits is, thread by thread, how long this process and its children stood in
// run queues. It stays empty where the kernel does not say.
func waits(into map[string]time.Duration) {
	pids := []string{"self"}
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, l := range lists {
		b, _ := os.ReadFile(l)
		pids = append(pids, strings.Fields(string(b))...)
	}
	for _, pid := range pids {
		threads, _ := filepath.Glob("/proc/" + pid + "/task/*/schedstat")
		for _, path := range threads {
			b, _ := os.ReadFile(path)
			if f := strings.Fields(string(b)); len(f) > 1 {
				n, _ := strconv.ParseInt(f[1], 10, 64)
				into[path] = time.Duration(n)
			}
		}
	}
}

// watch samples until stop is closed, because a program that has ended says
// nothing any more; it returns what all of them waited since it began.
func watch(stop <-chan struct{}) time.Duration {
	before, now := map[string]time.Duration{}, map[string]time.Duration{}
	waits(before)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for going := true; going; {
		select {
		case <-tick.C:
		case <-stop:
			going = false
		}
		waits(now)
	}
	var sum time.Duration
	for path, d := range now {
		sum += d - before[path]
	}
	return sum
}

func watched(try func() error) (waited time.Duration, err error) {
	var watching sync.WaitGroup
	stop := make(chan struct{})
	watching.Go(func() { waited = watch(stop) })
	defer watching.Wait()
	defer close(stop)
	return 0, try()
}

// Answered calls try until it succeeds. A failure fails the test, unless the
// programs measurably waited for a processor for so long that the protocol had
// to give up; then the test says so and tries again. It tells whether that was.
func Answered(t testing.TB, try func() error) (disturbed bool) {
	t.Helper()
	for end := time.Now().Add(patience); ; disturbed = true {
		waited, err := watched(try)
		if err == nil {
			return disturbed
		}
		if waited < givesUp || time.Now().After(end) {
			t.Fatalf("%v (programs waited %v for a processor)", err, waited)
		}
		t.Logf("disturbed: %v, while programs waited %v for a processor; once more", err, waited)
	}
}
