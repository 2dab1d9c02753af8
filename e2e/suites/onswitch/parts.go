// SPDX-License-Identifier: Apache-2.0

//go:build linux

package onswitch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
	"github.com/bobtail-dev/bobtail/e2e/switchpeer"
)

// over: the service goes over to the switch under load (W-25).
func (s *Suite) over(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "kubectl patch: the switch places the service, under load", Cost: "50 s",
		Cause: "the switch is not read back, or pods have no way to it: kubectl -n " + Namespace + " describe rpcsvc " + Service}, func(ctx context.Context) error {
		before := s.bed.forwarded()
		got, err := s.underLoad(ctx, s.load("load-in"), func(ctx context.Context) error {
			begun := time.Now()
			if err := s.patch(ctx, Service, onSwitch(front(1))); err != nil {
				return err
			}
			if err := s.Env.ConditionSoon(ctx, time.Minute, Namespace, "rpcservices", Service, "Programmed=True"); err != nil {
				return err
			}
			s.Got.SetFinite("switch_apply_to_programmed_seconds", time.Since(begun).Seconds())
			return s.given(ctx, 30*time.Second, Service, bySwitch)
		})
		if err != nil {
			return err
		}
		if s.bed.forwarded() == before {
			return errors.New("the switch placed nothing: " + s.bed.tally("route"))
		}
		return errors.Join(s.judge("rpcs_failed_switch_in", got), s.show(ctx, "-n", Namespace, "get", "rpcsvc,endpointslices"),
			s.show(ctx, "get", "psw", "-o", "wide"))
	})
}

// operatorDown: nobody of the operator runs, and the switch places every request.
func (s *Suite) operatorDown(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "no operator runs, the switch places every request", Cost: "80 s",
		Cause: "the switch forgot something, or servers stopped to report"}, func(ctx context.Context) error {
		if err := s.operators(ctx, 0); err != nil {
			return err
		}
		before := s.bed.counts()
		err := s.alone(ctx)
		if err := errors.Join(err, s.operators(ctx, 2)); err != nil {
			return err
		}
		if err := s.settled(ctx); err != nil {
			return err
		}
		if now := s.bed.counts(); now.Pushes != before.Pushes || now.Updates != before.Updates {
			return fmt.Errorf("a restart of the operator wrote: %+v, before %+v", now, before)
		}
		return nil
	})
}

// alone is the switch without an operator: each request of a load is placed by it.
func (s *Suite) alone(ctx context.Context) error {
	before := s.bed.forwarded()
	l := s.load("load-operator")
	l.Warmup = 0 // every request counts
	got, err := s.underLoad(ctx, l, func(context.Context) error { return nil })
	if err != nil {
		return err
	}
	s.Got.SetFinite("switch_requests_share", float64(s.bed.forwarded()-before)/float64(got.Sent))
	return s.judge("rpcs_failed_operator_down", got)
}

// operators scales the operator, and waits until that is so.
func (s *Suite) operators(ctx context.Context, n int) error {
	of := []string{"-n", harness.SystemNamespace}
	if _, err := s.Env.Kubectl(ctx, append(of, "scale", "deployment", "-l", "app.kubernetes.io/name=bobtail", fmt.Sprintf("--replicas=%d", n))...); err != nil {
		return err
	}
	if n > 0 {
		_, err := s.Env.Kubectl(ctx, append(of, "rollout", "status", "deployment", "-l", "app.kubernetes.io/name=bobtail", "--timeout=90s")...)
		return err
	}
	return harness.Until(ctx, time.Minute, 500*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		pods, err := s.Env.Kubectl(ctx, append(of, "get", "pods", "-l", "app.kubernetes.io/name=bobtail", "-o", "name")...)
		return pods == "", "still there: " + pods, err
	})
}

// holder is who leads, as the Lease says.
func (s *Suite) holder(ctx context.Context) (string, error) {
	out, err := s.Env.Kubectl(ctx, "-n", harness.SystemNamespace, "get", "lease", "bobtail-operator", "-o", "jsonpath={.spec.holderIdentity}")
	pod, _, _ := strings.Cut(out, "_")
	return pod, err
}

