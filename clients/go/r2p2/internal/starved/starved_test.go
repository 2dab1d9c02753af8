// SPDX-License-Identifier: Apache-2.0

package starved

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// fake is a test that may fail.
type fake struct {
	testing.TB
	failed bool
}

func (f *fake) Helper()             {}
func (f *fake) Logf(string, ...any) {}
func (f *fake) Fatalf(string, ...any) {
	f.failed = true
	runtime.Goexit()
}

// outcome runs Answered as a test of its own.
func outcome(try func() error) (f *fake, disturbed bool) {
	f = &fake{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		disturbed = Answered(f, try)
	}()
	<-done
	return f, disturbed
}

func TestAFailureOfItsOwnIsOne(t *testing.T) {
	if f, _ := outcome(func() error { return nil }); f.failed {
		t.Error("success counts as a failure")
	}
	for range 20 { // a busy machine may take the processor away just then
		if f, _ := outcome(func() error { return errors.New("lost") }); f.failed {
			return
		}
	}
	t.Error("nothing ever fails")
}

// More busy goroutines than processors wait for one another.
func TestAStarvedTryIsRepeated(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux says how long threads wait")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4 * runtime.NumCPU()))
	var stop atomic.Bool
	defer stop.Store(true)
	for range 4 * runtime.NumCPU() {
		go func() {
			for !stop.Load() { // busy
			}
		}()
	}
	tries := 0
	f, disturbed := outcome(func() error {
		if tries++; tries > 1 {
			return nil
		}
		time.Sleep(2 * time.Second)
		return errors.New("lost")
	})
	if f.failed || !disturbed || tries != 2 {
		t.Errorf("failed %v, disturbed %v, %d tries", f.failed, disturbed, tries)
	}
}
