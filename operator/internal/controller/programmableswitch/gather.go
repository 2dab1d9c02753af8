// SPDX-License-Identifier: Apache-2.0

// Gather reads what a ProgrammableSwitch names: the Secret, the parts of the pipeline,
// and other switches that may be the same one.
package programmableswitch

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
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
