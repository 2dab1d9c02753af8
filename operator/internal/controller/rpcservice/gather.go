// SPDX-License-Identifier: Apache-2.0

// Gather reads everything a decision depends on into one snapshot, so that the
// decisions themselves read nothing.
package rpcservice

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/pki"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// Sidecars reads what dataplanes run.
type Sidecars interface {
	State(ctx context.Context, t dataplane.Target) (*dataplane.SidecarState, error)
	Parts(ctx context.Context, t dataplane.Target, name string, windowSeconds, parts int) (*dataplane.HistogramReply, error)
}

// snapshot is the world as one reconciliation sees it.
type snapshot struct {
	now     time.Time
	service *v1alpha1.RpcService

	// servers and routers are the pods of the service, sorted by age.
	servers, routers []*corev1.Pod

	// serverDeployment and routerDeployment are nil until they exist.
	serverDeployment, routerDeployment *appsv1.Deployment

	// fastPath is who asks for it, and whether the namespace admits its pods.
	fastPath fastPath

	// front is the Service that clients dial, nil until it exists; standing is
	// what CRAB's agents say of it, with protocol TCP.
	front    *corev1.Service
	standing standing

	// states holds what the sidecar of each running pod answered, by pod name.
	states map[string]answer

	// cancels is what became of copies that could be taken back.
	cancels cancelled

	// expected is the share of copies that the model says will be; 0: not asked.
	expected float64

	// tails is how long requests took, by router, if mode Auto decides now; nil where
	// one did not tell.
	tails []*dataplane.HistogramReply

	// conflicts are objects that bear a name this service needs and belong to
	// somebody else: "Deployment echo-server".
	conflicts []string

	// secretTaken says that one of the conflicts is about a Secret.
	secretTaken bool

	// configMap, keys and tls are the objects as they are now, nil when missing.
	configMap *corev1.ConfigMap
	keys, tls *corev1.Secret

	// objectives are those of the namespace, whatever they are about.
	objectives []v1alpha1.ServiceLevelObjective

	authority *pki.Authority

	// rollingOut says which Deployment does not run the present specification
	// yet, and why; it is known once the Deployments have been written.
	rollingOut string
}

// answer is what a sidecar said, or why it said nothing.
type answer struct {
	state *dataplane.SidecarState
	err   error
}

// gather reads the world.
func (r *Reconciler) gather(ctx context.Context, service *v1alpha1.RpcService, in render.Input) (*snapshot, error) {
	s := &snapshot{now: r.Now(), service: service}
	if err := r.gatherPods(ctx, s); err != nil {
		return nil, err
	}
	wanted := render.Objects(in)
	if !render.TCP(service) {
		wanted = append(wanted, render.ConfigMap(in, nil, ""))
	}
	for _, o := range wanted {
		if err := r.gatherConflict(ctx, s, o); err != nil {
			return nil, err
		}
	}
	if err := r.gatherOwned(ctx, s); err != nil {
		return nil, err
	}
	if render.TCP(service) {
		return s, r.gatherStanding(ctx, s)
	}
	return s, r.gatherDataplane(ctx, s)
}

// gatherDataplane reads what routers and servers of R2P2 need, and what they say.
func (r *Reconciler) gatherDataplane(ctx context.Context, s *snapshot) error {
	var err error
	if s.authority, err = r.Authority(ctx); err != nil {
		return err
	}
	if s.objectives, err = r.objectives(ctx, s.service.Namespace); err != nil {
		return err
	}
	if s.keys, err = r.secret(ctx, s, render.KeysName(s.service)); err != nil {
		return err
	}
	if s.tls, err = r.secret(ctx, s, render.TLSName(s.service)); err != nil {
		return err
	}
	if err := r.gatherFastPath(ctx, s); err != nil {
		return err
	}
	r.poll(ctx, s)
	r.gatherTails(ctx, s)
	return nil
}

