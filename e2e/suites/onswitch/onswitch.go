// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package onswitch plays a service that a switch places (W-20 to W-25) on a cluster of two
// nodes: from the manifests to traffic, through outages of the operator and of the switch,
// and away without a trace. The switch is the checker of P4 programs behind a P4Runtime
// server (e2e/switchpeer), on wires of the cluster's nodes: a test tool, and no switch.
package onswitch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// Names of the story.
const (
	Namespace = "bobtail-switch"
	Service   = "echo"
	leaf      = "leaf-1"
)

// The load: eight workers of 4 ms carry 2,000 requests a second, and the checker some thousand.
const (
	rate      = 160
	leastRPCs = 10_000
	sockets   = 8
)

// Suite is one run.
type Suite struct {
	Env   *harness.Env
	Steps *harness.Steps
	Got   *harness.Measurements
	// Only names the parts to play after the switch is up; all when empty.
	Only []string

	bed *bed
}

// part is one of them.
type part struct {
	name string
	play func(*Suite, context.Context) error
	// alone: it has a switch of its own, and needs no service on the first one.
	alone bool
}

// parts in their order: each leaves the service on the switch, but for the last.
var parts = []part{
	{"in", (*Suite).over, false},
	{"drift", (*Suite).drift, false},
	{"operator", (*Suite).operatorDown, false},
	{"kill", (*Suite).switchKilled, false},
	{"slo", (*Suite).objective, false},
	{"slog", (*Suite).generated, true},
	{"crab", (*Suite).redirected, true},
	{"aggregator", (*Suite).aggregated, true},
	{"box", (*Suite).boxed, true},
	{"leader", (*Suite).oldLeader, false},
	{"many", (*Suite).many, false},
	{"out", (*Suite).back, false},
}

// Judge refuses parts that there are not.
func (s *Suite) Judge() error {
	for _, name := range s.Only {
		if !slices.ContainsFunc(parts, func(p part) bool { return p.name == name }) {
			return fmt.Errorf("--only names %q, which is no part", name)
		}
	}
	return nil
}

// Run plays all of it on a running cluster.
func (s *Suite) Run(ctx context.Context) error {
	if err := s.Env.Prepare(ctx, s.Steps, Namespace, Service, wayToSwitches...); err != nil {
		return err
	}
	err := s.switchUp(ctx)
	if err == nil {
		err = s.software(ctx)
	}
	if err == nil {
		err = s.play(ctx)
	} else {
		err = errors.Join(err, s.describe(ctx))
	}
	if s.bed != nil {
		err = errors.Join(err, s.bed.close(ctx))
	}
	return err
}

// apart: none of the parts that are asked for needs the service on the first switch.
func (s *Suite) apart() bool {
	return !slices.ContainsFunc(parts, func(p part) bool { return slices.Contains(s.Only, p.name) && !p.alone })
}

// play has one part after the other; one that fails does not stop those that do not need it.
func (s *Suite) play(ctx context.Context) error {
	var failed error
	for n, p := range parts {
		if len(s.Only) > 0 && !slices.Contains(s.Only, p.name) && (n > 0 || s.apart()) {
			continue
		}
		err := p.play(s, ctx)
		if err != nil {
			err = errors.Join(err, s.describe(ctx))
		}
		failed = errors.Join(failed, err)
		if n == 0 && err != nil || ctx.Err() != nil {
			return failed
		}
	}
	return errors.Join(failed, s.remove(ctx))
}

// wayToSwitches are the chart's values that let the operator out to all of them.
var wayToSwitches = []string{"--set-json", `networkPolicy.switches=[{"cidr":"10.99.0.1/32","port":9559},{"cidr":"10.99.0.1/32","port":9560},{"cidr":"10.99.0.1/32","port":9561},{"cidr":"10.99.0.1/32","port":9562},{"cidr":"10.99.0.1/32","port":9563}]`}

const switchManifest = `apiVersion: bobtail.dev/v1alpha1
kind: ProgrammableSwitch
metadata:
  name: %[1]s
spec:
  endpoint: %[2]s
  deviceID: %[3]d
  transport: Plaintext
  pipeline:
    p4Info: {configMapName: %[9]s-p4info, key: p4info.txtpb, sha256: %[4]s}
    deviceConfig:
      - {configMapName: %[9]s-bin-0, key: part, sha256: %[5]s}
  ports: [%[6]s]
  nextHops:
%[7]s  addressPool: [%[8]s]
  macAddress: "%[10]s"
`

