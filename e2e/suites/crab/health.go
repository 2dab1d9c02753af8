// SPDX-License-Identifier: Apache-2.0

package crab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

const (
	heldThrough = 75 * time.Second // while a server leaves the pool and comes back
	noticed     = 30 * time.Second // by then every node has heard that a server left or came back
	oneRound    = 4 * servers      // connections that meet every server if they are balanced at all
	ofDefault   = 60 * time.Second // what an application's connect may well take; Linux tries for 127 s
)

// unready: a server that is not ready any more keeps its connections and gets no new
// ones, until it is ready again (C-26).
func (s *Suite) unready(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("one of %d servers is not ready for a while, under %d connections", servers, held*len(nodes)), Cost: "80 s",
		Cause: "a change of the pool touches live connections, or EndpointSlices do not reach the agents"},
		func(ctx context.Context) error {
			return s.dialling(ctx, func(ctx context.Context) error {
				return s.outage(ctx, "unready", s.untilAvoided)
			})
		})
}

// dialling opens connections from every node, again and again while something is done.
// None may fail: nodes learn of a change one after the other, and who still sends a
// SYN to a server that left is answered honestly (C-91).
func (s *Suite) dialling(ctx context.Context, do func(context.Context) error) error {
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error
	var sum Answer
	done, end := context.WithCancel(ctx)
	defer end()
	for _, node := range nodes {
		all.Go(func() {
			a, err := s.dialFrom(ctx, done, node)
			mu.Lock()
			defer mu.Unlock()
			failed, sum = errors.Join(failed, err), sum.and(a)
		})
	}
	err := do(ctx)
	end()
	all.Wait()
	s.Steps.Say("     meanwhile %d new connections were answered, %d failed %s", sum.Connected, sum.Failed, sum.Error)
	s.Got.Set("crab_cluster_failed_unready", sum.Failed)
	if sum.Failed > 0 {
		failed = errors.Join(failed, fmt.Errorf("%d new connections failed while the pool changed: %s", sum.Failed, sum.Error))
	}
	return errors.Join(err, failed)
}

// dialFrom a node until done ends, with a second between two rounds.
func (s *Suite) dialFrom(ctx, done context.Context, node string) (sum Answer, err error) {
	for {
		a, err := s.peer(ctx, node, "ask", s.target(), fmt.Sprint(asked))
		if sum = sum.and(a); err != nil {
			return sum, err
		}
		select {
		case <-done.Done():
			return sum, nil
		case <-time.After(time.Second):
		}
	}
}

// and adds what is counted.
func (a Answer) and(b Answer) Answer {
	return Answer{Connected: a.Connected + b.Connected, Failed: a.Failed + b.Failed, Error: cmp.Or(a.Error, b.Error)}
}

// deaf: a server answers no SYN and calls itself ready, so that nobody but the probes
// can know (C-51, C-52). Who dials meanwhile is sent elsewhere by a repetition of the
// SYN (C-25); who dials later does not notice.
func (s *Suite) deaf(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("one of %d servers is silent for a while and calls itself ready, under %d connections", servers, held*len(nodes)), Cost: "80 s",
		Cause: "servers are not probed, or what the probes find does not reach the balancer: kubectl get ndp -o yaml"},
		func(ctx context.Context) error {
			return s.outage(ctx, "deaf", func(ctx context.Context, pod string) error {
				a, err := s.peer(ctx, "node-a", "ask", s.target(), fmt.Sprint(oneRound), ofDefault.String())
				if err != nil {
					return err
				}
				s.Steps.Say("     at once: %d answered, %d failed, by %v, the slowest after %d ms", a.Connected, a.Failed, a.Servers, a.SlowestMilliseconds)
				s.Got.Set("crab_cluster_silent_server_failed", a.Failed)
				s.Got.Set("crab_cluster_silent_server_slowest_ms", a.SlowestMilliseconds)
				if a.Failed > 0 {
					return fmt.Errorf("%d connections were not sent elsewhere within %s: %s", a.Failed, ofDefault, a.Error)
				}
				return s.untilAvoided(ctx, pod)
			})
		})
}

func (s *Suite) target() string { return fmt.Sprintf("%s:%d", s.vip, port) }

// outage puts the first server into a state, sees that nobody is sent there, and that
// it is used again when it is well; no connection breaks, least of all its own.
func (s *Suite) outage(ctx context.Context, state string, avoided func(context.Context, string) error) error {
	var pod string
	k, err := s.holding(ctx, held, heldThrough, func(ctx context.Context) (err error) {
		if pod, err = s.Env.Kubectl(ctx, "-n", Namespace, "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].metadata.name}"); err != nil {
			return err
		}
		if err := s.tell(ctx, pod, state); err != nil {
			return err
		}
		err = avoided(ctx, pod)
		if err == nil {
			err = s.askAround(ctx, pod)
		}
		if again := s.tell(ctx, pod, "well"); again != nil { // whatever happened: the next part needs it
			return errors.Join(err, again)
		}
		return errors.Join(err, s.untilUsed(ctx, pod))
	})
	s.Steps.Say("     %s had %d of %d connections, and %d of them broke", pod, k.by[pod], k.open, k.broken[pod])
	if k.by[pod] == 0 {
		err = errors.Join(err, fmt.Errorf("no connection of %s was held, and nothing was tested", pod))
	}
	return errors.Join(err, s.judge("crab_cluster_broken_"+state, held, k))
}

func (s *Suite) tell(ctx context.Context, pod, state string) error {
	_, err := s.Env.Kubectl(ctx, "-n", Namespace, "exec", pod, "--", "/crabpeer", "tell", state)
	return err
}

// untilAvoided waits until a round of new connections meets every server but one.
func (s *Suite) untilAvoided(ctx context.Context, pod string) error {
	return s.until(ctx, func(a Answer) bool { return a.Failed == 0 && a.Servers[pod] == 0 && len(a.Servers) == servers-1 })
}

func (s *Suite) untilUsed(ctx context.Context, pod string) error {
	return s.until(ctx, func(a Answer) bool { return a.Failed == 0 && a.Servers[pod] > 0 && len(a.Servers) == servers })
}

func (s *Suite) until(ctx context.Context, met func(Answer) bool) error {
	begun := time.Now()
	err := harness.Until(ctx, noticed, 250*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		a, err := s.peer(ctx, "node-a", "ask", s.target(), fmt.Sprint(oneRound))
		return met(a), fmt.Sprintf("new connections answered by %v, %d failed %s", a.Servers, a.Failed, a.Error), err
	})
	s.Steps.Say("     new connections go where they should after %.1f s", time.Since(begun).Seconds())
	return err
}

// askAround: from now on no node's connections fail, and none goes to that server.
func (s *Suite) askAround(ctx context.Context, pod string) error {
	for _, node := range nodes {
		a, err := s.peer(ctx, node, "ask", s.target(), fmt.Sprint(asked))
		if err != nil {
			return err
		}
		if a.Failed > 0 || a.Servers[pod] > 0 {
			return fmt.Errorf("%s: %d of %d new connections failed %s, by %v: want none by %s", node, a.Failed, asked, a.Error, a.Servers, pod)
		}
	}
	return nil
}
