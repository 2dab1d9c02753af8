// SPDX-License-Identifier: Apache-2.0

// Gather reads everything a decision depends on into one snapshot, so that the decisions
// themselves read nothing.
package replicationgroup

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/apply"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// Sidecars reads what members run, and hands commands to them.
type Sidecars interface {
	State(ctx context.Context, t dataplane.Target) (*dataplane.SidecarState, error)
	Group(ctx context.Context, t dataplane.Target) (*dataplane.GroupState, error)
	Change(ctx context.Context, t dataplane.Target, change dataplane.GroupChange) (*dataplane.GroupChanged, error)
}

// gather reads the world.
func (r *Reconciler) gather(ctx context.Context, group *v1alpha1.ReplicationGroup) (*snapshot, error) {
	s := &snapshot{
		now: r.Now(), group: group, freshKey: newKey(), pods: map[int]*corev1.Pod{}, beside: map[string][]*corev1.Pod{},
		input: render.Input{Group: group, Registry: r.Registry, Version: r.Version, OperatorNamespace: r.OperatorNamespace, OTLPEndpoint: r.OTLPEndpoint},
	}
	if err := r.gatherPods(ctx, s); err != nil {
		return nil, err
	}
	if err := r.gatherConflicts(ctx, s); err != nil {
		return nil, err
	}
	if err := r.gatherOwned(ctx, s); err != nil {
		return nil, err
	}
	if err := r.gatherBackups(ctx, s); err != nil {
		return nil, err
	}
	var err error
	if s.authority, err = r.Authority(ctx); err != nil {
		return nil, err
	}
	if s.keys, err = r.secret(ctx, s, render.KeysName(group)); err != nil {
		return nil, err
	}
	if s.tls, err = r.secret(ctx, s, render.TLSName(group)); err != nil {
		return nil, err
	}
	slices.Sort(s.conflicts)
	r.ask(ctx, s)
	return s, nil
}

func (r *Reconciler) gatherPods(ctx context.Context, s *snapshot) error {
	pods, err := r.podsOf(ctx, s.group, v1alpha1.ComponentMember)
	if err != nil {
		return err
	}
	for _, p := range pods {
		if place, is := render.MemberOrdinal(s.group, p.Name); is && place < dataplane.MaxGroupBook {
			s.pods[place] = p
			s.places = append(s.places, place)
		}
	}
	slices.Sort(s.places)
	for _, component := range render.Beside(s.group) {
		if s.beside[component], err = r.podsOf(ctx, s.group, component); err != nil {
			return err
		}
	}
	return nil
}

// podsOf are the pods of one component, the oldest first.
func (r *Reconciler) podsOf(ctx context.Context, group *v1alpha1.ReplicationGroup, component string) ([]*corev1.Pod, error) {
	list := &corev1.PodList{}
	err := r.Client.List(ctx, list, client.InNamespace(group.Namespace), client.MatchingLabels(render.Selector(group.Name, component)))
	if err != nil {
		return nil, fmt.Errorf("list the %s pods of the group: %w", component, err)
	}
	var pods []*corev1.Pod
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return pods, nil
}

// gatherConflicts looks whether a name is taken that an object of the group needs.
func (r *Reconciler) gatherConflicts(ctx context.Context, s *snapshot) error {
	for _, o := range append(render.GroupObjects(s.input), render.ConfigMap(s.input, nil, "")) {
		taken, err := apply.Taken(ctx, r.Client, r.Live, o, s.group.UID)
		if err != nil {
			return err
		}
		if taken {
			s.conflicts = append(s.conflicts, o.GetObjectKind().GroupVersionKind().Kind+" "+o.GetName())
		}
	}
	return nil
}

// gatherOwned reads the objects of the group whose state matters.
func (r *Reconciler) gatherOwned(ctx context.Context, s *snapshot) error {
	cm, set, had := &corev1.ConfigMap{}, &appsv1.StatefulSet{}, &appsv1.Deployment{}
	for _, o := range []struct {
		name string
		into client.Object
		keep func()
	}{
		{render.ConfigMapName(s.group), cm, func() {
			text := []byte(cm.Data[dataplane.ConfigMapKeyConfig])
			if doc, err := dataplane.ParseGroup(text); err == nil {
				s.live, s.liveHash = doc, dataplane.HashConfig(text)
			}
		}},
		{render.MemberSetName(s.group), set, func() { s.set = set }},
		{render.BesideName(s.group, v1alpha1.ComponentAggregator), had, func() { s.input.HadAggregator = true }},
	} {
		err := r.Client.Get(ctx, types.NamespacedName{Namespace: s.group.Namespace, Name: o.name}, o.into)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read %T %s: %w", o.into, o.name, err)
		}
		if err == nil && apply.OwnedBy(o.into, s.group.UID) {
			o.keep()
		}
	}
	return nil
}

// secret reads a Secret past the cache: Secrets are not cached, so that the operator
// need not be allowed to list them.
func (r *Reconciler) secret(ctx context.Context, s *snapshot, name string) (*corev1.Secret, error) {
	group := client.ObjectKeyFromObject(s.group)
	if known := r.secrets.Get(group, s.group.UID, name, s.now); known != nil {
		return known, nil
	}
	secret := &corev1.Secret{}
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: s.group.Namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", name, err)
	}
	if !apply.OwnedBy(secret, s.group.UID) {
		s.conflicts = append(s.conflicts, "Secret "+name)
		return nil, nil
	}
	r.secrets.Put(group, secret, s.now)
	return secret, nil
}

// ask asks the sidecars of all pods that could answer, and the members behind them.
func (r *Reconciler) ask(ctx context.Context, s *snapshot) {
	s.states, s.groups = map[string]*dataplane.SidecarState{}, map[string]*dataplane.GroupState{}
	var asked []dataplane.Asked
	for _, place := range s.places {
		if p := s.pods[place]; running(p) {
			asked = append(asked, dataplane.Asked{Name: p.Name, Target: r.target(s, p)})
		}
	}
	all := slices.Clone(asked)
	for _, p := range s.besides() {
		if running(p) {
			all = append(all, dataplane.Asked{Name: p.Name, Target: r.target(s, p)})
		}
	}
	for _, read := range dataplane.ReadAll(ctx, all, r.Sidecars.State) {
		if read.Err == nil && read.Reply != nil {
			s.states[read.Name] = read.Reply
		}
	}
	for _, read := range dataplane.ReadAll(ctx, asked, r.Sidecars.Group) {
		if read.Err == nil && read.Reply != nil {
			s.groups[read.Name] = read.Reply
		}
	}
}

func (r *Reconciler) target(s *snapshot, p *corev1.Pod) dataplane.Target {
	return dataplane.NewTarget(p.Status.PodIP, s.group.Name, s.group.Namespace)
}

// newKey makes one packet key: 128 bits, as 32 hex digits.
func newKey() []byte {
	raw := make([]byte, 16)
	if _, err := rand.Read(raw); err != nil {
		panic("crypto/rand failed, which the Go runtime excludes: " + err.Error())
	}
	return []byte(hex.EncodeToString(raw))
}
