// SPDX-License-Identifier: Apache-2.0

// Package groups proves on a cluster of three nodes that a ReplicationGroup keeps its data and answers: pods deleted, a
// node drained, a disk lost, a rolling update, a change of scale, no operator, and a clean end. Clients write and read
// throughout, and Porcupine judges what they saw.
package groups

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

const (
	// Namespace is where the group of examples/replicationgroup.yaml lives here.
	Namespace = "bobtail-groups"
	// Group is its name.
	Group = "orders"

	image = "localhost/bobtail-test/grouppeer:e2e"
	// clients of a load: more of them at once make histories that nobody can judge in time. And what they write at least.
	clients     = 8
	leastWrites = 10000
	someWrites  = 1500
	// settles is how long the group may take to be whole again.
	settles = 3 * time.Minute
)

// Suite is one run.
type Suite struct {
	Env   *harness.Env
	Steps *harness.Steps
	Got   *harness.Measurements
	// Only names the parts to play; empty: all.
	Only []string

	volumes *harness.Volumes
	total   verdict
	plays   target
}

// target is the group that is played, the pod with its clients, and what they speak: an order of grouppeer.
type target struct{ group, clients, speaks string }

// first is the group of the example.
var first = target{group: Group, clients: "clients", speaks: builtIn}

const builtIn = "serve"

// counts are what clients have got so far; verdict is what they say at the end. Both as grouppeer prints them.
type counts struct {
	Writes, Reads, FailedWrites, FailedReads, SlowestWriteMilliseconds, PauseMilliseconds int64
	Says                                                                                  []string
}

type verdict struct {
	counts
	Checked, Bad, Lost, Executed int
	Verdict                      []string
}

func (s *Suite) parts() []harness.Part {
	return []harness.Part{
		{Name: "killed", Play: s.killed},
		{Name: "drained", Play: s.drained},
		{Name: "disk", Play: s.diskLost},
		{Name: "update", Play: s.update},
		{Name: "scale", Play: s.scale},
		{Name: "nine", Play: s.nine},
		{Name: "absent", Play: s.absent},
		{Name: "apart", Play: s.apart},
		{Name: "restored", Play: s.restored},
		{Name: "redis", Play: s.redis},
	}
}

// Judge refuses parts that there are not.
func (s *Suite) Judge() error {
	_, err := harness.Choose(s.parts(), s.Only)
	return err
}

// Run plays all of it on a running cluster.
func (s *Suite) Run(ctx context.Context) (failed error) {
	s.plays = first
	parts, err := harness.Choose(s.parts(), s.Only)
	if err != nil {
		return err
	}
	if s.volumes, err = s.Env.StartVolumes(ctx); err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, s.volumes.Close(context.WithoutCancel(ctx))) }()
	if err := s.prepare(ctx); err != nil {
		return errors.Join(err, s.describe(ctx))
	}
	for _, p := range parts {
		if err := p.Play(ctx); err != nil {
			failed = errors.Join(failed, err, s.describe(ctx))
			break // what follows would tell of this again
		}
	}
	s.Got.Set("histories_checked", s.total.Checked)
	s.Got.Set("histories_not_linearizable", s.total.Bad)
	s.Got.Set("acked_writes_lost", s.total.Lost)
	s.Got.Set("executed_wrongly", s.total.Executed)
	s.Got.Set("operations", s.total.Writes+s.total.Reads)
	return errors.Join(failed, s.end(ctx))
}

func (s *Suite) prepare(ctx context.Context) error {
	for _, one := range []struct {
		harness.Step
		do func(context.Context) error
	}{
		{harness.Step{Name: "import the images into all nodes", Cost: "15 s", Cause: "`make images` did not finish"}, s.images},
		{harness.Step{Name: "helm upgrade --install bobtail charts/bobtail", Cost: "20 s",
			Cause: "the operator does not become ready: kubectl -n " + harness.SystemNamespace + " get pods,events"},
			func(ctx context.Context) error { return s.Env.Install(ctx) }},
		{harness.Step{Name: "kubectl apply -f examples/replicationgroup.yaml", Cost: "20 s",
			Cause: "members do not start: kubectl -n " + Namespace + " describe pods"}, s.apply},
	} {
		if err := s.Steps.Do(ctx, one.Step, one.do); err != nil {
			return err
		}
	}
	return nil
}

func (s *Suite) images(ctx context.Context) error {
	return LoadImages(ctx, s.Env, "operator", "sidecar", "replica")
}

// apply: the example as it stands, but for its namespace and for processors, of which this machine has few.
func (s *Suite) apply(ctx context.Context) error {
	example, err := os.ReadFile(filepath.Join(s.Env.Root, "examples", "replicationgroup.yaml"))
	if err != nil {
		return err
	}
	text := strings.NewReplacer("namespace: default", "namespace: "+Namespace, "cpu: 250m", "cpu: 20m").Replace(string(example))
	for _, m := range []string{"apiVersion: v1\nkind: Namespace\nmetadata: {name: " + Namespace + "}\n", text, peerPod("clients", Group, builtIn)} {
		if err := s.Env.Apply(ctx, m); err != nil {
			return err
		}
	}
	started := time.Now()
	if err := s.ready(ctx, 2*time.Minute); err != nil {
		return err
	}
	s.Got.Set("group_ready_seconds", time.Since(started).Round(time.Second).Seconds())
	if _, err := s.Env.Kubectl(ctx, "-n", Namespace, "wait", "--for=condition=Ready", "pod/clients", "--timeout=60s"); err != nil {
		return err
	}
	return s.show(ctx)
}

