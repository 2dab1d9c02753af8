// SPDX-License-Identifier: Apache-2.0

// What the cluster says of devices: definitions of networks, resources of nodes, and who
// holds them. Nothing of it is watched: that would need the right to list definitions.
package rpcservice

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/message"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// annotationResource on a definition is the resource that its device comes from.
const annotationResource = "k8s.v1.cni.cncf.io/resourceName"

// sharedNamespace is the one whose networks every namespace may use, as Multus has it
// where it isolates namespaces.
const sharedNamespace = "default"

// factsBelieved is how long something that was read of nodes and definitions is taken
// for what it is.
const factsBelieved = 15 * time.Second

var definitionKind = schema.GroupVersionKind{Group: "k8s.cni.cncf.io", Version: "v1", Kind: "NetworkAttachmentDefinition"}

// recent remembers what was read for a while. Its zero value is ready.
type recent[V any] struct {
	mu  sync.Mutex
	all map[string]readAt[V]
}

type readAt[V any] struct {
	value V
	at    time.Time
}

// of returns what was read of late, or reads it. Errors are not remembered.
func (r *recent[V]) of(key string, now time.Time, read func() (V, error)) (V, error) {
	r.mu.Lock()
	known, ok := r.all[key]
	r.mu.Unlock()
	if ok && now.Before(known.at.Add(factsBelieved)) {
		return known.value, nil
	}
	value, err := read()
	if err != nil {
		return value, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[string]readAt[V]{}
	}
	for k, v := range r.all {
		if !now.Before(v.at.Add(factsBelieved)) {
			delete(r.all, k)
		}
	}
	r.all[key] = readAt[V]{value, now}
	return value, nil
}

// errEarly: nobody knows yet what the operator may do, and a device would be given up for it.
var errEarly = errors.New("the operator has just started")

// gatherAbilities asks whether the operator may do for devices what they need. Until it
// knows, services on Kernel are served all the same.
func (r *Reconciler) gatherAbilities(s *snapshot) error {
	if r.Devices == nil {
		s.devices.able = true
		return nil
	}
	s.devices.able, s.devices.lacks = r.Devices()
	if !s.devices.able && len(s.devices.lacks) == 0 && !render.OnKernel(s.service.Spec.Device.Device) {
		return errEarly
	}
	return nil
}

// gatherDevices reads what the entries of a service are judged by; nothing for Kernel.
func (r *Reconciler) gatherDevices(ctx context.Context, s *snapshot) error {
	spec := &s.service.Spec.Device
	if render.OnKernel(spec.Device) {
		return nil
	}
	s.devices.definitions = map[string]definition{}
	counted := false
	for _, d := range spec.Entries() {
		if render.OnKernel(d) {
			continue
		}
		network := render.DeviceNetwork(d, s.service.Namespace)
		known, err := r.definition(ctx, s.service.Namespace, network)
		if err != nil {
			return err
		}
		s.devices.definitions[network] = known
		counted = counted || d.ResourceName != "" || d.Hugepages != nil
	}
	var err error
	if s.devices.level, err = r.enforced(ctx, s.service.Namespace); err != nil || !counted {
		return err
	}
	if s.devices.offered, err = r.nodes.of("", s.now, func() (map[corev1.ResourceName]int64, error) { return r.countOffered(ctx) }); err != nil {
		return err
	}
	s.devices.others, err = r.countOthers(ctx, s.service)
	return err
}

// definition reads and judges one NetworkAttachmentDefinition. What stands against it is
// no error: the next entry may do.
func (r *Reconciler) definition(ctx context.Context, of, network string) (definition, error) {
	namespace, name, _ := strings.Cut(network, "/")
	if namespace != of && namespace != sharedNamespace {
		return definition{against: why{v1alpha1.ReasonDefinitionForbidden, fmt.Sprintf(
			"NetworkAttachmentDefinition %s is neither in namespace %s nor in %s", network, of, sharedNamespace)}}, nil
	}
	return r.definitions.of(network, r.Now(), func() (definition, error) {
		found := &unstructured.Unstructured{}
		found.SetGroupVersionKind(definitionKind)
		err := r.Live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, found)
		switch {
		case meta.IsNoMatchError(err):
			return definition{against: why{v1alpha1.ReasonDefinitionMissing, "the cluster knows no NetworkAttachmentDefinition; install Multus"}}, nil
		case apierrors.IsNotFound(err):
			return definition{against: why{v1alpha1.ReasonDefinitionMissing, "NetworkAttachmentDefinition " + network + " does not exist"}}, nil
		case apierrors.IsForbidden(err):
			return definition{against: why{v1alpha1.ReasonDefinitionForbidden, "the operator may not read NetworkAttachmentDefinition " + network + "; upgrade its chart"}}, nil
		case err != nil:
			return definition{}, fmt.Errorf("read NetworkAttachmentDefinition %s: %w", network, err)
		}
		return readDefinition(network, found), nil
	})
}

// readDefinition judges what is written in a definition. One without configuration names
// a file of the nodes, which nobody here can see.
func readDefinition(network string, found *unstructured.Unstructured) definition {
	const longest = 64 << 10
	d := definition{resource: found.GetAnnotations()[annotationResource]}
	invalid := func(format string, args ...any) definition {
		d.against = why{v1alpha1.ReasonDefinitionInvalid, fmt.Sprintf("NetworkAttachmentDefinition %s: spec.config: ", network) + fmt.Sprintf(format, args...)}
		return d
	}
	text, _, err := unstructured.NestedString(found.Object, "spec", "config")
	if err != nil {
		return invalid("must be a string with the configuration of a CNI plugin")
	}
	if text == "" {
		return d
	}
	if len(text) > longest {
		return invalid("must be no longer than %d bytes; got %d", longest, len(text))
	}
	var config struct {
		Type    string            `json:"type"`
		Plugins []json.RawMessage `json:"plugins"`
	}
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		return invalid("must be JSON: %s", message.Bounded(err.Error(), 200))
	}
	if config.Type == "" && len(config.Plugins) == 0 {
		return invalid("must name a CNI plugin by `type`, or list some in `plugins`")
	}
	return d
}

// countOffered adds up what nodes offer of everything.
func (r *Reconciler) countOffered(ctx context.Context) (map[corev1.ResourceName]int64, error) {
	nodes := &corev1.NodeList{}
	if err := r.Live.List(ctx, nodes); apierrors.IsForbidden(err) {
		return nil, nil // the role of an older chart
	} else if err != nil {
		return nil, fmt.Errorf("list the nodes for what they offer: %w", err)
	}
	out := map[corev1.ResourceName]int64{}
	for i := range nodes.Items {
		for name, q := range nodes.Items[i].Status.Allocatable {
			out[name] += q.Value()
		}
	}
	return out, nil
}

// countOthers adds up what pods of other services hold. Pods that are not ours are not
// seen; where they hold devices, a pod that waits shows it.
func (r *Reconciler) countOthers(ctx context.Context, service *v1alpha1.RpcService) (map[corev1.ResourceName]int64, error) {
	pods := &corev1.PodList{}
	if err := r.Client.List(ctx, pods, client.HasLabels{v1alpha1.LabelService}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the pods that hold devices: %w", err)
	}
	out := map[corev1.ResourceName]int64{}
	for i := range pods.Items {
		p := &pods.Items[i]
		if finished(p) || p.Namespace == service.Namespace && p.Labels[v1alpha1.LabelService] == service.Name {
			continue
		}
		for _, c := range p.Spec.Containers {
			for name, q := range c.Resources.Limits {
				out[name] += q.Value()
			}
		}
	}
	return out, nil
}
