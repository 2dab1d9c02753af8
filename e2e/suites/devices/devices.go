// SPDX-License-Identifier: Apache-2.0

// Package devices plays examples/afxdp-service.yaml on a cluster of one node as it stands
// there: from the manifest to traffic, through a rollout, back to the pod network when the
// definition of the network is gone, and away without a trace. Multus is played by
// bobtail-networks, which keeps to its documented contract.
package devices

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// Names of the example.
const (
	Namespace  = "bobtail-devices"
	Service    = "past-the-kernel"
	definition = "data"
	subnet     = "10.77.0."
	node       = "a"
)

// The load: two servers with one worker of 200 us each carry many times that, so that what
// fails did so for its network.
const (
	rate      = 100
	leastRPCs = 1000
)

// Suite is one run.
type Suite struct {
	Env   *harness.Env
	Steps *harness.Steps
	Got   *harness.Measurements
	Only  []string // the parts to play; empty: all
}

// service is what is read of the RpcService besides its conditions.
type service struct {
	Status struct {
		Device  string `json:"device"`
		Devices []struct {
			Device, State, Reason, Message string
		} `json:"devices"`
	} `json:"status"`
}

// scene is a service, and the parts that are played with it. A part that ends the service comes last.
type scene struct {
	set   func(context.Context) error // nil: its part does
	parts []harness.Part
}

func (s *Suite) scenes() []scene {
	return []scene{
		{nil, []harness.Part{{Name: "refused", Play: s.refusedDevices}}},
		{s.apply, []harness.Part{
			{Name: "host", Play: s.host},
			{Name: "traffic", Play: s.traffic},
			{Name: "edited", Play: s.edited},
			{Name: "outage", Play: s.serverless},
			{Name: "lost", Play: s.lost},
			{Name: "capabilities", Play: s.capabilities},
			{Name: "rollout", Play: s.rollout},
			{Name: "fallback", Play: s.fallBack},
		}},
		{s.count, []harness.Part{
			{Name: "nospare", Play: s.noSpare},
			{Name: "kubelet", Play: s.kubeletRestarts},
		}},
		{nil, []harness.Part{{Name: "claims", Play: s.claims}}},
	}
}

// chosen are the scenes of which a part is wanted, with the wanted parts alone.
func (s *Suite) chosen() ([]scene, error) {
	var all []harness.Part
	for _, sc := range s.scenes() {
		all = append(all, sc.parts...)
	}
	if _, err := harness.Choose(all, s.Only); err != nil {
		return nil, err
	}
	var out []scene
	for _, sc := range s.scenes() {
		if len(s.Only) > 0 {
			sc.parts = slices.DeleteFunc(sc.parts, func(p harness.Part) bool { return !slices.Contains(s.Only, p.Name) })
		}
		if len(sc.parts) > 0 {
			out = append(out, sc)
		}
	}
	return out, nil
}

// Judge refuses parts that the suite does not have.
func (s *Suite) Judge() error {
	_, err := s.chosen()
	return err
}

// Run plays the chosen parts, all by default, on a running cluster.
func (s *Suite) Run(ctx context.Context) error {
	scenes, err := s.chosen()
	if err != nil {
		return err
	}
	if err := s.loadAgent(ctx); err != nil {
		return err
	}
	if err := s.Env.Prepare(ctx, s.Steps, Namespace, Service, withNodes); err != nil {
		return err
	}
	if err := s.Env.Apply(ctx, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+Namespace+"}\n"); err != nil {
		return err
	}
	var failed error
	for _, sc := range scenes {
		failed = errors.Join(failed, s.play(ctx, sc))
	}
	return errors.Join(failed, s.remove(ctx))
}

// play ends a scene at the first part that fails, because the service may be left in any state; the
// next scene begins with a service of its own.
func (s *Suite) play(ctx context.Context, sc scene) error {
	if err := s.clear(ctx); err != nil {
		return err
	}
	plays := sc.parts
	if sc.set != nil {
		plays = append([]harness.Part{{Play: sc.set}}, plays...)
	}
	for _, p := range plays {
		if err := p.Play(ctx); err != nil {
			return errors.Join(err, s.describe(ctx))
		}
	}
	return nil
}

// clear ends whichever service there is, and waits until its pods are gone.
func (s *Suite) clear(ctx context.Context) (err error) {
	for _, service := range []string{Service, counted, claiming, refused} {
		err = errors.Join(err, s.Env.RemoveService(ctx, Namespace, service))
	}
	return err
}