// peerPod is the clients of a group.
func peerPod(name, group, speaks string) string {
	return Clients{Namespace: Namespace, Pod: name, Speaks: speaks}.Manifest(group)
}

// show prints what a user would look at.
func (s *Suite) show(ctx context.Context) error {
	out, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "rg")
	s.Steps.Say("\n$ kubectl get rg\n%s", out)
	return err
}

func (s *Suite) ready(ctx context.Context, limit time.Duration) error {
	return s.Env.WaitCondition(ctx, limit, Namespace, "replicationgroups.bobtail.dev", s.plays.group, "Ready=True")
}

// group is what is read of the object besides its conditions.
type group struct {
	Status struct {
		Leader        string
		VotersInForce int
		HealthyVoters int
		Boxes         []string
		Aggregator    string
		Members       []struct {
			Number int
			Name   string
			Pod    string
		}
	}
}

func (s *Suite) read(ctx context.Context) (g group, err error) {
	return g, s.Env.Get(ctx, &g, "-n", Namespace, "replicationgroups.bobtail.dev", s.plays.group)
}

func (s *Suite) order(ctx context.Context, into any, args ...string) error {
	return Clients{Env: s.Env, Namespace: Namespace, Pod: s.plays.clients}.Order(ctx, into, args...)
}

// under plays something while clients write, and at least until they have written that often after it, and judges what
// they saw.
func (s *Suite) under(ctx context.Context, name string, least int64, what func(context.Context) error) (verdict, error) {
	var v verdict
	var begun string
	if err := s.order(ctx, &begun, "begin", name, fmt.Sprint(clients)); err != nil {
		return v, err
	}
	err := s.written(ctx, 200)
	if err == nil {
		err = what(ctx)
	}
	if err == nil {
		err = s.written(ctx, least)
	}
	if ended := s.order(ctx, &v, "end"); ended != nil {
		return v, errors.Join(err, ended)
	}
	s.total.Checked, s.total.Bad, s.total.Lost, s.total.Executed = s.total.Checked+v.Checked, s.total.Bad+v.Bad, s.total.Lost+v.Lost, s.total.Executed+v.Executed
	s.total.Writes, s.total.Reads = s.total.Writes+v.Writes, s.total.Reads+v.Reads
	s.Steps.Say("     %d writes, %d not answered within 10 s, the slowest took %d ms; %d reads; %d histories, %d not linearizable, %d acknowledged writes lost",
		v.Writes, v.FailedWrites, v.SlowestWriteMilliseconds, v.Reads, v.Checked, v.Bad, v.Lost)
	if wrong := append(v.Says, v.Verdict...); len(wrong) > 0 {
		s.Steps.Say("     %s", strings.Join(wrong, "\n     "))
	}
	if v.Bad+v.Lost+v.Executed > 0 {
		err = errors.Join(err, fmt.Errorf("%d histories are not linearizable, %d acknowledged writes are lost, %d were executed wrongly", v.Bad, v.Lost, v.Executed))
	}
	return v, errors.Join(err, s.show(ctx))
}

// written waits until clients have written that often.
func (s *Suite) written(ctx context.Context, least int64) error {
	return harness.Until(ctx, 4*time.Minute, time.Second, func(ctx context.Context) (bool, string, error) {
		var c counts
		err := s.order(ctx, &c, "state")
		return c.Writes-c.FailedWrites >= least, fmt.Sprintf("%d of %d writes", c.Writes-c.FailedWrites, least), err
	})
}

// uids of the members' pods, by name.
func (s *Suite) uids(ctx context.Context) (map[string]string, error) {
	var list struct {
		Items []struct {
			Metadata struct{ Name, UID, DeletionTimestamp string }
			Spec     struct{ NodeName string }
		}
	}
	err := s.Env.Get(ctx, &list, "-n", Namespace, "pods", "-l", "bobtail.dev/component=member,bobtail.dev/service="+s.plays.group)
	out := map[string]string{}
	for _, p := range list.Items {
		out[p.Metadata.Name] = p.Metadata.UID
	}
	return out, err
}

// followers are the members' pods but the leader's, in order.
func followers(g group) (out []string) {
	for _, m := range g.Status.Members {
		if m.Pod != g.Status.Leader && !slices.Contains(out, m.Pod) {
			out = append(out, m.Pod)
		}
	}
	slices.Sort(out)
	return out
}

// describe shows what a user would look at when something is wrong, and keeps the members' logs.
func (s *Suite) describe(ctx context.Context) error {
	for _, args := range [][]string{{"describe", "rg", s.plays.group}, {"get", "pods,pvc,pdb", "-o", "wide"}, {"get", "events", "--sort-by=.lastTimestamp"}} {
		out, err := s.Env.Kubectl(ctx, append([]string{"-n", Namespace}, args...)...)
		if err != nil {
			return err
		}
		s.Steps.Say("\n$ kubectl -n %s %s\n%s", Namespace, strings.Join(args, " "), out)
	}
	for _, component := range []string{"member", "box", "aggregator"} {
		_, _ = s.Env.Kubectl(ctx, "-n", Namespace, "logs", "-l", "bobtail.dev/component="+component, "--all-containers", "--prefix", "--tail=60") // into the log
	}
	_, _ = s.Env.Kubectl(ctx, "-n", harness.SystemNamespace, "logs", "deployment/bobtail-operator", "--tail=100")
	return nil
}
