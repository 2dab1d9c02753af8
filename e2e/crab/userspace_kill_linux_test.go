// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"testing"
	"time"
)

// killed: the balancer's program dies without a word and is started again. No connection that stands notices, and who
// dials meanwhile waits for the program, by TCP's own repetition of the SYN.
func (u *userspace) killed(t *testing.T) {
	t.Helper()
	client := u.Host("client")
	all, err := client.dialMany(u.target(), 300)
	must(t, err)
	must(t, u.process.Kill())
	eventually(t, "the balancer's program is gone", func() bool { return u.counter("crab_servers", "capable") < 0 })
	if bad, first := broken(all, "nobody balances"); bad > 0 {
		t.Errorf("C-26: %d of %d connections broke with their balancer: %v", bad, len(all), first)
	}
	dialled := make(chan error, 1)
	go func() {
		c, err := client.dialWithin(u.target(), patience)
		if err == nil {
			err = c.ask("late")
			c.Close()
		}
		dialled <- err
	}()
	time.Sleep(200 * time.Millisecond) // its first SYN is lost
	u.launch(t, len(u.Servers()))
	if err := <-dialled; err != nil {
		t.Errorf("C-25: who dialled while nobody balanced: %v", err)
	}
	if bad, first := broken(all, "another program"); bad > 0 {
		t.Errorf("C-26: %d of %d connections broke when the program was started again: %v", bad, len(all), first)
	}
	for _, c := range all {
		c.Close()
	}
	if _, by := client.open(t, u.target(), 2*len(u.Servers())); len(by) != len(u.Servers()) {
		t.Errorf("C-60: new connections went to %v", by)
	}
}
