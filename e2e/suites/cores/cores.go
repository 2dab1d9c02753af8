// SPDX-License-Identifier: Apache-2.0

// Package cores plays `spec.scheduling` on a real cluster: the mode, the cores and the
// cpuset of a service change under load, a server has a processor for itself, and one that
// knows nothing of the field is named.
package cores

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// Names.
const (
	Namespace = "bobtail-cores"
	Service   = "stealing"
	own       = "own"
	ignorant  = "ignorant"
	kind      = "rpcservices.bobtail.dev"
)

// The loads: a request takes 1 ms of a core. Calm leaves most of one core idle; busy is
// more than one can do.
const (
	calmRate = 100
	busyRate = 1500
	patience = 3 * time.Minute
)

// Suite is one run.
type Suite struct {
	Env   *harness.Env
	Steps *harness.Steps
	Got   *harness.Measurements
	// Only names the parts to play; empty: all.
	Only []string

	failed int64 // requests of all loads that are judged
}

// says is what the status tells of cores.
type says struct {
	Replicas, ActiveCores, AllowedCores, Parks int64
	Resizing                                   string
}

func (s *Suite) parts() []harness.Part {
	return []harness.Part{{Name: "scheduling", Play: s.scheduling}, {Name: "flow", Play: s.flow}, {Name: "tcp", Play: s.tcp}}
}

// Judge says what is wrong with Only.
func (s *Suite) Judge() error {
	_, err := harness.Choose(s.parts(), s.Only)
	return err
}

// Run plays the parts on a running cluster; one that fails hides none of the others.
func (s *Suite) Run(ctx context.Context) error {
	parts, err := harness.Choose(s.parts(), s.Only)
	if err != nil {
		return err
	}
	if err := s.images(ctx); err != nil {
		return err
	}
	if err := s.Env.Prepare(ctx, s.Steps, Namespace, Service, "--set=nodes.enabled=true"); err != nil {
		return err
	}
	if err := s.Env.Apply(ctx, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+Namespace+"}\n"); err != nil {
		return err
	}
	if err := harness.PlayAll(ctx, parts); err != nil {
		return err
	}
	_, err = s.Env.Kubectl(ctx, "delete", "namespace", Namespace, "--timeout=120s")
	return err
}

// scheduling: mode, cores and cpuset change under load, one after the other.
func (s *Suite) scheduling(ctx context.Context) error {
	var err error
	for _, step := range []func(context.Context) error{s.apply, s.node, s.parking, s.resize, s.cpuset, s.mode, s.exclusive, s.ignored} {
		if err == nil {
			err = step(ctx)
		}
	}
	if s.failed > 0 || err == nil { // nothing failed says nothing of loads that did not run
		s.Got.Set("sched_rpcs_failed", s.failed)
	}
	if err != nil {
		out, _ := s.Env.Kubectl(ctx, "-n", Namespace, "get", "rpcsvc,pods", "-o", "yaml")
		return fmt.Errorf("%w\n%s", err, out)
	}
	return s.Env.RemoveService(ctx, Namespace, ignorant)
}

func (s *Suite) images(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "import the images of the agent and of a server that knows nothing of cores", Cost: "5 s", Cause: "`make images` did not finish"},
		func(ctx context.Context) error {
			for _, name := range []string{"agent", "example"} {
				if _, err := s.Env.Cluster(ctx, "load-image", filepath.Join(s.Env.Root, "build", "images", name+".tar")); err != nil {
					return err
				}
			}
			return nil
		})
}

// service is a manifest. Its requests of CPU leave room for one pod more during a rollout.
func (s *Suite) service(name, image, scheduling, args string) string {
	return fmt.Sprintf(`apiVersion: bobtail.dev/v1alpha1
kind: RpcService
metadata: {name: %s, namespace: %s}
spec:
  replicas: 1
  scheduling: %s
  server: {image: "localhost/bobtail/%s:%s", args: [%s]}
  router: {replicas: 2}
`, name, Namespace, scheduling, image, s.Env.Version, args)
}