// status is a field of the switch's, as its object has it.
func (s *Suite) status(ctx context.Context, path string) (string, error) {
	return s.Env.Kubectl(ctx, "get", "psw", leaf, "-o", "jsonpath={.status."+path+"}")
}

// settled waits until who leads now is the switch's primary and has read it back: the term
// of the Lease is the high half of the election id, less one (W-20).
func (s *Suite) settled(ctx context.Context) error {
	return harness.Until(ctx, time.Minute, 250*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		term, e1 := s.Env.Kubectl(ctx, "-n", harness.SystemNamespace, "get", "lease", "bobtail-operator", "-o", "jsonpath={.spec.leaseTransitions}")
		state, e2 := s.status(ctx, `conditions[?(@.type=="Programmed")].status} {.status.role} {.status.electionID`)
		return strings.HasPrefix(state, fmt.Sprintf("True Primary %d.", number(term)+1)),
			fmt.Sprintf("Programmed, role and election id are %q in term %s of the Lease", state, term), errors.Join(e1, e2)
	})
}

// drift: the switch loses entries, and they come back (W-23).
func (s *Suite) drift(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "the switch loses five entries", Cost: "6 s", Cause: "the operator does not read back"}, func(ctx context.Context) error {
		before, err := s.status(ctx, "entriesRepaired")
		if err != nil {
			return err
		}
		held := s.bed.held()
		lost, begun := s.bed.peer.Lose(5), time.Now()
		err = harness.Until(ctx, time.Minute, 50*time.Millisecond, func(context.Context) (bool, string, error) {
			now := s.bed.held()
			return now == held, fmt.Sprintf("the switch holds %d of %d entries", now, held), nil
		})
		if err != nil {
			return err
		}
		s.Got.SetFinite("switch_drift_repaired_seconds", time.Since(begun).Seconds())
		return harness.Until(ctx, 20*time.Second, 250*time.Millisecond, func(ctx context.Context) (bool, string, error) {
			now, err := s.status(ctx, "entriesRepaired")
			return number(now)-number(before) == lost, fmt.Sprintf("status.entriesRepaired went from %q to %q, want %d more", before, now, lost), err
		})
	})
}

func number(text string) (n int) {
	_, _ = fmt.Sscan(text, &n) // an empty field is 0
	return n
}

// oldLeader: the leader stands still past its Lease and wakes up beside the next one, with
// something to repair. The switch takes writes from anybody here, so that only the operator
// itself can hold back (W-20).
func (s *Suite) oldLeader(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "the leader stands still until another one leads, and wakes up with something to write", Cost: "40 s",
		Cause: "nobody takes the Lease: kubectl -n " + harness.SystemNamespace + " get lease"}, func(ctx context.Context) error {
		old, err := s.holder(ctx)
		if err != nil {
			return err
		}
		uid, err := s.Env.Kubectl(ctx, "-n", harness.SystemNamespace, "get", "pod", old, "-o", "jsonpath={.metadata.uid}")
		if err != nil {
			return err
		}
		pids := harness.PodProcesses(uid, "operator")
		if len(pids) != 1 {
			return fmt.Errorf("pod %s runs %d operators: %v", old, len(pids), pids)
		}
		s.bed.peer.Misbehave(func(f *switchpeer.Faults) { f.Lax = true })
		defer s.bed.peer.Misbehave(func(f *switchpeer.Faults) { f.Lax = false })
		if err := syscall.Kill(pids[0], syscall.SIGSTOP); err != nil {
			return fmt.Errorf("stop the leader: %w", err)
		}
		err = harness.Until(ctx, 90*time.Second, 250*time.Millisecond, func(ctx context.Context) (bool, string, error) {
			now, err := s.holder(ctx)
			return now != "" && now != old, "still led by " + now, err
		})
		if err == nil {
			err = s.settled(ctx)
		}
		s.bed.peer.Lose(5)
		if err := errors.Join(err, syscall.Kill(pids[0], syscall.SIGCONT)); err != nil {
			return err
		}
		held := s.bed.held
		before := held()
		err = harness.Until(ctx, time.Minute, 100*time.Millisecond, func(context.Context) (bool, string, error) {
			gone := syscall.Kill(pids[0], 0) != nil
			return gone && held() >= before+5, fmt.Sprintf("the old leader is gone: %v, the switch holds %d entries", gone, held()), nil
		})
		c := s.bed.counts()
		s.Got.Set("switch_writes_from_old_leader", c.FromOldLeader)
		s.Got.Set("switch_pushes_without_need", c.PushesWithoutNeed)
		return err
	})
}

