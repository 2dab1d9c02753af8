// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
)

// cluster is what the API server tells; it keeps the last it heard when that is away.
type cluster struct {
	cache   client.Reader
	changed chan struct{}
	pool    crabplan.Pool
	family  corev1.IPFamily // of the agents among each other
}

// snapshot is all of it at one moment.
type snapshot struct {
	plan crabplan.Plan
	// nodes are the addresses of the nodes that have an agent, as agents use them
	// among each other.
	nodes map[string]netip.Addr
	// addresses are those of all nodes.
	addresses crabplan.Nodes
	// services are the UIDs of those of the plan.
	services map[types.NamespacedName]types.UID
	// node is this node's UID; empty when the cluster does not know it.
	uid string
}

func scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(s); err != nil {
		return nil, err
	}
	return s, v1alpha1.AddToScheme(s)
}

// watchCluster returns when the cache has been filled once.
func watchCluster(ctx context.Context, config *rest.Config, s *runtime.Scheme, o Options) (*cluster, error) {
	all, err := cache.New(config, cache.Options{Scheme: s, DefaultTransform: slim})
	if err != nil {
		return nil, fmt.Errorf("create the cache: %w", err)
	}
	c := &cluster{cache: all, changed: make(chan struct{}, 1), pool: o.Pool, family: crabplan.FamilyOf(o.NodeIP)}
	wake := func() {
		select {
		case c.changed <- struct{}{}:
		default:
		}
	}
	for _, o := range []client.Object{&corev1.Service{}, &discoveryv1.EndpointSlice{}, &corev1.Node{}, &v1alpha1.NodeDataplane{}} {
		informer, err := all.GetInformer(ctx, o, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watch %T: %w", o, err)
		}
		if _, err := informer.AddEventHandler(onChange(wake)); err != nil {
			return nil, fmt.Errorf("watch %T: %w", o, err)
		}
	}
	go func() { _ = all.Start(ctx) }()
	if !all.WaitForCacheSync(ctx) {
		return nil, ctx.Err()
	}
	return c, nil
}

// onChange wakes for what came, what went, and what has another version.
func onChange(wake func()) toolscache.ResourceEventHandlerFuncs {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { wake() }, DeleteFunc: func(any) { wake() },
		UpdateFunc: func(before, after any) {
			if version(before) != version(after) {
				wake()
			}
		},
	}
}

// version of an object, to leave out what did not change. Of a NodeDataplane only
// its being there matters: the agents' reports must not wake all agents.
func version(o any) string {
	switch o := o.(type) {
	case *v1alpha1.NodeDataplane:
		return string(o.UID)
	case *corev1.Node:
		return fmt.Sprint(o.UID, o.Status.Addresses)
	case client.Object:
		return o.GetResourceVersion()
	}
	return ""
}

// slim drops what nobody here looks at.
func slim(in any) (any, error) {
	switch o := in.(type) {
	case *corev1.Node:
		o.Status = corev1.NodeStatus{Addresses: o.Status.Addresses}
		o.Annotations, o.Labels, o.Spec = nil, nil, corev1.NodeSpec{}
	case *v1alpha1.NodeDataplane:
		o.Status = v1alpha1.NodeDataplaneStatus{}
	}
	return cache.TransformStripManagedFields()(in)
}

// look takes a snapshot from memory; the API server is not asked.
func (c *cluster) look(ctx context.Context, self string) (snapshot, error) {
	services, slices, nodes, agents := &corev1.ServiceList{}, &discoveryv1.EndpointSliceList{}, &corev1.NodeList{}, &v1alpha1.NodeDataplaneList{}
	for _, list := range []client.ObjectList{services, slices, nodes, agents} {
		if err := c.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return snapshot{}, fmt.Errorf("list %T: %w", list, err)
		}
	}
	s := snapshot{nodes: map[string]netip.Addr{}, services: map[types.NamespacedName]types.UID{}}
	s.plan = crabplan.Make(crabplan.Input{Services: services.Items, Slices: slices.Items, Nodes: nodes.Items, Pool: c.pool})
	for i := range services.Items {
		if crabplan.Concerns(&services.Items[i]) {
			s.services[crabplan.Name(&services.Items[i])] = services.Items[i].UID
		}
	}
	s.addresses = crabplan.NodeAddresses(nodes.Items)
	addresses := s.addresses.Of(c.family)
	for _, a := range agents.Items {
		if addr, there := addresses[a.Name]; there {
			s.nodes[a.Name] = addr
		}
	}
	for _, n := range nodes.Items {
		if n.Name == self {
			s.uid = string(n.UID)
		}
	}
	return s, nil
}