func digestOf(file string) (string, error) {
	text, err := os.ReadFile(file)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

// manifest of the switch, with its program as it lies in a folder.
func (s site) manifest(folder string) (string, error) {
	info, e1 := digestOf(s.p4InfoOf(folder))
	binary, e2 := digestOf(s.binaryOf(folder))
	var ports []string
	hops := ""
	for n := range nodes {
		ports = append(ports, fmt.Sprint(portOf(n)))
		hops += fmt.Sprintf("    - {macAddress: %q, port: %d, networks: [%s]}\n", s.macOf(n), portOf(n), podsOf(n))
	}
	return fmt.Sprintf(switchManifest, s.name, s.endpoint, device, info, binary, strings.Join(ports, ", "), hops, s.pool, s.program, ownMAC), errors.Join(e1, e2)
}

// switchUp: wires, a program in ConfigMaps, and the ProgrammableSwitch, until it is Ready.
func (s *Suite) switchUp(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "a switch on a wire of each node: kubectl apply -f " + leaf + ".yaml until it is Ready", Cost: "10 s",
		Cause: "the operator does not reach " + router.endpoint + ", or the switch refuses the program: kubectl describe psw " + leaf}, func(ctx context.Context) error {
		if _, err := s.Env.Kubectl(ctx, "delete", "psw", "--all", "--ignore-not-found", "--timeout=60s"); err != nil {
			return err
		}
		var err error
		if s.bed, err = newBed(ctx, s.Env, router); err != nil {
			return err
		}
		var begun time.Time
		if begun, err = s.apply(ctx, router); err != nil {
			return err
		}
		s.Got.SetFinite("switch_apply_to_ready_seconds", time.Since(begun).Seconds())
		return s.show(ctx, "get", "psw")
	})
}

// apply puts a program into ConfigMaps and has a switch run it, until it is Ready. It says when the switch was asked for.
func (s *Suite) apply(ctx context.Context, at site) (begun time.Time, err error) {
	folder := filepath.Join(s.Env.Root, "build", "switch")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return begun, fmt.Errorf("make a folder for the program: %w", err)
	}
	if err := at.compile(s.Env.Root, folder); err != nil {
		return begun, err
	}
	for name, file := range map[string]string{at.program + "-p4info": "p4info.txtpb=" + at.p4InfoOf(folder), at.program + "-bin-0": "part=" + at.binaryOf(folder)} {
		if _, err := s.Env.Kubectl(ctx, "-n", harness.SystemNamespace, "delete", "configmap", name, "--ignore-not-found"); err != nil {
			return begun, err
		}
		if _, err := s.Env.Kubectl(ctx, "-n", harness.SystemNamespace, "create", "configmap", name, "--from-file="+file); err != nil {
			return begun, err
		}
	}
	text, err := at.manifest(folder)
	if err != nil {
		return begun, fmt.Errorf("read the program: %w", err)
	}
	begun = time.Now()
	if err := s.Env.Apply(ctx, text); err != nil {
		return begun, err
	}
	return begun, s.Env.WaitCondition(ctx, time.Minute, "default", "psw", at.name, "Ready=True")
}

const serviceManifest = `apiVersion: bobtail.dev/v1alpha1
kind: RpcService
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  replicas: %[3]d
  workersPerReplica: %[4]d
  server:
    image: localhost/bobtail/serve:%[5]s
    args: [--service-time=fixed:%[6]s, --occupy=sleep]
    resources: {requests: {cpu: 10m, memory: 16Mi}}
  router:
    replicas: 2
    policy: JBSQ
    workerQueueDepth: 3
    centralQueueLimit: 4096
    maxQueueMilliseconds: 1000
    resources: {requests: {cpu: 10m, memory: 16Mi}}
`

// manifest of a service in software: so many pods, so many workers in each, and for how long
// one of them sleeps for a request.
func (s *Suite) manifest(name string, pods, workers int, sleeps string) string {
	return fmt.Sprintf(serviceManifest, name, Namespace, pods, workers, s.Env.Version, sleeps)
}

// software: the service as it was before there was a switch.
func (s *Suite) software(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "a service in software: kubectl apply -f " + Service + ".yaml until it is Ready", Cost: "20 s",
		Cause: "pods do not start: kubectl -n " + Namespace + " get pods,events"}, func(ctx context.Context) error {
		if err := s.Env.Apply(ctx, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+Namespace+"}\n"); err != nil {
			return err
		}
		if err := s.Env.Apply(ctx, s.manifest(Service, 2, 4, "4ms")); err != nil {
			return err
		}
		return s.Env.WaitCondition(ctx, 2*time.Minute, Namespace, "rpcsvc", Service, "Ready=True")
	})
}

