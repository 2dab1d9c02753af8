// SPDX-License-Identifier: Apache-2.0

// Gather reads everything a decision depends on into one snapshot, so that the
// decisions themselves read nothing.
package rpcservice

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/pki"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/netstatus"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
	"github.com/bobtail-dev/bobtail/operator/internal/stretches"
)

// Sidecars reads what dataplanes run.
type Sidecars interface {
	State(ctx context.Context, t dataplane.Target) (*dataplane.SidecarState, error)
	Parts(ctx context.Context, t dataplane.Target, name string, windowSeconds, parts int) (*dataplane.HistogramReply, error)
}

// stateRead is what the sidecar of a pod said of itself, or why it said nothing.
type stateRead = dataplane.Reading[*dataplane.SidecarState]

// snapshot is the world as one reconciliation sees it. Once gathered, nobody writes
// to it.
type snapshot struct {
	now     time.Time
	service *v1alpha1.RpcService

	// input is what is rendered for the service, but for what the plan decides.
	input render.Input

	// servers and routers are the pods of the service, sorted by age.
	servers, routers []*corev1.Pod

	// serverDeployment and routerDeployment are nil until they exist.
	serverDeployment, routerDeployment *appsv1.Deployment

	// fastPath is who asks for it, and what is known of the namespace's consent.
	fastPath fastPathAsked

	// devices are what the entries of `spec.device` are judged by; slices is what stands
	// in EndpointSlices; peers is where pods are reached, by name.
	devices deviceFacts
	slices  slicesSeen
	peers   map[string]netstatus.Peer

	// front is the Service that clients dial, nil until it exists; standing is
	// what CRAB's agents say of it, with protocol TCP.
	front    *corev1.Service
	standing standing

	// states holds what the sidecar of each running pod answered, by pod name.
	states map[string]stateRead

	// switches are those that the service names or has named, by name.
	switches map[string]*v1alpha1.ProgrammableSwitch

	// counted is what became of copies that could be taken back.
	counted counted

	// tails is how long requests took, by router, if mode Auto decides now; nil where
	// one did not tell.
	tails []*dataplane.HistogramReply

	// conflicts are objects that bear a name this service needs and belong to
	// somebody else: "Deployment echo-server".
	conflicts []string

	// secretTaken says that one of the conflicts is about a Secret.
	secretTaken bool

	// account is that of the sidecars, nil when missing.
	account *corev1.ServiceAccount

	// lagged is since when peers have run another document than the ConfigMap's.
	lagged map[string]time.Time

	// live is the configuration as it stands, keys are the packet keys, tls is the
	// certificate; nil or empty when missing.
	live liveConfig
	keys keyring
	tls  *corev1.Secret

	// keysOrphaned says that the Secret of keys belongs to nobody.
	keysOrphaned bool

	// freshKey is the value of the next packet key, should one be needed.
	freshKey []byte

	// objectives are those of the namespace, whatever they are about.
	objectives []v1alpha1.ServiceLevelObjective

	authority *pki.Authority
}