// apply: the example as it stands, until its pods serve on the device.
func (s *Suite) apply(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "kubectl apply -f examples/afxdp-service.yaml", Cost: "30 s",
		Cause: "pods do not start on net1, or the operator does not believe their addresses: kubectl -n " + Namespace + " describe rpcsvc " + Service},
		func(ctx context.Context) error {
			if _, err := s.Env.Kubectl(ctx, "-n", Namespace, "apply", "-f", filepath.Join(s.Env.Root, "examples", "afxdp-service.yaml")); err != nil {
				return err
			}
			if err := s.Env.WaitCondition(ctx, 3*time.Minute, Namespace, "rpcservices.bobtail.dev", Service, "Ready=True"); err != nil {
				return err
			}
			out, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "rpcsvc,endpointslices", "-o", "wide")
			s.Steps.Say("\n$ kubectl -n %s get rpcsvc,endpointslices -o wide\n%s", Namespace, out)
			return errors.Join(err, s.onDevice(ctx, "AFXDP"), s.published(ctx))
		})
}

// onDevice says whether the status names the device.
func (s *Suite) onDevice(ctx context.Context, want string) error {
	var got service
	if err := s.Env.Get(ctx, &got, "-n", Namespace, "rpcsvc", Service); err != nil {
		return err
	}
	if got.Status.Device != want {
		return fmt.Errorf("status.device is %s, want %s: %+v", got.Status.Device, want, got.Status.Devices)
	}
	return nil
}

// published says whether clients are sent to addresses of the network, and to no others.
func (s *Suite) published(ctx context.Context) error {
	out, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "endpointslices", "-l", "kubernetes.io/service-name="+Service,
		"-o", "jsonpath={.items[*].endpoints[*].addresses[*]}")
	addresses := strings.Fields(out)
	for _, a := range addresses {
		if !strings.HasPrefix(a, subnet) {
			err = errors.Join(err, fmt.Errorf("clients are sent to %s", a))
		}
	}
	if len(addresses) != 2 {
		err = errors.Join(err, fmt.Errorf("clients are sent to %v, want two routers", addresses))
	}
	return err
}

func (s *Suite) load(name string, duration time.Duration) harness.Load {
	return harness.Load{Namespace: Namespace, Name: name, Target: Service + "." + Namespace + ".svc.cluster.local:8000",
		Rate: rate, Duration: duration, Warmup: time.Second, Timeout: 2 * time.Second, Sockets: 4}
}

// judge records what failed of a load of at least leastRPCs.
func (s *Suite) judge(figure string, got harness.LoadResult) error {
	s.Got.Set(figure, got.Failed())
	s.Steps.Say("     %d RPCs, %d failed (%s), p50 %.0f us, p99 %.0f us", got.Sent, got.Failed(), got.Failures(), got.Percentile("50"), got.Percentile("99"))
	if got.Sent < leastRPCs {
		return fmt.Errorf("%d RPCs were sent, want at least %d", got.Sent, leastRPCs)
	}
	if got.Failed() > 0 {
		return fmt.Errorf("%d of %d RPCs failed: %s", got.Failed(), got.Sent, got.Failures())
	}
	return nil
}

// traffic: a client on the pod network, by the name of the service.
func (s *Suite) traffic(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("%d RPCs by the name %s.%s.svc", 12*rate, Service, Namespace), Cost: "25 s",
		Cause: "the name leads nowhere, or the node does not forward to its bridge: kubectl -n " + Namespace + " get endpointslices"},
		func(ctx context.Context) error {
			l := s.load("load-afxdp", 12*time.Second)
			if err := s.Env.StartLoad(ctx, l); err != nil {
				return err
			}
			got, err := s.Env.FinishLoad(ctx, l)
			if err != nil {
				return err
			}
			return s.judge("afxdp_pod_rpcs_failed", got)
		})
}

// rollout: other arguments for the servers, under load.
func (s *Suite) rollout(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "a rollout of the servers under load", Cost: "90 s",
		Cause: "a pod left before the routers knew: kubectl -n " + Namespace + " get events"}, func(ctx context.Context) error {
		err := s.underLoad(ctx, s.load("load-rollout", 5*time.Minute), "afxdp_rollout_rpcs_failed", func(ctx context.Context) error {
			_, err := s.Env.Kubectl(ctx, "-n", Namespace, "patch", "rpcsvc", Service, "--type=merge",
				"-p", `{"spec":{"server":{"args":["--service-time=fixed:300us"]}}}`)
			if err == nil {
				err = s.Env.WaitCondition(ctx, 4*time.Minute, Namespace, "rpcservices.bobtail.dev", Service, "Ready=True")
			}
			return err
		})
		return errors.Join(err, s.onDevice(ctx, "AFXDP"))
	})
}