// others are services beside the first one.
const others = 7

// many: eight services at once, each placed by the switch at an address of its own (W-24).
func (s *Suite) many(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("%d services more on the same switch", others), Cost: "90 s",
		Cause: "pods do not start: kubectl -n " + Namespace + " get pods"}, func(ctx context.Context) error {
		if err := s.othersUp(ctx); err != nil {
			return err
		}
		served, err := s.othersServed(ctx)
		if err != nil {
			return err
		}
		s.Got.Set("switch_services_at_once", served+1) // and the first
		for n := range others {
			if _, err := s.Env.Kubectl(ctx, "-n", Namespace, "delete", "rpcsvc", other(n), "--wait=false"); err != nil {
				return err
			}
		}
		return harness.Until(ctx, time.Minute, 250*time.Millisecond, func(ctx context.Context) (bool, string, error) {
			names, err := s.status(ctx, "services[*].name")
			return names == Service, "the switch still has " + names, err
		})
	})
}

func other(n int) string { return fmt.Sprintf("many-%d", n) }

// othersUp has the other services placed by the switch.
func (s *Suite) othersUp(ctx context.Context) error {
	for n := range others {
		if err := errors.Join(s.Env.Apply(ctx, s.manifest(other(n), 1, 1, "4ms")), s.patch(ctx, other(n), onSwitch(front(2+n)))); err != nil {
			return err
		}
	}
	for n := range others {
		if err := s.Env.WaitCondition(ctx, 4*time.Minute, Namespace, "rpcsvc", other(n), "Programmed=True"); err != nil {
			return err
		}
		if err := s.given(ctx, time.Minute, other(n), bySwitch); err != nil {
			return err
		}
	}
	return s.show(ctx, "get", "psw", "-o", "wide")
}

// othersServed asks each of them at its address, and says how many answered everything.
func (s *Suite) othersServed(ctx context.Context) (served int, err error) {
	loads := make([]harness.Load, others)
	for n := range loads {
		l := s.load("load-" + other(n))
		l.Target, l.Rate, l.Duration, l.Warmup, l.Sockets = front(2+n)+":8000", 20, 2*time.Second, 0, 1
		if err := s.Env.StartLoad(ctx, l); err != nil {
			return 0, err
		}
		loads[n] = l
	}
	for n, l := range loads {
		got, err := s.Env.FinishLoad(ctx, l)
		if err != nil {
			return served, err
		}
		if got.Failed() > 0 || got.Sent == 0 {
			return served, fmt.Errorf("service %s: %d of %d RPCs failed: %s", other(n), got.Failed(), got.Sent, got.Failures())
		}
		served++
	}
	return served, nil
}

const objectiveManifest = `apiVersion: bobtail.dev/v1alpha1
kind: ServiceLevelObjective
metadata: {name: %[1]s-p99, namespace: %[2]s}
spec:
  targetRef: {name: %[1]s}
  percentile: "99"
  latencyMicroseconds: 500000
  windowSeconds: 60
`

// slow is a service whose requests take so long that what the checker adds is little, and a
// load that leaves two thirds of its workers idle; overload is more than they can.
const (
	overload   = 260
	slow       = "slow"
	slowSleeps = "60ms"
	slowRate   = 40
)

// objective: what the objective's status says beside what the client saw.
func (s *Suite) objective(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "a ServiceLevelObjective beside the client's own measurement", Cost: "100 s",
		Cause: "servers tell nothing: kubectl -n " + Namespace + " describe slo"}, func(ctx context.Context) error {
		if err := s.measured(ctx); err != nil {
			return err
		}
		l := s.load("load-slo")
		l.Target, l.Rate, l.Duration = slow+"."+Namespace+".svc.cluster.local:8000", slowRate, 62*time.Second
		if err := s.Env.StartLoad(ctx, l); err != nil {
			return err
		}
		got, err := s.Env.FinishLoad(ctx, l)
		if err != nil {
			return err
		}
		s.Steps.Say("     %d RPCs, %d failed (%s), p50 %.0f us, p99 %.0f us", got.Sent, got.Failed(), got.Failures(), got.Percentile("50"), got.Percentile("99"))
		if err := errors.Join(s.compare(ctx, got), s.judge("rpcs_failed_switch_slo", got), s.enforced(ctx)); err != nil {
			return err
		}
		_, err = s.Env.Kubectl(ctx, "-n", Namespace, "delete", "rpcsvc,slo", slow, slow+"-p99", "--ignore-not-found", "--wait=false")
		return err
	})
}

