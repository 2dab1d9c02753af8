// SPDX-License-Identifier: Apache-2.0

package waits

import (
	"errors"
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

var (
	began     = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	web, shop = types.NamespacedName{Namespace: "demo", Name: "web"}, types.NamespacedName{Namespace: "demo", Name: "shop"}
	four, six = vip("192.0.2.1"), vip("2001:db8::1")
	other     = vip("192.0.2.2")
)

func vip(address string) redirect.VIPKey {
	return redirect.VIPKey{Addr: netip.MustParseAddr(address), Port: 80}
}

// kernel counts as the node's maps do.
type kernel struct {
	mu    sync.Mutex
	all   map[redirect.VIPKey]*ll7.Histogram
	err   error
	looks atomic.Int32
	lost  map[string]uint64
	slow  chan struct{} // when made, a look lasts until it is closed
}

func (k *kernel) Since() (time.Time, error) { return began, nil }

func (k *kernel) Lost() (map[string]uint64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.lost), k.err
}

func (k *kernel) Connects() (map[redirect.VIPKey]*ll7.Histogram, error) {
	k.looks.Add(1)
	if k.slow != nil {
		<-k.slow
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	out := map[redirect.VIPKey]*ll7.Histogram{}
	for key, h := range k.all {
		out[key] = h.Clone()
	}
	return out, k.err
}

func (k *kernel) connected(key redirect.VIPKey, n int, took time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = map[redirect.VIPKey]*ll7.Histogram{}
	}
	if k.all[key] == nil {
		k.all[key] = &ll7.Histogram{}
	}
	for range n {
		k.all[key].Record(uint64(took))
	}
}

func begin(t *testing.T, k *kernel) *Waits {
	t.Helper()
	w, err := New("node-1", k)
	if err != nil {
		t.Fatal(err)
	}
	w.Set(Services{four: web, six: web, other: shop})
	return w
}

func read(t *testing.T, w *Waits, service types.NamespacedName, seconds int) *dataplane.Connects {
	t.Helper()
	time.Sleep(time.Second)
	c, known, err := w.Read(service, seconds, 10)
	if err != nil || !known {
		t.Fatalf("%v, known %v", err, known)
	}
	return c
}

func want(t *testing.T, c *dataplane.Connects, window, record uint64) {
	t.Helper()
	if c.Window.Histogram.Total() != window || c.Record.All.Latency.Total() != record || !c.Record.Started.Equal(began) {
		t.Errorf("%d in the window, %d in the record since %s; want %d and %d", c.Window.Histogram.Total(), c.Record.All.Latency.Total(), c.Record.Started, window, record)
	}
}

// Both addresses of a Service count for it, those of others do not; what is older
// than the window is in the record alone.
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kernel{}
		w := begin(t, k)
		k.connected(four, 3, time.Millisecond)
		k.connected(six, 2, time.Millisecond)
		k.connected(other, 9, time.Millisecond)
		k.all[six].RecordInf()
		c := read(t, w, web, 30)
		want(t, c, 6, 6)
		if c.Window.Histogram.Inf() != 1 || c.Window.Histogram.SumNanoseconds() != uint64(5*time.Millisecond) || c.Window.CoveredSeconds != 2 {
			t.Errorf("%+v", c.Window)
		}
		time.Sleep(time.Minute)
		k.connected(four, 1, time.Millisecond)
		c = read(t, w, web, 30)
		want(t, c, 1, 7)
		if c.Window.CoveredSeconds != 30 {
			t.Errorf("%d s covered", c.Window.CoveredSeconds)
		}
		want(t, read(t, w, web, 600), 7, 7)
		want(t, read(t, w, shop, 600), 9, 9)
		if _, known, err := w.Read(types.NamespacedName{Namespace: "other", Name: "web"}, 5, 10); known || err != nil {
			t.Errorf("a Service of another namespace: known %v, %v", known, err)
		}
	})
}

// The parts of a window are its seconds, the newest first; before the agent there is
// none.
func TestParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kernel{}
		w := begin(t, k)
		go w.Run(t.Context())
		time.Sleep(500 * time.Millisecond) // between two looks
		for i := range 12 {
			k.connected(four, 1+i, time.Millisecond)
			time.Sleep(time.Second)
		}
		c := read(t, w, web, 10)
		if len(c.Window.Parts) != 10 {
			t.Fatalf("%d parts", len(c.Window.Parts))
		}
		var all ll7.Histogram
		for i, h := range c.Window.Parts {
			all.Merge(h)
			if n := h.Total(); n != 0 && n != uint64(12-i) && n != uint64(13-i) {
				t.Errorf("%d connections in part %d", n, i)
			}
		}
		if all.Total() != c.Window.Histogram.Total() {
			t.Errorf("%d connections in all parts, %d in the window", all.Total(), c.Window.Histogram.Total())
		}
		c = read(t, w, web, 600)
		if n := len(c.Window.Parts); n != 1 || c.Window.Parts[0].Total() != 78 {
			t.Errorf("%d parts of an agent that is young, %d connections", n, c.Window.Parts[0].Total())
		}
	})
}

