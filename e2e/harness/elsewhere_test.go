// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Two processors for four seconds: in the first the host withholds 300 ms, in the
// second other processes run for 100 ms, in the third they run for 200 ms while the
// cluster waits, in the fourth as long and it does not.
func TestTimeThatWentElsewhereIsCounted(t *testing.T) {
	start, ms := time.Unix(0, 0), time.Millisecond
	got := account([]ledger{
		{start, 2, 50 * ms, 1000 * ms, 400 * ms, 0},
		{start.Add(time.Second), 2, 350 * ms, 2700 * ms, 2100 * ms, 0},
		{start.Add(2 * time.Second), 2, 350 * ms, 4000 * ms, 3300 * ms, 900 * ms},
		{start.Add(3 * time.Second), 2, 350 * ms, 6000 * ms, 5100 * ms, 1000 * ms},
		{start.Add(4 * time.Second), 2, 350 * ms, 7000 * ms, 5900 * ms, 1099 * ms},
	})
	if math.Abs(got.Withheld-0.0375) > 1e-9 || math.Abs(got.Others-0.0625) > 1e-9 || math.Abs(got.Share()-0.1) > 1e-9 {
		t.Errorf("of 8 s the host had 0.3 and others 0.5; got %+v", got)
	}
	if got.Seconds != 4 || got.Disturbed != 2 {
		t.Errorf("15 %% withheld is one, 5 %% taken is none, 10 %% taken from who waits is one, from who does not is none; got %+v", got)
	}
}

func TestReadingsAtDifferentInstantsTakeNothingFromAnybody(t *testing.T) {
	start := time.Unix(0, 0)
	// A child's time is told when it ends: more than all processes ran meanwhile.
	got := account([]ledger{{start, 2, 0, 0, 0, 0}, {start.Add(time.Second), 2, 0, time.Second, 1100 * time.Millisecond, time.Second}})
	if got.Others != 0 || got.Disturbed != 0 {
		t.Errorf("got %+v", got)
	}
	if none := account([]ledger{{start, 2, 0, 0, 0, 0}}); none.Seconds != 0 || none.Share() != 0 {
		t.Errorf("one reading says nothing; got %+v", none)
	}
}

func TestTheKernelsBooksAreRead(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if got, err := groupTime(write("cpuacct.usage", "1403686668766\n")); err != nil || got != 1403686668766 {
		t.Errorf("version 1: %v, %v", got, err)
	}
	if got, err := groupTime(write("cpu.stat", "usage_usec 1397482934\nuser_usec 1113101077\n")); err != nil || got != 1397482934*time.Microsecond {
		t.Errorf("version 2: %v, %v", got, err)
	}
	if _, err := groupTime(write("empty", "user_usec 1\n")); err == nil {
		t.Error("a group without its time has one")
	}
	if got, err := waited([]byte("some avg10=79.26 avg60=61.74 avg300=45.67 total=290905894\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n")); err != nil || got != 290905894*time.Microsecond {
		t.Errorf("waited: %v, %v", got, err)
	}
	if _, err := waited([]byte("full avg10=0.00 total=7\n")); err == nil {
		t.Error("a group that does not tell what it waited for has waited")
	}
	if got, err := stolen([]byte("cpu  84242 27067 28186 21265 556 0 252 97 0 0\ncpu0 1 2 3 4 5 6 7 8 9\n")); err != nil || got != 970*time.Millisecond {
		t.Errorf("stolen: %v, %v", got, err)
	}
	if _, err := stolen([]byte("cpu  1 2 3\n")); err == nil {
		t.Error("a kernel that tells of no host was understood")
	}
	ran, kernel, err := taskTime([]byte("15 (a) b (c) S 2 0 0 0 -1 69238848 0 0 0 0 7 25 0 0 20 0 1 0 8 0 0\n"))
	if err != nil || ran != 320*time.Millisecond || !kernel {
		t.Errorf("thread of the kernel: %v %v %v", ran, kernel, err)
	}
	if ran, kernel, err = taskTime([]byte("812 (etcd) S 1 0 0 0 -1 1077936384 0 0 0 0 30 12 0 0 20 0 1 0 8 0 0\n")); err != nil || ran != 420*time.Millisecond || kernel {
		t.Errorf("process: %v %v %v", ran, kernel, err)
	}
	if _, _, err := taskTime([]byte("15 (x) S 2")); err == nil {
		t.Error("a short stat was understood")
	}
}