// measured is a slow service on the switch, with an objective.
func (s *Suite) measured(ctx context.Context) error {
	err := errors.Join(s.Env.Apply(ctx, s.manifest(slow, 1, 8, slowSleeps)), s.patch(ctx, slow, onSwitch(front(14))),
		s.Env.Apply(ctx, fmt.Sprintf(objectiveManifest, slow, Namespace)))
	if err == nil {
		err = s.Env.WaitCondition(ctx, 2*time.Minute, Namespace, "rpcsvc", slow, "Programmed=True")
	}
	if err == nil {
		err = s.given(ctx, time.Minute, slow, bySwitch)
	}
	return err
}

// compare records the percentile of the status over that of the client.
func (s *Suite) compare(ctx context.Context, got harness.LoadResult) error {
	seen, err := s.Env.Object(ctx, Namespace, "slo", slow+"-p99")
	if err := errors.Join(err, s.show(ctx, "-n", Namespace, "get", "slo")); err != nil {
		return err
	}
	source, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "slo", slow+"-p99", "-o", "jsonpath={.status.source}")
	if err == nil && source != "Switch" {
		err = fmt.Errorf("the percentile is of %q, not of the switch", source)
	}
	if err != nil {
		return err
	}
	if seen.Status.ObservedMicroseconds == nil {
		return fmt.Errorf("status.observedMicroseconds is empty after %d RPCs", got.Sent)
	}
	s.Got.SetFinite("switch_slo_over_client_p99", float64(*seen.Status.ObservedMicroseconds)/got.Percentile("99"))
	return nil
}

// enforced: the same objective, to be kept under a load that the workers cannot take. The switch refuses what is too much,
// by rates that the operator sets from its counters.
func (s *Suite) enforced(ctx context.Context) error {
	if _, err := s.Env.Kubectl(ctx, "-n", Namespace, "patch", "slo", slow+"-p99", "--type=merge", "-p",
		`{"spec":{"latencyMicroseconds":400000,"enforcement":{"mode":"Reject"}}}`); err != nil {
		return err
	}
	if err := s.Env.WaitCondition(ctx, time.Minute, Namespace, "slo", slow+"-p99", "Programmed=True"); err != nil {
		return err
	}
	before := s.bed.shed()
	l := s.load("load-enforced")
	l.Target, l.Rate, l.Duration = slow+"."+Namespace+".svc.cluster.local:8000", overload, 40*time.Second
	if err := s.Env.StartLoad(ctx, l); err != nil {
		return err
	}
	got, err := s.Env.FinishLoad(ctx, l)
	if err != nil {
		return err
	}
	shed := s.bed.shed() - before
	s.Steps.Say("     %d RPCs, %s, p50 %.0f us, p99 %.0f us; admission control had the switch refuse %d", got.Sent, got.Failures(), got.Percentile("50"), got.Percentile("99"), shed)
	s.Got.Set("switch_requests_shed", int(shed))
	s.Got.Set("rpcs_timed_out_switch_shed", got.Timeouts)
	return s.show(ctx, "-n", Namespace, "get", "slo")
}

