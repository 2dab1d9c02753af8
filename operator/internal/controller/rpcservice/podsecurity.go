// SPDX-License-Identifier: Apache-2.0

// Whether a namespace admits routers with capabilities. A router that is not
// admitted serves nobody, which is worse than a slower one: so routers are made
// without where the namespace's label says so, and where pods were refused, as
// the label is not all there is to it: the API server may enforce a level where
// there is no label, and so may a policy of somebody else's.
package rpcservice

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/message"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

const (
	// enforceLabel is the level of the Pod Security Standards that the API server
	// holds the pods of a namespace to.
	enforceLabel = "pod-security.kubernetes.io/enforce"
	// privileged is the one level that admits capabilities. Any other word is one
	// that the API server takes for the strictest.
	privileged = "privileged"
)

// levelBelieved is how long a label that was read is taken for what it is. To watch
// it instead would need the right to list all namespaces of the cluster.
const levelBelieved = 15 * time.Second

// levelsRead remembers levels by namespace. Its zero value is ready.
type levelsRead struct {
	mu  sync.Mutex
	all map[string]levelRead
}

type levelRead struct {
	level string
	at    time.Time
}

func (m *levelsRead) get(namespace string, now time.Time) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.all[namespace]
	return r.level, ok && now.Before(r.at.Add(levelBelieved))
}

func (m *levelsRead) put(namespace, level string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[string]levelRead{}
	}
	for name, r := range m.all {
		if !now.Before(r.at.Add(levelBelieved)) {
			delete(m.all, name)
		}
	}
	m.all[namespace] = levelRead{level: level, at: now}
}

// enforced is the level of a namespace as its label says it; empty without one.
func (r *Reconciler) enforced(ctx context.Context, namespace string) (string, error) {
	now := r.Now()
	if level, ok := r.levels.get(namespace, now); ok {
		return level, nil
	}
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := r.Live.Get(ctx, types.NamespacedName{Name: namespace}, ns)
	if err != nil && !apierrors.IsForbidden(err) {
		return "", fmt.Errorf("read the labels of namespace %s: %w", namespace, err)
	}
	// The role of an older chart does not let the operator look. Then it learns of a
	// level by what is refused.
	level := ns.Labels[enforceLabel]
	r.levels.put(namespace, level, now)
	return level, nil
}

// barredByLabel says why a level does not admit capabilities, and what to do.
func barredByLabel(namespace, level string) string {
	if level == "" || level == privileged {
		return ""
	}
	return fmt.Sprintf("namespace %s has the label %s=%s, which admits no pod with the capabilities BPF and NET_ADMIN; "+
		"label it %s, or set `router.fastPath` to Off", namespace, enforceLabel, level, privileged)
}

// barredByDenial says that pods with the capabilities were refused.
func barredByDenial(namespace, denial string) string {
	const longest = 512 // the field takes 1024
	return fmt.Sprintf("namespace %s refused a pod with the capabilities BPF and NET_ADMIN: %s; "+
		"label it %s=%s if that is what it lacks, or set `router.fastPath` to Off", namespace, message.Bounded(denial, longest), enforceLabel, privileged)
}

// denied is what the namespace said of router pods made for the fast path; empty
// while it said nothing. A quota that is used up would refuse the others too, and
// so is no reason.
func denied(d *appsv1.Deployment) string {
	if d == nil || !render.HasFastPath(d) {
		return ""
	}
	return notAdmitted(d)
}

// notAdmitted is what the namespace said of the pods of a Deployment's present template.
func notAdmitted(d *appsv1.Deployment) string {
	if d.Status.ObservedGeneration < d.Generation {
		return ""
	}
	why := replicaFailure(d)
	for _, words := range []string{
		"violates PodSecurity",        // Pod Security admission
		"denied the request",          // a webhook
		"denied request",              // a ValidatingAdmissionPolicy
		"security context constraint", // OpenShift
	} {
		if strings.Contains(why, words) {
			return why
		}
	}
	return ""
}

// remembered is how long a denial counts. To ask again touches no pod that serves,
// but the service is rolling out until the answer is there.
const remembered = 24 * time.Hour

// denialsSeen remembers the denials, since they show no more once routers are
// made without the capabilities. The namespace is asked again when its label or the
// choice changes, after a day, and by the next leader. Its zero value is ready.
type denialsSeen struct {
	mu  sync.Mutex
	all map[types.NamespacedName]denial
}

type denial struct {
	of      types.UID
	level   string
	chooser v1alpha1.FastPathChooser
	at      time.Time
	why     string
}

// get is the denial that is remembered of a service; the zero value: none.
func (m *denialsSeen) get(service types.NamespacedName) denial {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all[service]
}

// put remembers a denial, or that there is none.
func (m *denialsSeen) put(service types.NamespacedName, d denial) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d.why == "" {
		delete(m.all, service)
		return
	}
	if m.all == nil {
		m.all = map[types.NamespacedName]denial{}
	}
	m.all[service] = d
}

func (m *denialsSeen) forget(service types.NamespacedName) { m.put(service, denial{}) }

// heldDenial is the remembered denial where it still holds, else what the Deployment
// shows now.
func heldDenial(s *snapshot) denial {
	asked, known := s.fastPath, s.fastPath.denial
	if known.of == s.service.UID && known.level == asked.level && known.chooser == asked.chooser && s.now.Before(known.at.Add(remembered)) {
		return known
	}
	why := denied(s.routerDeployment)
	if why == "" {
		return denial{}
	}
	return denial{of: s.service.UID, level: asked.level, chooser: asked.chooser, at: s.now, why: why}
}