// onSwitch is the patch that gives a service to the switch, at an address of its own.
func onSwitch(address string) string {
	return fmt.Sprintf(`{"spec":{"router":{"placement":"Switch","switch":{"name":%q,"address":%q,"feedback":"BySource"}}}}`, leaf, address)
}

const inSoftware = `{"spec":{"router":{"placement":"Software","switch":null}}}`

func (s *Suite) patch(ctx context.Context, service, patch string) error {
	_, err := s.Env.Kubectl(ctx, "-n", Namespace, "patch", "rpcsvc", service, "--type=merge", "-p", patch)
	return err
}

// published are the addresses that clients of a service are given.
func (s *Suite) published(ctx context.Context, service string) ([]string, error) {
	out, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "endpointslices", "-l", "kubernetes.io/service-name="+service,
		"-o", "jsonpath={.items[*].endpoints[*].addresses[*]}")
	return strings.Fields(out), err
}

// given waits until clients are given what is wanted.
func (s *Suite) given(ctx context.Context, limit time.Duration, service string, want func([]string) bool) error {
	return harness.Until(ctx, limit, 100*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		all, err := s.published(ctx, service)
		return want(all), fmt.Sprintf("clients of %s are given %v", service, all), err
	})
}

func bySwitch(all []string) bool  { return len(all) == 1 && isFront(all[0]) }
func byRouters(all []string) bool { return len(all) == 2 && !slices.ContainsFunc(all, isFront) }

func (s *Suite) load(name string) harness.Load {
	return harness.Load{Namespace: Namespace, Name: name, Target: Service + "." + Namespace + ".svc.cluster.local:8000",
		Rate: rate, Duration: 5 * time.Minute, Warmup: 2 * time.Second, Timeout: 10 * time.Second, Sockets: sockets}
}

// enough is how long a load must last to send leastRPCs.
const enough = leastRPCs*time.Second/rate + 3*time.Second

// underLoad plays something while requests are sent, at least leastRPCs of them, and says
// what became of them and how many of them the switch placed.
func (s *Suite) underLoad(ctx context.Context, l harness.Load, play func(context.Context) error) (harness.LoadResult, error) {
	if err := s.Env.StartLoad(ctx, l); err != nil {
		return harness.LoadResult{}, err
	}
	begun := time.Now()
	err := sleep(ctx, l.Warmup+time.Second)
	if err == nil {
		err = play(ctx)
	}
	if rest := enough + l.Warmup - time.Since(begun); err == nil && rest > 0 {
		err = sleep(ctx, rest)
	}
	if ended := s.Env.EndLoad(ctx, l); err != nil || ended != nil {
		return harness.LoadResult{}, errors.Join(err, ended)
	}
	got, err := s.Env.FinishLoad(ctx, l)
	if err != nil {
		return got, err
	}
	s.Steps.Say("     %d RPCs, %d failed (%s), p50 %.0f us, p99 %.0f us; switch: %s", got.Sent, got.Failed(), got.Failures(),
		got.Percentile("50"), got.Percentile("99"), s.bed.tally("route"))
	if got.Sent < leastRPCs {
		return got, fmt.Errorf("%d RPCs were sent, want at least %d", got.Sent, leastRPCs)
	}
	return got, nil
}

// judge records what failed.
func (s *Suite) judge(figure string, got harness.LoadResult) error {
	s.Got.Set(figure, got.Failed())
	if got.Failed() > 0 {
		return fmt.Errorf("%d of %d RPCs failed: %s", got.Failed(), got.Sent, got.Failures())
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// show prints what a user would see.
func (s *Suite) show(ctx context.Context, args ...string) error {
	out, err := s.Env.Kubectl(ctx, args...)
	s.Steps.Say("\n$ kubectl %s\n%s", strings.Join(args, " "), out)
	return err
}

// describe shows what a user would look at when something fails.
func (s *Suite) describe(ctx context.Context) error {
	if s.bed != nil {
		s.Steps.Say("switch: %s, %d entries, %+v", s.bed.tally("route"), s.bed.held(), s.bed.counts())
	}
	var err error
	for _, args := range [][]string{
		{"describe", "psw"}, {"-n", Namespace, "describe", "rpcsvc", Service}, {"-n", Namespace, "get", "pods", "-o", "wide"}, {"-n", Namespace, "get", "events"},
		{"-n", harness.SystemNamespace, "get", "pods"},
		{"-n", harness.SystemNamespace, "logs", "-l", "app.kubernetes.io/name=bobtail", "--prefix", "--tail=40"},
	} {
		err = errors.Join(err, s.show(ctx, args...))
	}
	return err
}