// switchKilled: the switch loses its power under load; clients reach the routers that stand
// by. It comes back empty, and is programmed before it is given to clients again (W-25).
func (s *Suite) switchKilled(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "the switch is switched off, and on again, under load", Cost: "60 s",
		Cause: "clients are not given the routers that stand by: kubectl -n " + Namespace + " get endpointslices"}, func(ctx context.Context) error {
		l := s.load("load-kill")
		l.Rate, l.Timeout, l.Sockets = 50, time.Second, killSockets
		if err := s.Env.StartLoad(ctx, l); err != nil {
			return err
		}
		err := s.offAndOn(ctx, l)
		if ended := s.Env.EndLoad(ctx, l); err != nil || ended != nil {
			return errors.Join(err, ended)
		}
		got, err := s.Env.FinishLoad(ctx, l)
		if err != nil {
			return err
		}
		s.Steps.Say("     %d RPCs, %d failed (%s)", got.Sent, got.Failed(), got.Failures())
		s.Got.Set("rpcs_timed_out_switch_kill", got.Timeouts)
		if rest := got.Failed() - got.Timeouts; rest != 0 {
			return fmt.Errorf("%d RPCs failed otherwise than by a timeout: %s", rest, got.Failures())
		}
		return nil
	})
}

// killSockets of a client notice each by three timeouts that a router is gone.
const killSockets = 64

func (s *Suite) offAndOn(ctx context.Context, l harness.Load) error {
	if err := sleep(ctx, l.Warmup+2*time.Second); err != nil {
		return err
	}
	before, err := s.Env.Counts(ctx, Namespace, Service, "router")
	if err != nil {
		return err
	}
	begun := time.Now()
	s.bed.kill()
	if err := s.given(ctx, time.Minute, Service, byRouters); err != nil {
		return err
	}
	s.Got.SetFinite("switch_standby_published_seconds", time.Since(begun).Seconds())
	err = harness.Until(ctx, time.Minute, 100*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		now, err := s.Env.Counts(ctx, Namespace, Service, "router")
		if err != nil {
			return false, "", err
		}
		n := now.Since(before)["bobtail_router_requests_total"]
		return n >= 1, fmt.Sprintf("routers were asked %.0f times", n), nil
	})
	if err != nil {
		return err
	}
	s.Got.SetFinite("switch_fallback_seconds", time.Since(begun).Seconds())
	if err := sleep(ctx, 5*time.Second); err != nil {
		return err
	}
	if err := s.bed.revive(); err != nil {
		return err
	}
	if err := s.given(ctx, time.Minute, Service, bySwitch); err != nil {
		return err
	}
	placed := s.bed.forwarded()
	return harness.Until(ctx, 30*time.Second, 250*time.Millisecond, func(context.Context) (bool, string, error) {
		return s.bed.forwarded() >= placed+100, "the switch places nothing again: " + s.bed.tally("route"), nil
	})
}

// back: the service goes back to its router pods under load, and nothing of it stays (W-25).
func (s *Suite) back(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "kubectl patch: back to software, under load", Cost: "60 s",
		Cause: "clients still asked the switch when its entries went: kubectl -n " + Namespace + " get rpcsvc " + Service + " -o yaml"}, func(ctx context.Context) error {
		got, err := s.underLoad(ctx, s.load("load-out"), func(ctx context.Context) error {
			if err := s.patch(ctx, Service, inSoftware); err != nil {
				return err
			}
			if err := s.given(ctx, 30*time.Second, Service, byRouters); err != nil {
				return err
			}
			return harness.Until(ctx, 90*time.Second, 500*time.Millisecond, func(ctx context.Context) (bool, string, error) {
				names, err := s.status(ctx, "services[*].name")
				return names == "", "the switch still has " + names, err
			})
		})
		if err != nil {
			return err
		}
		return s.judge("rpcs_failed_switch_out", got)
	})
}

// remove: service, switch and chart go, and nothing stays on the switch.
func (s *Suite) remove(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "service, switch and chart are removed", Cost: "40 s",
		Cause: "entries could not be taken away: kubectl describe psw " + leaf}, func(ctx context.Context) error {
		if err := s.Env.RemoveService(ctx, Namespace, Service); err != nil {
			return err
		}
		if _, err := s.Env.Kubectl(ctx, "delete", "psw", leaf, "--timeout=60s"); err != nil {
			return err
		}
		s.Got.Set("switch_entries_after_delete", s.bed.held())
		c := s.bed.counts()
		s.Got.Set("switch_pushes_without_need", c.PushesWithoutNeed)
		if _, err := s.Env.Kubectl(ctx, "delete", "namespace", Namespace, "--timeout=90s"); err != nil {
			return err
		}
		return s.Env.Uninstall(ctx)
	})
}
