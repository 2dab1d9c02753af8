// SPDX-License-Identifier: Apache-2.0

// The configuration of the dataplane: one document for routers and servers,
// in one ConfigMap, with the hash by which they acknowledge it.
package render

import (
	"cmp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// Peers are the pods a configuration names.
type Peers struct {
	// Servers are all server pods that have an address and are not being
	// deleted, ready or not: a pod must be allowed before it can join.
	Servers []*corev1.Pod
	// Routers are all router pods that have an address. Those being deleted
	// are among them while they still drain, so that servers keep answering
	// them.
	Routers []*corev1.Pod
	// KeyIDs are the keys that must be present.
	KeyIDs []int
	// Objective is enforced by the routers; nil: none.
	Objective *Objective
	// Addresses are where the pods are reached, by name.
	Addresses map[string]string
	// Device is the kind of device in effect; empty: Kernel.
	Device v1alpha1.DeviceType
	// Hedging is what was decided about hedged requests in mode Auto; nil: nothing yet.
	Hedging *v1alpha1.HedgingStatus
	// Switch is a switch that places requests, too; nil: none.
	Switch *dataplane.Router
}

// switchRouter begins the name of a switch among the routers of a document.
const switchRouter = "switch/"

// SwitchRouter is a switch as servers know it: a router like others.
func SwitchRouter(name, address string) *dataplane.Router {
	return &dataplane.Router{Address: address, RequestPort: RequestPort, FeedbackPort: FeedbackPort, Name: switchRouter + name}
}

// IsSwitch tells a switch from a pod, which has no slash in its name.
func IsSwitch(r dataplane.Router) bool { return strings.HasPrefix(r.Name, switchRouter) }

// Objective is what a configuration says of the objective it enforces.
type Objective struct {
	Source    dataplane.Source
	Admission *dataplane.Admission
}

// Config is the document for a service.
func Config(s *v1alpha1.RpcService, peers Peers) *dataplane.Config {
	r := s.Spec.Router
	doc := &dataplane.Config{
		APIVersion: dataplane.ConfigAPIVersion,
		Sources: []dataplane.Source{{
			Kind: "RpcService", Namespace: s.Namespace, Name: s.Name, UID: string(s.UID), Generation: s.Generation,
		}},
		Service: dataplane.Service{
			Name: s.Name, Namespace: s.Namespace,
			Placement: string(placement(s)), Policy: string(r.Policy), WorkerQueueDepth: int(r.WorkerQueueDepth),
			CentralQueueLimit: int(r.CentralQueueLimit), MaxQueueMilliseconds: int(r.MaxQueueMilliseconds),
			Forwarding: string(Forwarding(s)), DeviceProfile: string(cmp.Or(peers.Device, v1alpha1.DeviceKernel)),
			LegacyPeers:                string(s.Spec.LegacyPeers),
			RequestTimeoutMilliseconds: int(s.Spec.RequestTimeoutMilliseconds),
			WorkersPerReplica:          int(s.Spec.Lanes()),
		},
		KeyIDs: peers.KeyIDs,
	}
	if h := r.HoldBack; h != nil {
		doc.Service.HoldBack = dataplane.HoldBack{Packets: int(h.Packets), Microseconds: int(h.Microseconds)}
	}
	doc.Service.Hedging = hedging(s, peers.Hedging)
	doc.Service.FlowControl = flowControl(s, peers.Objective)
	doc.Service.Scheduling = scheduling(s)
	if o := peers.Objective; o != nil {
		doc.Service.Admission = o.Admission
		doc.Sources = append(doc.Sources, o.Source)
	}
	for _, p := range peers.Servers {
		doc.Members = append(doc.Members, dataplane.Member{
			Address: peers.Addresses[p.Name], FirstPort: WorkerPort, Workers: Workers(p), Name: p.Name,
		})
	}
	for _, p := range peers.Routers {
		doc.Routers = append(doc.Routers, dataplane.Router{
			Address: peers.Addresses[p.Name], RequestPort: RequestPort, FeedbackPort: FeedbackPort, Name: p.Name,
		})
	}
	if peers.Switch != nil {
		doc.Routers = append(doc.Routers, *peers.Switch)
	}
	return doc
}

// placement as the dataplane knows it: routers that stand by for a switch are routers.
func placement(s *v1alpha1.RpcService) v1alpha1.RouterPlacement {
	if HasRouter(s) {
		return v1alpha1.PlacementSoftware
	}
	return v1alpha1.PlacementNone
}

// Workers is the number of workers a server pod was started with.
func Workers(p *corev1.Pod) int {
	n, err := strconv.Atoi(p.Annotations[AnnotationWorkers])
	if err != nil || n < 1 {
		return 1
	}
	return n
}

// ConfigMap carries a rendered document to the sidecars.
func ConfigMap(in Input, text []byte, hash string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: meta(in, ConfigMapName(in.of()), ""),
		Data: map[string]string{
			dataplane.ConfigMapKeyConfig: string(text), dataplane.ConfigMapKeyHash: hash,
		},
	}
}

// Secret is a Secret of the service; its content is not made here, because
// making keys is not pure.
func Secret(in Input, name string, annotations map[string]string, data map[string][]byte) *corev1.Secret {
	m := meta(in, name, "")
	m.Annotations = annotations
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: m,
		Type: corev1.SecretTypeOpaque, Data: data,
	}
}
