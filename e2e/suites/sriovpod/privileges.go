// SPDX-License-Identifier: Apache-2.0

package sriovpod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
	"github.com/bobtail-dev/bobtail/e2e/suites/devices"
)

// leastRolling RPCs go on while servers are replaced.
const leastRolling = 1000

// rollout: other arguments for the servers, under load. No function is spare, so that a
// server has to give its own back before the next one can have it.
func (s *Suite) rollout(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "a rollout of the servers under load, with no function to spare", Cost: "90 s",
		Cause: "a pod left before the routers knew, or a new one waits: kubectl -n " + Namespace + " describe pods"}, func(ctx context.Context) error {
		l := s.load("load-rollout", 12*time.Minute)
		if err := s.Env.StartLoad(ctx, l); err != nil {
			return err
		}
		started := time.Now()
		_, err := s.Env.Kubectl(ctx, "-n", Namespace, "patch", "rpcsvc", Service, "--type=merge",
			"-p", `{"spec":{"server":{"args":["--service-time=fixed:300us","--idle=sleep"]}}}`)
		if err == nil {
			err = s.Env.WaitCondition(ctx, 8*time.Minute, Namespace, "rpcservices.bobtail.dev", Service, "Ready=True")
		}
		if err == nil {
			err = harness.Until(ctx, time.Minute, 500*time.Millisecond, func(context.Context) (bool, string, error) {
				return time.Since(started) > leastRolling/rate*time.Second+2*time.Second, "too few RPCs yet", nil
			})
		}
		if ended := s.Env.EndLoad(ctx, l); err != nil || ended != nil {
			return errors.Join(err, ended)
		}
		got, err := s.Env.FinishLoad(ctx, l)
		if err != nil {
			return err
		}
		return s.judge("rpcs_failed_rolling_no_spare_vf", leastRolling, got)
	})
}

// privilege is one that a copy of a server lacks.
type privilege struct {
	name   string
	said   string // what its program says then
	remove func(pod devices.Object) (devices.Object, error)
}

var privileges = []privilege{
	{"nothing", devices.Listens, func(pod devices.Object) (devices.Object, error) {
		return devices.CopyWithout(pod, "without-nothing", "")
	}},
	{"ipc-lock", "IPC_LOCK", func(pod devices.Object) (devices.Object, error) {
		return devices.CopyWithout(pod, "without-ipc-lock", "IPC_LOCK")
	}},
	{"root", "root", func(pod devices.Object) (devices.Object, error) {
		made, err := devices.CopyWithout(pod, "without-root", "")
		if err != nil {
			return nil, err
		}
		security := made["spec"].(devices.Object)["containers"].([]any)[0].(devices.Object)["securityContext"].(devices.Object)
		security["runAsUser"], security["runAsGroup"], security["runAsNonRoot"] = 65532, 65532, true
		return made, nil
	}},
}

// privileges: one server goes, and copies of it take its function, one after the other, each
// without one thing that it has. The first copy has everything and must serve; the others must not.
func (s *Suite) privileges(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "copies of a server, without its capability and without root", Cost: "90 s",
		Cause: "something is granted that nothing needs: the copy's log stands in the log file"}, func(ctx context.Context) error {
		pod, granted, err := devices.ServerPod(ctx, s.Env, Namespace)
		if err != nil {
			return err
		}
		if len(granted) != 1 {
			err = fmt.Errorf("the server is granted %v, and only IPC_LOCK is tried here", granted)
		}
		if _, scaled := s.Env.Kubectl(ctx, "-n", Namespace, "scale", "rpcsvc", Service, "--replicas=1"); scaled != nil {
			return errors.Join(err, scaled)
		}
		unneeded := 0
		for _, p := range privileges {
			log, failed := s.without(ctx, pod, p)
			s.Steps.Say("     without %-9s %s", p.name, devices.LastLine(log))
			if serves := strings.Contains(log, devices.Listens); serves != (p.said == devices.Listens) {
				failed = errors.Join(failed, fmt.Errorf("without %s: it serves: %v", p.name, serves))
				unneeded++
			}
			err = errors.Join(err, failed)
		}
		s.Got.Set("capabilities_unneeded", unneeded)
		return err
	})
}

// without plays one copy and takes it away again, so that the next has its function.
func (s *Suite) without(ctx context.Context, pod devices.Object, p privilege) (string, error) {
	made, err := p.remove(pod)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(made)
	if err != nil {
		return "", err
	}
	if err := s.Env.Apply(ctx, string(text)); err != nil {
		return "", err
	}
	log, err := devices.Outcome(ctx, s.Env, Namespace, "without-"+p.name, p.said)
	_, gone := s.Env.Kubectl(ctx, "-n", Namespace, "delete", "pod", "without-"+p.name, "--wait=true", "--timeout=90s")
	return log, errors.Join(err, gone)
}