func (s *Suite) apply(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "a service that steals work, 1 to 2 cores", Cost: "20 s",
		Cause: "the server does not report its lanes: kubectl -n " + Namespace + " describe rpcsvc " + Service}, func(ctx context.Context) error {
		manifest := s.service(Service, "serve", "{mode: WorkStealing, minCores: 1, maxCores: 2, batchSize: 16}", "--service-time=fixed:1ms")
		if err := s.Env.Apply(ctx, manifest); err != nil {
			return err
		}
		if err := s.Env.WaitCondition(ctx, patience, Namespace, kind, Service, "Ready=True"); err != nil {
			return err
		}
		return s.until(ctx, Service, "one server reports", func(got says) bool { return got.Replicas == 1 && got.AllowedCores == 2 })
	})
}

// node: the NodeDataplane says what this machine has for it, and why it has not the rest.
func (s *Suite) node(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "the NodeDataplane tells of CPU manager, frequencies and RAPL", Cost: "5 s",
		Cause: "kubectl -n " + harness.SystemNamespace + " logs ds/bobtail-host"}, func(ctx context.Context) error {
		type ability struct{ State, Value, Reason string }
		var got struct {
			Status struct {
				Host struct {
					Power *struct{ CPUManager, CPUFrequency, RAPL ability }
				}
			}
		}
		return harness.Until(ctx, time.Minute, time.Second, func(ctx context.Context) (bool, string, error) {
			if err := s.Env.Get(ctx, &got, "nodedataplane", "node-a"); err != nil {
				return false, "", err
			}
			p := got.Status.Host.Power
			if p == nil {
				return false, "it says nothing of power", nil
			}
			for _, one := range []ability{p.CPUManager, p.CPUFrequency, p.RAPL} {
				if (one.State == "Absent") != (one.Reason != "") {
					return false, fmt.Sprintf("%+v", one), nil
				}
			}
			s.Steps.Say("     CPU manager %+v, frequency %+v, RAPL %+v", p.CPUManager, p.CPUFrequency, p.RAPL)
			return true, "", nil
		})
	})
}

func (s *Suite) read(ctx context.Context, name string) (says, error) {
	var got struct {
		Status struct{ Scheduling says }
	}
	err := s.Env.Get(ctx, &got, "-n", Namespace, "rpcsvc", name)
	return got.Status.Scheduling, err
}

func (s *Suite) until(ctx context.Context, name, what string, is func(says) bool) error {
	return harness.Until(ctx, patience, 250*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		got, err := s.read(ctx, name)
		return err == nil && is(got), fmt.Sprintf("not yet: %s: %+v", what, got), err
	})
}

func (s *Suite) patch(ctx context.Context, scheduling string) error {
	_, err := s.Env.Kubectl(ctx, "-n", Namespace, "patch", "rpcsvc", Service, "--type=merge", "-p", `{"spec":{"scheduling":`+scheduling+`}}`)
	return err
}

func (s *Suite) load(name string, rate int) harness.Load {
	return harness.Load{Namespace: Namespace, Name: name, Target: Service + "." + Namespace + ".svc.cluster.local:8000",
		Rate: rate, Duration: 10 * time.Minute, Warmup: 0, Timeout: 10 * time.Second, Sockets: 4}
}

// underLoad plays something while a calm client sends, and counts what of it failed.
func (s *Suite) underLoad(ctx context.Context, name string, do func(context.Context) error) error {
	l := s.load(name, calmRate)
	if err := s.Env.StartLoad(ctx, l); err != nil {
		return err
	}
	done := do(ctx)
	if err := s.Env.EndLoad(ctx, l); err != nil {
		return errors.Join(done, err)
	}
	got, err := s.Env.FinishLoad(ctx, l)
	if err != nil {
		return errors.Join(done, err)
	}
	s.failed += got.Failed()
	s.Steps.Say("     %d RPCs, %d failed (%s)", got.Sent, got.Failed(), got.Failures())
	if got.Sent == 0 || got.Failed() > 0 {
		return errors.Join(done, fmt.Errorf("%d of %d RPCs failed: %s", got.Failed(), got.Sent, got.Failures()))
	}
	return done
}