// gather reads the world.
func (r *Reconciler) gather(ctx context.Context, service *v1alpha1.RpcService) (*snapshot, error) {
	in := render.Input{Service: service, Registry: r.Registry, Version: r.Version, OperatorNamespace: r.OperatorNamespace, OTLPEndpoint: r.OTLPEndpoint}
	s := &snapshot{now: r.Now(), service: service, input: in, freshKey: newKey(), counted: r.cancels.get(service)}
	if err := r.gatherAbilities(s); err != nil {
		return nil, err
	}
	if err := r.gatherPods(ctx, s); err != nil {
		return nil, err
	}
	s.input.Slices = s.devices.able && (!render.OnKernel(service.Spec.Device.Device) || render.OnSwitch(service))
	wanted := render.Objects(s.input)
	if !render.ByCRAB(service) {
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
	var err error
	if render.ByCRAB(service) {
		err = r.gatherStanding(ctx, s)
	} else {
		err = r.gatherDataplane(ctx, s)
	}
	slices.Sort(s.conflicts)
	return s, err
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
	keys, err := r.secret(ctx, s, render.KeysName(s.service))
	if err != nil {
		return err
	}
	s.keys, s.keysOrphaned = keyringOf(keys), keys != nil && !ownedBy(keys, s.service)
	if s.tls, err = r.secret(ctx, s, render.TLSName(s.service)); err != nil {
		return err
	}
	if err := r.gatherFastPath(ctx, s); err != nil {
		return err
	}
	if err := r.gatherDevices(ctx, s); err != nil {
		return err
	}
	if err := r.gatherSwitches(ctx, s); err != nil {
		return err
	}
	s.peers = judgedPeers(s)
	s.states = r.readStates(ctx, s)
	s.counted, s.lagged = count(s), r.lags.get(client.ObjectKeyFromObject(s.service))
	r.gatherTails(ctx, s)
	return nil
}

// gatherOwned reads the objects of the service whose state matters.
func (r *Reconciler) gatherOwned(ctx context.Context, s *snapshot) error {
	cm, server, router := &corev1.ConfigMap{}, &appsv1.Deployment{}, &appsv1.Deployment{}
	front, account := &corev1.Service{}, &corev1.ServiceAccount{}
	for _, o := range []struct {
		name string
		into client.Object
		keep func()
	}{
		{render.ConfigMapName(s.service), cm, func() { s.live = readLive(cm) }},
		{render.ServerName(s.service), server, func() { s.serverDeployment = server }},
		{render.RouterName(s.service), router, func() { s.routerDeployment = router }},
		{s.service.Name, front, func() { s.front = front }},
		{render.SidecarName(s.service), account, func() { s.account = account }},
	} {
		err := r.Client.Get(ctx, types.NamespacedName{Namespace: s.service.Namespace, Name: o.name}, o.into)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read %T %s: %w", o.into, o.name, err)
		}
		if err == nil && ours(o.into, s.service) {
			o.keep()
		}
	}
	if !s.devices.able {
		return nil
	}
	made := &discoveryv1.EndpointSliceList{}
	if err := r.Client.List(ctx, made, client.InNamespace(s.service.Namespace), client.MatchingLabels{v1alpha1.LabelService: s.service.Name}); err != nil {
		return fmt.Errorf("list the EndpointSlices of the service: %w", err)
	}
	s.slices = seeSlices(made.Items)
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
	if err := r.Client.Get(ctx, key, cached); err == nil && ours(cached, s.service) {
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
	if !ours(found, s.service) {
		s.conflicts = append(s.conflicts, gvk.Kind+" "+key.Name)
	}
	return nil
}

// secret reads a Secret past the cache: Secrets are not cached, so that the
// operator need not be allowed to list them.
func (r *Reconciler) secret(ctx context.Context, s *snapshot, name string) (*corev1.Secret, error) {
	service := client.ObjectKeyFromObject(s.service)
	if known := r.secrets.Get(service, s.service.UID, name, s.now); known != nil {
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
	if !ours(secret, s.service) {
		s.conflicts, s.secretTaken = append(s.conflicts, "Secret "+name), true
		return nil, nil
	}
	r.secrets.Put(service, secret, s.now)
	return secret, nil
}

// ours says that an object is the service's, or was and belongs to nobody now: the
// service was deleted without it, or both come from a backup. Then it is taken over.
func ours(o metav1.Object, s *v1alpha1.RpcService) bool {
	if metav1.GetControllerOf(o) == nil {
		labels := o.GetLabels()
		return labels[render.LabelManagedBy] == render.ManagedBy && labels[v1alpha1.LabelService] == s.Name
	}
	return ownedBy(o, s)
}

func ownedBy(o metav1.Object, s *v1alpha1.RpcService) bool {
	owner := metav1.GetControllerOf(o)
	return owner != nil && owner.UID == s.UID
}

// readStates asks the sidecars of all pods that could answer.
func (r *Reconciler) readStates(ctx context.Context, s *snapshot) map[string]stateRead {
	states := map[string]stateRead{}
	for _, read := range dataplane.ReadAll(ctx, sidecarsOf(s, slices.Concat(s.servers, s.routers)), r.Sidecars.State) {
		if read.Err == nil && read.Reply == nil {
			read.Err = errors.New("empty answer")
		}
		states[read.Name] = read
	}
	return states
}

// sidecarsOf are those of the pods that run.
func sidecarsOf(s *snapshot, pods []*corev1.Pod) []dataplane.Asked {
	var out []dataplane.Asked
	for _, p := range pods {
		if running(p) {
			out = append(out, dataplane.Asked{Name: p.Name, Target: dataplane.NewTarget(p.Status.PodIP, s.service.Name, s.service.Namespace)})
		}
	}
	return out
}

// gatherStanding asks about the Service as it is.
func (r *Reconciler) gatherStanding(ctx context.Context, s *snapshot) error {
	if r.Redirection == nil {
		return nil
	}
	s.standing.crab = true
	if s.front == nil {
		return nil
	}
	ok, reason, message, err := r.Redirection.Standing(ctx, s.front)
	if err != nil {
		return fmt.Errorf("ask what the agents know of Service %s: %w", s.front.Name, err)
	}
	s.standing.Verdict = verdict.Of(ok, reason, message)
	return nil
}

// gatherFastPath reads what a service that is to have it depends on.
func (r *Reconciler) gatherFastPath(ctx context.Context, s *snapshot) error {
	chooser := render.FastPath(s.service, r.FastPath)
	if chooser == "" {
		return nil
	}
	level, err := r.enforced(ctx, s.service.Namespace)
	s.fastPath = fastPathAsked{chooser: chooser, level: level, denial: r.denials.get(client.ObjectKeyFromObject(s.service))}
	return err
}

// gatherSwitches reads the switches of the service.
func (r *Reconciler) gatherSwitches(ctx context.Context, s *snapshot) error {
	var names []string
	if asked := s.service.Spec.Router.Switch; asked != nil {
		names = append(names, asked.Name)
	}
	if had := s.service.Status.Switch; had != nil {
		names = append(names, had.Name)
	}
	for _, name := range names {
		psw := &v1alpha1.ProgrammableSwitch{}
		err := r.Client.Get(ctx, types.NamespacedName{Name: name}, psw)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read ProgrammableSwitch %s: %w", name, err)
		}
		if err == nil {
			if s.switches == nil {
				s.switches = map[string]*v1alpha1.ProgrammableSwitch{}
			}
			s.switches[name] = psw
		}
	}
	return nil
}

// gatherTails asks every router, if a decision is due, how long requests took.
func (r *Reconciler) gatherTails(ctx context.Context, s *snapshot) {
	if !decidesHedging(s) {
		return
	}
	s.tails = make([]*dataplane.HistogramReply, len(s.routers))
	at := map[string]int{}
	for i, p := range s.routers {
		at[p.Name] = i
	}
	ask := func(ctx context.Context, t dataplane.Target) (*dataplane.HistogramReply, error) {
		return r.Sidecars.Parts(ctx, t, ctl.HistogramLatency, int(tailWindow.Seconds()), stretches.Parts)
	}
	for _, read := range dataplane.ReadAll(ctx, sidecarsOf(s, s.routers), ask) {
		if read.Err == nil {
			s.tails[at[read.Name]] = read.Reply
		}
	}
}

// newKey makes one packet key: 128 bits, as 32 hex digits.
func newKey() []byte {
	raw := make([]byte, 16)
	if _, err := rand.Read(raw); err != nil {
		panic("crypto/rand failed, which the Go runtime excludes: " + err.Error())
	}
	return []byte(hex.EncodeToString(raw))
}