// What an agent before this one saw is in no window of this one, and stays in the
// record: the operator counts from where it was.
func TestAgentRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kernel{}
		k.connected(four, 100, time.Millisecond)
		w := begin(t, k)
		want(t, read(t, w, web, 600), 0, 100)
		k.connected(four, 2, time.Millisecond)
		want(t, read(t, w, web, 600), 2, 102)
	})
}

// A VIP that goes takes its counts along. When it comes again, with fewer, they are
// all new; nothing is counted twice, and nothing less than none.
func TestCountsThatBeginAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kernel{}
		w := begin(t, k)
		k.connected(four, 50, time.Millisecond)
		want(t, read(t, w, web, 600), 50, 50)
		delete(k.all, four)
		k.connected(four, 5, time.Second)
		want(t, read(t, w, web, 600), 55, 5)
		delete(k.all, four)
		want(t, read(t, w, web, 600), 55, 0)
		k.connected(four, 60, time.Millisecond)
		want(t, read(t, w, web, 600), 115, 60)
	})
}

// An address that goes to another Service takes none of its connections along.
func TestAnotherServiceAtTheAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kernel{}
		w := begin(t, k)
		k.connected(four, 50, time.Millisecond)
		w.Set(Services{four: shop, six: web})
		k.connected(four, 7, time.Millisecond)
		if n := read(t, w, shop, 600).Window.Histogram.Total(); n != 7 {
			t.Errorf("%d connections in the other's window", n)
		}
		if n := read(t, w, web, 600).Window.Histogram.Total(); n != 50 {
			t.Errorf("%d connections in the first one's window", n)
		}
		w.Set(Services{four: shop})
		if _, known, _ := w.Read(web, 5, 10); known {
			t.Error("a Service without an address is known")
		}
	})
}

// What full maps lost is told of the window it was lost in; what they had lost before
// the agent, or before it was known how much, is in none. A count that is less than it
// was begins anew.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kernel{lost: map[string]uint64{"no room": 100}}
		w := begin(t, k)
		lost := func(want uint64, seconds int) {
			t.Helper()
			if c := read(t, w, web, seconds); c.Lost != want || c.Node != "node-1" {
				t.Errorf("%d lost on node %q in %d s; want %d", c.Lost, c.Node, seconds, want)
			}
		}
		lost(0, 30)
		k.lost = map[string]uint64{"no room": 103, "pushed out": 50}
		lost(3, 30)
		k.lost = map[string]uint64{"no room": 103, "pushed out": 54}
		lost(7, 30)
		time.Sleep(time.Minute)
		lost(0, 30)
		lost(7, 600)
		k.lost = map[string]uint64{"no room": 2, "pushed out": 54}
		lost(7, 600)
		k.lost["no room"] = 5
		lost(10, 600)
	})
}

// A look that fails is told, and what it would have seen comes with the next.
func TestLookFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kernel{}
		w := begin(t, k)
		k.connected(four, 3, time.Millisecond)
		k.err = errors.New("the map is gone")
		time.Sleep(time.Second)
		if _, _, err := w.Read(web, 5, 10); err == nil {
			t.Error("no error")
		}
		k.err = nil
		want(t, read(t, w, web, 30), 3, 3)
		if _, err := New("node-1", &kernel{err: errors.New("the map is gone")}); err == nil {
			t.Error("it began without counts")
		}
	})
}

// Without anybody who asks, the windows are filled all the same.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kernel{}
		w := begin(t, k)
		go w.Run(t.Context())
		k.connected(four, 3, time.Millisecond)
		time.Sleep(time.Minute)
		k.connected(four, 4, time.Millisecond)
		want(t, read(t, w, web, 30), 4, 7)
		want(t, read(t, w, web, 90), 7, 7)
	})
}

// Told what it knows, it neither looks nor waits for a look under way: whoever takes
// over a VIP is not held up.
func TestSetWhatIsKnown(t *testing.T) {
	k := &kernel{}
	w := begin(t, k)
	looks := k.looks.Load()
	w.Set(Services{four: web, six: web, other: shop})
	if n := k.looks.Load() - looks; n != 0 {
		t.Errorf("%d looks at what has not changed", n)
	}
	time.Sleep(2 * fresh)
	k.slow = make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() { _, _, _ = w.Read(web, 30, 1) })
	for k.looks.Load() == looks {
		time.Sleep(time.Millisecond)
	}
	told := make(chan struct{})
	go func() {
		w.Set(Services{four: web, six: web, other: shop})
		close(told)
	}()
	select {
	case <-told:
	case <-time.After(10 * time.Second):
		t.Error("it waits for the look of another")
	}
	close(k.slow)
	reader.Wait()
	looks = k.looks.Load()
	w.Set(Services{four: web, six: shop})
	if n := k.looks.Load() - looks; n != 1 {
		t.Errorf("%d looks when a VIP has changed hands", n)
	}
}

// What was connected through a new VIP before the record was told of it counts; what
// one counted before it changed hands is its former Service's.
func TestSetComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kernel{}
		w := begin(t, k)
		late := vip("192.0.2.9")
		k.connected(late, 4, time.Millisecond)
		k.connected(four, 5, time.Millisecond)
		w.Set(Services{four: shop, six: web, late: web})
		want(t, read(t, w, web, 30), 9, 4)
		want(t, read(t, w, shop, 30), 0, 5)
	})
}