// parking: more than one core can do makes the second run; when that is over, it is parked.
func (s *Suite) parking(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "a burst, for which a second core runs; it is parked afterwards", Cost: "40 s",
		Cause: "the controller does not see what waits: kubectl -n " + Namespace + " logs deploy/" + Service + "-server -c server"}, func(ctx context.Context) error {
		return s.underLoad(ctx, "calm-parking", func(ctx context.Context) error {
			before, err := s.read(ctx, Service)
			if err != nil {
				return err
			}
			burst := s.load("burst", busyRate)
			if err := s.Env.StartLoad(ctx, burst); err != nil {
				return err
			}
			err = s.until(ctx, Service, "two cores run", func(got says) bool { return got.ActiveCores == 2 })
			if err = errors.Join(err, s.Env.StopLoad(ctx, burst)); err != nil {
				return err
			}
			return s.until(ctx, Service, "one is parked", func(got says) bool { return got.ActiveCores == 1 && got.Parks > before.Parks })
		})
	})
}

// resize: other cores, in the same pods.
func (s *Suite) resize(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "maxCores 2, then 1, then 2, in the same pod", Cost: "30 s",
		Cause: "the kubelet refuses the change: kubectl -n " + Namespace + " get rpcsvc " + Service + " -o jsonpath={.status.scheduling.resizing}"}, func(ctx context.Context) error {
		before, err := s.server(ctx, Service)
		if err != nil {
			return err
		}
		longest := 0.0
		err = s.underLoad(ctx, "calm-resize", func(ctx context.Context) error {
			for _, most := range []string{"1", "2"} {
				took, err := s.resizedTo(ctx, most)
				if err != nil {
					return err
				}
				longest = max(longest, took.Seconds())
			}
			return nil
		})
		if err != nil {
			return err
		}
		s.Got.SetFinite("sched_resize_seconds", longest)
		after, err := s.server(ctx, Service)
		if err == nil && (after.Metadata.UID != before.Metadata.UID || after.restarts() != before.restarts()) {
			err = fmt.Errorf("the pod was made anew or its server started again: %s, then %s", before.Metadata.Name, after.Metadata.Name)
		}
		return err
	})
}

// resizedTo waits until the kubelet says that the limit is in force, and the server that it
// runs so many.
func (s *Suite) resizedTo(ctx context.Context, most string) (time.Duration, error) {
	started := time.Now()
	if err := s.patch(ctx, `{"maxCores":`+most+`}`); err != nil {
		return 0, err
	}
	err := harness.Until(ctx, patience, 100*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		p, err := s.server(ctx, Service)
		if err != nil {
			return false, "", err
		}
		got, err := s.read(ctx, Service)
		return p.limit() == most && fmt.Sprint(got.AllowedCores) == most, fmt.Sprintf("the limit in force is %q, want %s; %+v", p.limit(), most, got), err
	})
	return time.Since(started), err
}

// mode: to completion, and back; each is a rollout.
func (s *Suite) mode(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "RunToCompletion, then WorkStealing again", Cost: "60 s",
		Cause: "a pod left before the routers knew: kubectl -n " + Namespace + " get events"}, func(ctx context.Context) error {
		return s.underLoad(ctx, "calm-mode", func(ctx context.Context) error {
			for _, change := range []string{`{"mode":"RunToCompletion","minCores":1,"maxCores":1}`, `{"mode":"WorkStealing","minCores":1,"maxCores":2}`} {
				if err := s.patch(ctx, change); err != nil {
					return err
				}
				if err := s.Env.WaitCondition(ctx, patience, Namespace, kind, Service, "Ready=True"); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// ignored: a server that knows nothing of the field serves, and the service says so.
func (s *Suite) ignored(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "a server that ignores the field is named within 30 s or little more", Cost: "60 s",
		Cause: "it reports lanes after all"}, func(ctx context.Context) error {
		manifest := s.service(ignorant, "example", "{mode: WorkStealing, maxCores: 1}", "")
		if err := s.Env.Apply(ctx, manifest); err != nil {
			return err
		}
		return harness.Until(ctx, patience, time.Second, func(ctx context.Context) (bool, string, error) {
			o, err := s.Env.Object(ctx, Namespace, "rpcsvc", ignorant)
			c := o.Condition("Ready")
			return err == nil && c.Reason == "ServerIgnoresScheduling", "Ready says " + c.Reason + ": " + c.Message, err
		})
	})
}
