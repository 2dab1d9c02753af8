// SPDX-License-Identifier: Apache-2.0

package crab

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	held     = 100  // connections from every node at once
	heldMany = 3334 // where an agent goes: 10,000 in all
)

// kept is what became of connections that were held.
type kept struct {
	open       int
	by, broken map[string]int // by server
}

// opening is how long so many connections of each node may take to open, one after the other.
func opening(perNode int) time.Duration {
	return 3500*time.Millisecond + time.Duration(perNode)*5*time.Millisecond
}

// holding keeps connections from every node while something is done.
func (s *Suite) holding(ctx context.Context, perNode int, d time.Duration, do func(context.Context) error) (kept, error) {
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error
	k := kept{by: map[string]int{}, broken: map[string]int{}}
	for _, node := range nodes {
		all.Go(func() {
			a, err := s.hold(ctx, node, perNode, d)
			mu.Lock()
			defer mu.Unlock()
			failed, k.open = errors.Join(failed, err), k.open+a.Connected
			for server, n := range a.Servers {
				k.by[server] += n
			}
			for server, n := range a.Broken {
				k.broken[server] += n
			}
		})
	}
	begun := time.Now()
	time.Sleep(opening(perNode))
	err := do(ctx)
	if took := time.Since(begun); took > d {
		err = errors.Join(err, fmt.Errorf("the connections were held for %s, and what they were to live through took %s: too slow a machine, or something hangs", d, took.Round(time.Second)))
	}
	all.Wait()
	return k, errors.Join(failed, err)
}

// hold keeps those of one node, and sees that they were open in time.
func (s *Suite) hold(ctx context.Context, node string, n int, d time.Duration) (Answer, error) {
	a, err := s.peer(ctx, node, "hold", s.target(), fmt.Sprint(n), d.String())
	switch took := time.Duration(a.OpenedMilliseconds) * time.Millisecond; {
	case err != nil:
	case a.Failed > 0:
		err = fmt.Errorf("%s: %d connections could not be made: %s", node, a.Failed, a.Error)
	case took > opening(n):
		err = fmt.Errorf("%s: %d connections took %s to open, and what they were to live through began after %s", node, n, took, opening(n))
	}
	return a, err
}

// judge wants that none broke of the connections that should live.
func (s *Suite) judge(name string, perNode int, k kept) error {
	n := 0
	for _, b := range k.broken {
		n += b
	}
	s.Got.Set(name, n)
	if n > 0 || k.open < perNode*len(nodes) {
		return fmt.Errorf("of %d connections %d broke (%v)", k.open, n, k.broken)
	}
	s.Steps.Say("     none of %d connections that should live broke", k.open)
	return nil
}
