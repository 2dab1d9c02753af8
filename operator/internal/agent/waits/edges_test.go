// SPDX-License-Identifier: Apache-2.0

package waits

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
)

// fail has the node's maps fail from now on, or not.
func (k *kernel) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
}

// Counts that cannot be read are told of once, and again when they could be read in between.
func TestFailuresAreToldOnce(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	synctest.Test(t, func(t *testing.T) {
		k := &kernel{}
		w := begin(t, k)
		go w.Run(t.Context())
		time.Sleep(lookEvery / 2) // between two looks
		for n, c := range []struct {
			err  error
			told int
		}{{nil, 0}, {errors.New("gone"), 1}, {errors.New("gone"), 1}, {nil, 1}, {nil, 1}, {errors.New("gone"), 2}} {
			k.fail(c.err)
			time.Sleep(lookEvery)
			synctest.Wait()
			if got := strings.Count(log.String(), "cannot be read"); got != c.told {
				t.Errorf("look %d: told %d times, want %d", n, got, c.told)
			}
		}
	})
}

// A look counts as fresh for a while, to the end of it; the record says since when it is.
func TestHowFreshALookIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kernel{}
		w := begin(t, k)
		w.since = time.Now().Add(-90 * time.Second)
		for wait, looks := range map[time.Duration]int32{fresh: 0, fresh + 1: 1} {
			w.Set(Services{four: web})
			w.Set(Services{four: web, six: web}) // looks
			before := k.looks.Load()
			time.Sleep(wait)
			c, known, err := w.Read(web, 5, 1)
			if err != nil || !known || k.looks.Load()-before != looks {
				t.Errorf("after %v: %d looks, want %d, known %v, %v", wait, k.looks.Load()-before, looks, known, err)
			}
			if n := c.Record.All.CoveredSeconds; n != 90 {
				t.Errorf("a record of %d s, want 90", n)
			}
		}
	})
}

// There are as many parts as there were seconds.
func TestPartsOfAYoungWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := ll7.NewWindow()
		for second := 1; second <= 4; second++ {
			if got := len(partsOf(w, 10, 10)); got != second || len(partsOf(w, 3, 10)) != min(second, 3) {
				t.Errorf("in second %d: %d parts", second, got)
			}
			time.Sleep(time.Second)
		}
	})
}
