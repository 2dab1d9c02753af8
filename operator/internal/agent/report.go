// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

const (
	// writeEvery bounds how often the status is written.
	writeEvery = time.Second
	// refreshEvery is how old counters may become when nothing else changes.
	refreshEvery = time.Minute
	// writeTimeout is for one write: an API server may be away.
	writeTimeout = 5 * time.Second
	fieldOwner   = client.FieldOwner("bobtail-agent")
)

// reporter writes the node's NodeDataplane. It has a goroutine of its own: an API
// server that does not answer holds up nothing else.
type reporter struct {
	node     string
	client   client.Client
	events   events.EventRecorder
	counters func() (map[string]uint64, error)
	fellBack func() ([]redirect.FellBack, error) // nil: nobody knows
	next     chan observed

	written    observed
	conditions []metav1.Condition // with their times
	at         time.Time
	fallBacks  fallBacks
	fallen     fallen
}

func newReporter(node string, c client.Client, e events.EventRecorder, counters func() (map[string]uint64, error)) *reporter {
	return &reporter{node: node, client: c, events: e, counters: counters, next: make(chan observed, 1)}
}

// tell replaces what is to be written.
func (r *reporter) tell(o observed) {
	select {
	case <-r.next:
	default:
	}
	r.next <- o
}

// run writes until ctx ends.
func (r *reporter) run(ctx context.Context) {
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	var latest *observed
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-r.next:
			latest = &o
		case <-tick.C:
			if latest == nil || time.Since(r.at) < writeEvery || reflect.DeepEqual(*latest, r.written) && time.Since(r.at) < refreshEvery {
				continue
			}
			if err := r.write(ctx, *latest); err != nil && ctx.Err() == nil {
				slog.Error("the NodeDataplane is not written", "error", err)
			}
		}
	}
}

// exist makes the NodeDataplane: by it the other agents know where to send
// heartbeats.
func (r *reporter) exist(ctx context.Context, uid string) error {
	object := r.object(observed{uid: uid})
	object.Status = v1alpha1.NodeDataplaneStatus{}
	return r.patch(ctx, object, false)
}

func (r *reporter) write(ctx context.Context, o observed) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	r.at = time.Now()
	object := r.object(o)
	owned := object.DeepCopy()
	owned.Status = v1alpha1.NodeDataplaneStatus{}
	if err := r.patch(ctx, owned, false); err != nil {
		return err
	}
	object.Status.ObservedGeneration = owned.Generation
	for i := range object.Status.Conditions {
		object.Status.Conditions[i].ObservedGeneration = owned.Generation
	}
	if err := r.patch(ctx, object, true); err != nil {
		return err
	}
	r.announce(o, owned)
	r.written = o
	return nil
}

// object is the NodeDataplane as it should be.
func (r *reporter) object(o observed) *v1alpha1.NodeDataplane {
	n := &v1alpha1.NodeDataplane{ObjectMeta: metav1.ObjectMeta{Name: r.node}, Status: *o.status.DeepCopy()}
	n.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("NodeDataplane"))
	if o.uid != "" { // it goes away with its Node
		n.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: r.node, UID: types.UID(o.uid)}}
	}
	for _, c := range n.Status.Conditions {
		meta.SetStatusCondition(&r.conditions, c)
	}
	n.Status.Conditions = slices.Clone(r.conditions)
	n.Status.Counters = nil
	if counters, err := r.counters(); err == nil {
		n.Status.Counters = most(counters)
	}
	return n
}

// most are the largest counters, as many as the status holds, by name: there are more reasons than that, of which few
// nodes count so many.
func most(counters map[string]uint64) (all []v1alpha1.NodeCounter) {
	for name, count := range counters {
		if count > 0 {
			all = append(all, v1alpha1.NodeCounter{Name: name, Count: int64(count)})
		}
	}
	byName := func(a, b v1alpha1.NodeCounter) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(all, func(a, b v1alpha1.NodeCounter) int { return cmp.Or(cmp.Compare(b.Count, a.Count), byName(a, b)) })
	all = all[:min(len(all), v1alpha1.MaxNodeCounters)]
	slices.SortFunc(all, byName)
	return all
}

// patch applies the object, or its status, and takes over what the server made of it.
func (r *reporter) patch(ctx context.Context, n *v1alpha1.NodeDataplane, status bool) error {
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(n)
	if err != nil {
		return err
	}
	u := unstructuredOf(raw)
	if status {
		err = r.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), fieldOwner, client.ForceOwnership)
	} else {
		err = r.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), fieldOwner, client.ForceOwnership)
	}
	if err != nil {
		return fmt.Errorf("apply NodeDataplane %s: %w", n.Name, err)
	}
	n.UID, n.Generation = u.GetUID(), u.GetGeneration()
	return nil
}

// announce tells by events what changed for the worse, or for the better again.
func (r *reporter) announce(o observed, n *v1alpha1.NodeDataplane) {
	before := map[string]string{}
	for _, d := range r.written.status.Devices {
		before[d.Name] = string(d.Mode) + d.Reason
	}
	for _, d := range o.status.Devices {
		if d.Reason == "" || before[d.Name] == string(d.Mode)+d.Reason {
			continue
		}
		r.events.Eventf(n, nil, corev1.EventTypeWarning, v1alpha1.ReasonFallingBack, "Attach", "device %s balances by %s: %s", d.Name, d.Mode, d.Reason)
	}
	if counters, err := r.counters(); err == nil {
		if text := clientsFallBack(r.fallBacks.news(time.Now(), counters, o.relayed)); text != "" {
			r.events.Eventf(n, nil, corev1.EventTypeWarning, v1alpha1.ReasonFallingBack, "Redirect", "%s", text)
		}
	}
	r.tellFallen(time.Now(), o)
	r.tellOutside(o.outside)
	for _, c := range o.status.Conditions {
		old := meta.FindStatusCondition(r.written.status.Conditions, c.Type)
		if old != nil && old.Status == c.Status && old.Reason == c.Reason || old == nil && c.Status == metav1.ConditionTrue {
			continue
		}
		level := corev1.EventTypeNormal
		if c.Status != metav1.ConditionTrue {
			level = corev1.EventTypeWarning
		}
		r.events.Eventf(n, nil, level, c.Reason, c.Type, "%s", c.Message)
	}
}