// gatherOwned reads the objects of the service whose state matters.
func (r *Reconciler) gatherOwned(ctx context.Context, s *snapshot) error {
	cm, server, router, front := &corev1.ConfigMap{}, &appsv1.Deployment{}, &appsv1.Deployment{}, &corev1.Service{}
	for _, o := range []struct {
		name string
		into client.Object
		keep func()
	}{
		{render.ConfigMapName(s.service), cm, func() { s.configMap = cm }},
		{render.ServerName(s.service), server, func() { s.serverDeployment = server }},
		{render.RouterName(s.service), router, func() { s.routerDeployment = router }},
		{s.service.Name, front, func() { s.front = front }},
	} {
		err := r.Client.Get(ctx, types.NamespacedName{Namespace: s.service.Namespace, Name: o.name}, o.into)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read %T %s: %w", o.into, o.name, err)
		}
		if err == nil && ownedBy(o.into, s.service) {
			o.keep()
		}
	}
	return nil
}

func (r *Reconciler) objectives(ctx context.Context, namespace string) ([]v1alpha1.ServiceLevelObjective, error) {
	list := &v1alpha1.ServiceLevelObjectiveList{}
	if err := r.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list the objectives of the namespace: %w", err)
	}
	return list.Items, nil
}

func (r *Reconciler) gatherPods(ctx context.Context, s *snapshot) error {
	pods := &corev1.PodList{}
	err := r.Client.List(ctx, pods, client.InNamespace(s.service.Namespace), client.MatchingLabels{v1alpha1.LabelService: s.service.Name})
	if err != nil {
		return fmt.Errorf("list the pods of the service: %w", err)
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		switch p.Labels[v1alpha1.LabelComponent] {
		case v1alpha1.ComponentServer:
			s.servers = append(s.servers, p)
		case v1alpha1.ComponentRouter:
			s.routers = append(s.routers, p)
		}
	}
	sortByAge(s.servers)
	sortByAge(s.routers)
	return nil
}

// gatherConflict looks whether the name of a wanted object is taken. The cache
// holds only objects that carry our label, so what it lacks is asked of the
// API server.
func (r *Reconciler) gatherConflict(ctx context.Context, s *snapshot, wanted render.Object) error {
	gvk := wanted.GetObjectKind().GroupVersionKind()
	key := types.NamespacedName{Namespace: wanted.GetNamespace(), Name: wanted.GetName()}
	cached, ok := wanted.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%s is no API object", gvk.Kind)
	}
	if err := r.Client.Get(ctx, key, cached); err == nil && ownedBy(cached, s.service) {
		return nil
	}
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(gvk)
	err := r.Live.Get(ctx, key, found)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look whether %s %s is free: %w", gvk.Kind, key.Name, err)
	}
	if !ownedBy(found, s.service) {
		s.conflicts = append(s.conflicts, gvk.Kind+" "+key.Name)
	}
	return nil
}

// secret reads a Secret past the cache: Secrets are not cached, so that the
// operator need not be allowed to list them.
func (r *Reconciler) secret(ctx context.Context, s *snapshot, name string) (*corev1.Secret, error) {
	service := client.ObjectKeyFromObject(s.service)
	if known := r.secrets.get(service, s.service.UID, name, s.now); known != nil {
		return known, nil
	}
	secret := &corev1.Secret{}
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: s.service.Namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", name, err)
	}
	if !ownedBy(secret, s.service) {
		s.conflicts, s.secretTaken = append(s.conflicts, "Secret "+name), true
		return nil, nil
	}
	r.secrets.put(service, secret, s.now)
	return secret, nil
}

func ownedBy(o metav1.Object, s *v1alpha1.RpcService) bool {
	owner := metav1.GetControllerOf(o)
	return owner != nil && owner.UID == s.UID
}

// polls bounds how many sidecars are read at a time.
const polls = 32

// poll reads the sidecars of all pods that could answer.
func (r *Reconciler) poll(ctx context.Context, s *snapshot) {
	s.states = map[string]answer{}
	var mu sync.Mutex
	var wait sync.WaitGroup
	slots := make(chan struct{}, polls)
	for _, p := range append(append([]*corev1.Pod{}, s.servers...), s.routers...) {
		if !running(p) {
			continue
		}
		wait.Add(1)
		go func() {
			defer wait.Done()
			slots <- struct{}{}
			defer func() { <-slots }()
			state, err := r.Sidecars.State(ctx, dataplane.NewTarget(p.Status.PodIP, s.service.Name, s.service.Namespace))
			if err == nil && state == nil {
				err = errors.New("empty answer")
			}
			mu.Lock()
			s.states[p.Name] = answer{state: state, err: err}
			mu.Unlock()
		}()
	}
	wait.Wait()
}
