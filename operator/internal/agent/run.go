// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/balancers"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/devices"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/keeper"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/ownership"
	"github.com/bobtail-dev/bobtail/operator/internal/agent/waits"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect/desired"
)

func unstructuredOf(raw map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: raw}
}

// Run is the agent until ctx ends. What it made stays at work.
func Run(ctx context.Context, config *rest.Config, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := scheme()
	if err != nil {
		return err
	}
	c, err := client.New(config, client.Options{Scheme: s})
	if err != nil {
		return err
	}
	recorder, stopEvents, err := recorderOf(config, s)
	if err != nil {
		return err
	}
	defer stopEvents()
	a := &agent{options: o, prober: newProber(o.NodeIP, o.Wire)}
	a.report = newReporter(o.Node, c, recorder, func() (map[string]uint64, error) { return a.plane.Counters() })
	a.report.fellBack = func() ([]redirect.FellBack, error) { return a.plane.FellBack() }
	if err := a.open(); err != nil {
		return errors.Join(err, a.tellWhy(ctx, c, recorder, err))
	}
	defer a.plane.Close()
	keys, err := heartbeatKeys(ctx, c, o.Namespace)
	if err != nil {
		return err
	}
	if a.cluster, err = watchCluster(ctx, config, s, o); err != nil {
		return err
	}
	seen, err := a.cluster.look(ctx, o.Node)
	if err != nil {
		return err
	}
	// Before this node listens for heartbeats, so that all who own something are heard.
	if err := a.report.exist(ctx, seen.uid); err != nil {
		return err
	}
	if err := a.assemble(keys); err != nil {
		return err
	}
	a.keeper.SetPeers(a.peers(seen))
	return a.work(ctx, cancel)
}

// assemble makes the parts that share the kernel's state.
func (a *agent) assemble(keys [][]byte) error {
	o := a.options
	inherited, err := a.inherit()
	if err != nil {
		return err
	}
	a.loads = a.newReporter()
	a.teller = balancers.New(balancers.Options{Addresses: o.Balancers, KeyDir: o.BalancerKeyDir, Connections: a.plane.Connections})
	a.keeper, err = keeper.New(keeper.Options{
		Loads:    a.loads.Hear,
		Balanced: inherited, Name: o.Node, Uplink: a.uplink.Index, Keys: keys, Listen: netip.AddrPortFrom(o.NodeIP, o.Heartbeat),
		Event: func(c ownership.Change) {
			slog.Info("ownership", "vip", c.VIP.String(), "action", [...]string{"take", "yield", "renew"}[c.Action], "why", c.Why)
		},
	})
	if err != nil {
		return err
	}
	a.keys = newKeyring(o.KeyDir, a.keeper.SetKeys)
	return nil
}

// open finds the uplink and the kernel's state.
func (a *agent) open() error {
	var err error
	if a.uplink, err = devices.Uplink(a.options.Uplink); err != nil {
		return err
	}
	if a.plane, err = redirect.Open(redirect.Options{Root: a.options.Root, Wire: a.options.Wire}); err != nil {
		return err
	}
	a.applier = desired.New(a.plane)
	a.waits, err = waits.New(a.options.Node, counts{a.plane, &a.evicted})
	return err
}

// inherit finds what a former process balanced here: it goes on while the agents
// find out who owns what.
func (a *agent) inherit() ([]netip.Addr, error) {
	vips, err := a.plane.VIPs()
	if err != nil {
		return nil, err
	}
	a.prober.inherit(vips)
	return redirect.Balanced(vips), nil
}

// work runs all parts until the first one ends, and waits for the others.
func (a *agent) work(ctx context.Context, cancel func()) error {
	var parts sync.WaitGroup
	parts.Go(func() { a.keeper.Run(ctx) })
	parts.Go(func() { a.prober.run(ctx) })
	parts.Go(func() { a.report.run(ctx) })
	parts.Go(func() { a.loads.Run(ctx) })
	parts.Go(func() { a.teller.Run(ctx) })
	parts.Go(func() { a.keys.run(ctx) })
	parts.Go(func() { a.waits.Run(ctx) })
	err := errors.Join(a.serve(ctx), a.serveConnects(ctx))
	if err == nil {
		slog.Info("at work", "node", a.options.Node, "uplink", a.uplink.Name, "version", a.options.Version)
		err = a.loop(ctx)
	}
	others := len(a.keeper.Alive()) > 0
	cancel()
	parts.Wait()
	if others {
		err = errors.Join(err, a.giveUp())
	}
	return err
}

// giveUp leaves the VIPs to the others, one of which owns them now: clients of
// this node must find it, and the VIPs stay reachable from here.
func (a *agent) giveUp() error {
	seen, err := a.cluster.look(context.Background(), a.options.Node)
	if err != nil {
		return nil // what cannot be told apart stays
	}
	return devices.Reach(a.uplink.Index, a.reachable(seen.plan), nil)
}

// tellWhy writes into the NodeDataplane why the agent cannot start.
func (a *agent) tellWhy(ctx context.Context, c client.Client, recorder events.EventRecorder, why error) error {
	reason := v1alpha1.ReasonPrerequisiteMissing
	var layout *redirect.LayoutError
	if errors.As(why, &layout) {
		reason = v1alpha1.ReasonLayoutMismatch
	}
	r := newReporter(a.options.Node, c, recorder, func() (map[string]uint64, error) { return nil, nil })
	st := v1alpha1.NodeDataplaneStatus{AgentVersion: a.options.Version}
	for _, kind := range []string{v1alpha1.ConditionProgrammed, v1alpha1.ConditionReady} {
		st.Conditions = append(st.Conditions, condition(kind, metav1.ConditionFalse, reason, why.Error()))
	}
	return r.write(ctx, observed{status: st})
}

func recorderOf(config *rest.Config, s *runtime.Scheme) (events.EventRecorder, func(), error) {
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	b := events.NewBroadcaster(&events.EventSinkImpl{Interface: set.EventsV1()})
	if err := b.StartRecordingToSinkWithContext(context.Background()); err != nil {
		return nil, nil, err
	}
	return b.NewRecorder(s, "bobtail-agent"), func() {
		time.Sleep(100 * time.Millisecond) // for what was said last
		b.Shutdown()
	}, nil
}

// Remove is `agent remove`: it takes everything away that an agent made on this
// node; redirected connections are reset.
func Remove(args []string) error {
	f := flag.NewFlagSet("agent remove", flag.ContinueOnError)
	root := f.String("root", defaultRoot, "folder on a bpffs that holds the state")
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return err
	} else if err != nil {
		return fmt.Errorf("%w: %w", ErrUsage, err)
	}
	if err := errors.Join(devices.Forget(), redirect.Remove(*root)); err != nil {
		return fmt.Errorf("remove CRAB from this node: %w", err)
	}
	return nil
}

// sinceStart is a clock that is never set.
func sinceStart() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}
