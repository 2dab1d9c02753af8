// SPDX-License-Identifier: Apache-2.0

// Gather reads what a ProgrammableSwitch names: the Secret, the parts of the pipeline,
// and other switches that may be the same one.
package programmableswitch

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/switchboard"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
	"github.com/bobtail-dev/bobtail/operator/internal/switches/keeper"
)

// snapshot is what a plan is made from.
type snapshot struct {
	psw *v1alpha1.ProgrammableSwitch
	// namespace is where Secret and ConfigMaps are.
	namespace string
	// secret is nil when there is none.
	secret map[string][]byte
	// parts are the values of the pipeline's parts that are there, by their place.
	parts map[v1alpha1.SwitchPipelinePart][]byte
	// others are all other switches.
	others []v1alpha1.ProgrammableSwitch
	// services name this switch.
	services []asking
	// vips are of Services that this switch is to redirect; toldOf: it is known which.
	vips   []crabplan.VIP
	toldOf bool
	// runs are loads that experiments ask of it.
	runs []switchboard.Run
	// groups ask it to be their aggregator; toldGroups: it is known which.
	groups     []switchboard.Group
	toldGroups bool
	// state is what the keeper knows; known: it looks after the switch.
	state keeper.State
	known bool
}

// parts are values that had the right digest: what does cannot change, so it is read
// once, and a ConfigMap that goes away later takes no pipeline with it.
type parts struct {
	mu  sync.Mutex
	all map[string]map[v1alpha1.SwitchPipelinePart][]byte // by switch
}

func (p *parts) of(name string) map[v1alpha1.SwitchPipelinePart][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[name]
}

// keep those of a switch that are in use, and no others.
func (p *parts) keep(name string, verified map[v1alpha1.SwitchPipelinePart][]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all = map[string]map[v1alpha1.SwitchPipelinePart][]byte{}
	}
	if verified == nil {
		delete(p.all, name)
		return
	}
	p.all[name] = verified
}

func (r *Reconciler) gather(ctx context.Context, psw *v1alpha1.ProgrammableSwitch) (*snapshot, error) {
	s := &snapshot{psw: psw, namespace: r.Namespace, parts: map[v1alpha1.SwitchPipelinePart][]byte{}}
	s.state, s.known = r.Switches.State(psw.Name)
	list := &v1alpha1.ProgrammableSwitchList{}
	if err := r.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list switches: %w", err)
	}
	for i := range list.Items {
		if list.Items[i].Name != psw.Name {
			s.others = append(s.others, list.Items[i])
		}
	}
	s.vips, s.toldOf = r.Board.Asked(psw.Name)
	s.runs = r.Board.Runs(psw.Name)
	s.groups, s.toldGroups = r.Board.Groups(psw.Name)
	if err := r.gatherServices(ctx, s); err != nil {
		return nil, err
	}
	if t := psw.Spec.TLS; t != nil {
		secret := &corev1.Secret{}
		err := r.Live.Get(ctx, types.NamespacedName{Namespace: r.Namespace, Name: t.SecretName}, secret)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("read Secret %s: %w", t.SecretName, err)
		}
		if err == nil {
			s.secret = secret.Data
			if s.secret == nil {
				s.secret = map[string][]byte{}
			}
		}
	}
	return s, r.gatherParts(ctx, s)
}

// gatherServices reads the services of this switch, and how each is configured.
func (r *Reconciler) gatherServices(ctx context.Context, s *snapshot) error {
	list := &v1alpha1.RpcServiceList{}
	if err := r.Client.List(ctx, list); err != nil {
		return fmt.Errorf("list services: %w", err)
	}
	for i := range list.Items {
		service := &list.Items[i]
		if !slices.Contains(switchesOf(service), s.psw.Name) || service.DeletionTimestamp != nil {
			continue
		}
		a := asking{service: service}
		m := &corev1.ConfigMap{}
		err := r.Client.Get(ctx, types.NamespacedName{Namespace: service.Namespace, Name: render.ConfigMapName(service)}, m)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("read the configuration of %s/%s: %w", service.Namespace, service.Name, err)
		}
		if err == nil && metav1.IsControlledBy(m, service) {
			text := []byte(m.Data[dataplane.ConfigMapKeyConfig])
			if doc, err := dataplane.ParseConfig(text); err == nil {
				a.doc, a.hash = doc, dataplane.HashConfig(text)
			}
		}
		s.services = append(s.services, a)
	}
	return nil
}

// switchesOf are those that a service asks for, or has yet to leave.
func switchesOf(s *v1alpha1.RpcService) (out []string) {
	if asked := s.Spec.Router.Switch; asked != nil {
		out = append(out, asked.Name)
	}
	if had := s.Status.Switch; had != nil && !slices.Contains(out, had.Name) {
		out = append(out, had.Name)
	}
	return out
}

func (r *Reconciler) gatherParts(ctx context.Context, s *snapshot) error {
	have := r.parts.of(s.psw.Name)
	for _, part := range allParts(s.psw.Spec.Pipeline) {
		value, there := have[part]
		if !there {
			var err error
			if value, there, err = r.part(ctx, part); err != nil {
				return err
			}
		}
		if there {
			s.parts[part] = value
		}
	}
	r.parts.keep(s.psw.Name, verified(s.parts))
	return nil
}

func (r *Reconciler) part(ctx context.Context, part v1alpha1.SwitchPipelinePart) (value []byte, there bool, err error) {
	m := &corev1.ConfigMap{}
	err = r.Live.Get(ctx, types.NamespacedName{Namespace: r.Namespace, Name: part.ConfigMapName}, m)
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read ConfigMap %s: %w", part.ConfigMapName, err)
	}
	if value, there = m.BinaryData[part.Key]; there {
		return value, true, nil
	}
	text, there := m.Data[part.Key]
	return []byte(text), there, nil
}
