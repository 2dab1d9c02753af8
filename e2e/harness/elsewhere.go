// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"time"
)

// disturbedShare of the processors' time gone elsewhere within a second makes that a
// disturbed one: a tenth of a second of every processor is what it takes to make a
// service near its capacity answer a whole second's requests late. What other processes
// took counts only if something of the cluster had to wait for a processor for as much
// of that second: they may have had what nobody wanted.
const disturbedShare = 0.1

// Elsewhere is what became of processor time that neither the cluster nor the run
// itself had: the host withheld it, or other processes of the machine took it.
type Elsewhere struct {
	Withheld, Others float64 // shares of all processors' time
	Seconds          int     // that were watched
	Disturbed        int     // of them
}

// Share of the processors' time that went elsewhere.
func (e Elsewhere) Share() float64 { return e.Withheld + e.Others }

func (e Elsewhere) String() string {
	return fmt.Sprintf("%.1f %% of the processors' time was withheld by the host, %.1f %% taken by other processes; %d of %d seconds were disturbed",
		100*e.Withheld, 100*e.Others, e.Disturbed, e.Seconds)
}

// ledger is how the processors' time was spent so far.
type ledger struct {
	at         time.Time
	processors int
	withheld   time.Duration // stolen by the host
	all        time.Duration // of every process
	ours       time.Duration // of the cluster, of this program and its children, of the kernel's threads
	waited     time.Duration // in which something of the cluster could have run and did not
}

// disturbed says whether the time between two readings lacked processors.
func disturbed(before, after ledger) bool {
	withheld, others := settle(before, after)
	if (after.waited - before.waited).Seconds() < disturbedShare*after.at.Sub(before.at).Seconds() {
		others = 0
	}
	return withheld+others >= disturbedShare
}

// settle is where the time between two readings went.
func settle(before, after ledger) (withheld, others float64) {
	have := after.at.Sub(before.at).Seconds() * float64(after.processors)
	if have <= 0 {
		return 0, 0
	}
	theirs := (after.all - before.all) - (after.ours - before.ours)
	// Readings are not made at one instant: a little less than nothing is nothing.
	return max(0, (after.withheld-before.withheld).Seconds()/have), max(0, theirs.Seconds()/have)
}

// account adds up readings, about a second apart each.
func account(readings []ledger) Elsewhere {
	if len(readings) < 2 {
		return Elsewhere{}
	}
	e := Elsewhere{Seconds: len(readings) - 1}
	for i := range e.Seconds {
		if disturbed(readings[i], readings[i+1]) {
			e.Disturbed++
		}
	}
	e.Withheld, e.Others = settle(readings[0], readings[e.Seconds])
	return e
}

// WatchElsewhere reads every second where the processors' time goes, until the
// returned function is called, which tells. Its error says why it is not known.
func (e *Env) WatchElsewhere(ctx context.Context) (told func() (Elsewhere, error)) {
	books, err := e.books()
	if err != nil {
		return func() (Elsewhere, error) { return Elsewhere{}, err }
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	var readings []ledger
	read := func() {
		var one ledger
		if one, err = books.read(); err == nil {
			readings = append(readings, one)
		}
	}
	go func() {
		defer close(done)
		second := time.NewTicker(time.Second)
		defer second.Stop()
		for read(); err == nil; read() {
			select {
			case <-ctx.Done():
				return
			case <-second.C:
			}
		}
	}()
	return func() (Elsewhere, error) {
		cancel()
		<-done
		return account(readings), err
	}
}