// fallBack: the definition goes, and then a pod. Running pods keep what they hold; the one
// that comes cannot have it, and moves the service.
func (s *Suite) fallBack(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "the NetworkAttachmentDefinition is deleted, then a server: the service falls back to Kernel", Cost: "90 s",
		Cause: "the pod that came was not seen to wait: kubectl -n " + Namespace + " get rpcsvc " + Service + " -o yaml"}, func(ctx context.Context) error {
		if _, err := s.Env.Kubectl(ctx, "-n", Namespace, "delete", "net-attach-def", definition); err != nil {
			return err
		}
		started := time.Now()
		pod, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "pods", "-l", "bobtail.dev/component=server", "-o", "jsonpath={.items[0].metadata.name}")
		if err != nil {
			return err
		}
		if _, err := s.Env.Kubectl(ctx, "-n", Namespace, "delete", "pod", pod, "--wait=false"); err != nil {
			return err
		}
		err = harness.Until(ctx, 3*time.Minute, 500*time.Millisecond, func(ctx context.Context) (bool, string, error) {
			err := s.onDevice(ctx, "Kernel")
			return err == nil, "", err
		})
		if err != nil {
			return err
		}
		s.Got.Set("device_fallback_seconds", time.Since(started).Round(time.Second).Seconds())
		if err := s.Env.WaitCondition(ctx, 3*time.Minute, Namespace, "rpcservices.bobtail.dev", Service, "Ready=True"); err != nil {
			return err
		}
		out, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "rpcsvc", Service, "-o", "jsonpath={.status.devices}")
		s.Steps.Say("     %s", out)
		if err == nil && !strings.Contains(out, "DefinitionMissing") {
			err = errors.New("the status does not say why the device was given up")
		}
		return errors.Join(err, s.after(ctx))
	})
}

// after: the service on Kernel serves, by the same name.
func (s *Suite) after(ctx context.Context) error {
	l := s.load("load-kernel", 12*time.Second)
	if err := s.Env.StartLoad(ctx, l); err != nil {
		return err
	}
	got, err := s.Env.FinishLoad(ctx, l)
	if err != nil {
		return err
	}
	return s.judge("after_fallback_rpcs_failed", got)
}

// leftovers on the node: interfaces on the bridge, notes of the plugin, and pinned eBPF
// objects but the two that a kernel puts into each bpffs itself. The empty bridge is CNI's:
// the plugin never removes it.
const leftovers = `grep -lE '"(` + definition + `|lines|claimed)"' /var/lib/cni/bobtail-networks/*.json 2>/dev/null
ip -o link show master data0 2>/dev/null
ip -o link show master lines0 2>/dev/null
ip -o link show master claimed0 2>/dev/null
find /sys/fs/bpf -mindepth 1 ! -name maps.debug ! -name progs.debug 2>/dev/null
true`

// remove: the service and the chart go, and nothing of the device stays.
func (s *Suite) remove(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "the service and the chart are removed", Cost: "60 s",
		Cause: "something is held by a pod that does not end: kubectl get pods -A"}, func(ctx context.Context) error {
		if err := s.clear(ctx); err != nil {
			return err
		}
		if _, err := s.Env.Kubectl(ctx, "delete", "namespace", Namespace, "--timeout=90s"); err != nil {
			return err
		}
		if err := s.Env.Uninstall(ctx); err != nil {
			return err
		}
		left := ""
		err := harness.Until(ctx, 30*time.Second, time.Second, func(ctx context.Context) (bool, string, error) {
			var err error
			left, err = s.Env.Cluster(ctx, "exec-node", node, "--", "sh", "-c", leftovers)
			held, failed := s.Env.HeldAddresses(ctx)
			left += held
			return left == "", "left over: " + left, errors.Join(err, failed)
		})
		s.Got.Set("devices_leftover", len(strings.Fields(left)))
		return err
	})
}

// describe shows what a user would look at.
func (s *Suite) describe(ctx context.Context) error {
	for _, args := range [][]string{{"describe", "rpcsvc"}, {"get", "pods", "-o", "wide"}, {"get", "events"}} {
		out, err := s.Env.Kubectl(ctx, append([]string{"-n", Namespace}, args...)...)
		if err != nil {
			return err
		}
		s.Steps.Say("\n$ kubectl -n %s %s\n%s", Namespace, strings.Join(args, " "), out)
	}
	var pods json.RawMessage
	return s.Env.Get(ctx, &pods, "-n", Namespace, "pods") // into the log
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
