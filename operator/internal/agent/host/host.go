// SPDX-License-Identifier: Apache-2.0

// Package host is `agent host`: it writes into the node's NodeDataplane what the node has
// for services on devices of their own. It needs no CRAB beside it, and touches nothing of
// one that is there: each is its own manager of its own fields.
package host

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/hostfacts"
	"github.com/bobtail-dev/bobtail/operator/internal/hostfacts/kubelet"
)

// ErrUsage marks a wrong command line.
var ErrUsage = errors.New("wrong usage")

const (
	fieldOwner = client.FieldOwner("bobtail-host")
	// writeTimeout is for one write: an API server may be away.
	writeTimeout = 10 * time.Second
	leastEvery   = time.Second
)

// Options are the command line.
type Options struct {
	Node     string
	Root     string        // of the file system that is read
	Kubelet  string        // its pod-resources socket; empty: it is not asked
	Every    time.Duration // how often all is read
	LogLevel slog.Level
}

// ParseOptions reads the command line of `agent host`.
func ParseOptions(args []string) (Options, error) {
	var o Options
	f := flag.NewFlagSet("agent host", flag.ContinueOnError)
	f.StringVar(&o.Node, "node", os.Getenv("NODE_NAME"), "name of this node (default $NODE_NAME)")
	f.StringVar(&o.Root, "root", "/", "folder with the sys and proc of this node")
	f.StringVar(&o.Kubelet, "kubelet", "", "the kubelet's pod-resources socket; empty: it is not asked which pod has which function")
	f.DurationVar(&o.Every, "every", 30*time.Second, "how often all is read again; what did not change is not written")
	f.TextVar(&o.LogLevel, "log-level", slog.LevelInfo, "`debug|info|warn|error`: the least that is written")
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return o, err
	} else if err != nil {
		return o, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("%w: unexpected argument %q", ErrUsage, f.Arg(0))
	case o.Node == "":
		return o, fmt.Errorf("%w: --node must not be empty: give the node's name, or set NODE_NAME", ErrUsage)
	case o.Every < leastEvery:
		return o, fmt.Errorf("%w: --every=%s must be at least %s", ErrUsage, o.Every, leastEvery)
	}
	return o, nil
}

// Run writes until ctx ends.
func Run(ctx context.Context, config *rest.Config, o Options) error {
	s := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
		return err
	}
	c, err := client.New(config, client.Options{Scheme: s})
	if err != nil {
		return err
	}
	sources := hostfacts.Sources{Root: o.Root, Links: hostfacts.Links, XDP: hostfacts.XDP}
	if o.Kubelet != "" {
		sources.Kubelet = kubelet.Ask(o.Kubelet)
	}
	w := &writer{client: c, node: o.Node}
	tick := time.NewTicker(o.Every)
	defer tick.Stop()
	for {
		w.tell(ctx, hostfacts.Read(sources))
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// writer keeps what stands in the NodeDataplane.
type writer struct {
	client  client.Client
	node    string
	written *v1alpha1.NodeHost
}

// tell writes what changed. An API server that is away is asked again the next time.
func (w *writer) tell(ctx context.Context, h *v1alpha1.NodeHost) {
	if reflect.DeepEqual(h, w.written) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := w.write(ctx, h); err != nil {
		if ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
			slog.Error("what this node has is not written", "error", err)
		}
		return
	}
	w.written = h
}

func (w *writer) write(ctx context.Context, h *v1alpha1.NodeHost) error {
	node := &corev1.Node{}
	if err := w.client.Get(ctx, client.ObjectKey{Name: w.node}, node); err != nil {
		return fmt.Errorf("read Node %s: %w", w.node, err)
	}
	n := &v1alpha1.NodeDataplane{ObjectMeta: metav1.ObjectMeta{Name: w.node, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Node", Name: w.node, UID: node.UID}, // it goes away with its Node
	}}}
	n.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("NodeDataplane"))
	if err := w.apply(ctx, n, nil); err != nil {
		return err
	}
	return w.apply(ctx, n, h)
}

// apply the object, or with h this part of its status and no other.
func (w *writer) apply(ctx context.Context, n *v1alpha1.NodeDataplane, h *v1alpha1.NodeHost) error {
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(n)
	if err != nil {
		return err
	}
	delete(raw, "status") // fields that are not ours have no zero value of ours
	u := &unstructured.Unstructured{Object: raw}
	if h == nil {
		err = w.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), fieldOwner, client.ForceOwnership)
	} else {
		facts, failed := runtime.DefaultUnstructuredConverter.ToUnstructured(h)
		if failed != nil {
			return failed
		}
		raw["status"] = map[string]any{"host": facts}
		err = w.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), fieldOwner, client.ForceOwnership)
	}
	if err != nil {
		return fmt.Errorf("apply NodeDataplane %s: %w", n.Name, err)
	}
	return nil
}
