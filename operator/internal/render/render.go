// SPDX-License-Identifier: Apache-2.0

// Package render turns an RpcService into the objects that run it. It is pure:
// the same input gives the same objects, so every case is a pair of files in
// testdata, and a reviewer sees a change of behaviour as a change of YAML.
package render

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// Object is anything that can be applied.
type Object interface {
	runtime.Object
	metav1.Object
}

// Input is everything the objects of one service depend on.
type Input struct {
	Service *v1alpha1.RpcService

	// Group is what objects are made for instead of a service; see GroupObjects.
	Group *v1alpha1.ReplicationGroup

	// Registry and Version name the images of router and sidecar:
	// `<registry>/bobtail/<component>:<version>`.
	Registry string
	Version  string

	// OperatorNamespace is where the operator runs; only its pods may read
	// the sidecars.
	OperatorNamespace string

	// OTLPEndpoint is where sidecars send the spans of traced requests; "" is nowhere.
	OTLPEndpoint string

	// FastPath makes router pods for the fast path: somebody asks for it, and the
	// namespace admits them.
	FastPath bool

	// Accounts is, by component, the identity of the ServiceAccount for which its pods
	// are made anew; empty: none was lost.
	Accounts map[string]string

	// Device is the one of `spec.device` in effect; the zero value is Kernel.
	Device v1alpha1.Device

	// WithoutSurge makes rollouts take a pod away before they make its successor: there
	// is no device for a pod more.
	WithoutSurge bool

	// Slices says that the Services have EndpointSlices of ours: the device is not
	// Kernel, or was not, or a switch stands or stood in them. Endpoints are what stands
	// in them.
	Slices bool
	// Switched says that clients may be given a switch's address in the place of pods'.
	Switched  bool
	Endpoints []Endpoint

	// EmptyingSelector says that Kubernetes has yet to empty the slices it made.
	EmptyingSelector bool

	// Replicas is how many pods a group has, and MaxUnavailable how many of them may be
	// evicted at a time.
	Replicas, MaxUnavailable int32
	// Restoring: the group is to begin with what `spec.restore` names.
	Restoring bool
	// HadAggregator: its aggregator has been a pod's, whose Deployment is there.
	HadAggregator bool

	// Standing is what the live server Deployment says of its cores; the zero value:
	// nothing.
	Standing Standing

	// LiveWorkers is the number of workers of the pod that has the most of
	// them. During a rollout it may be above what the specification asks for.
	LiveWorkers int32
}

// Ports and paths shared by everything in a pod.
const (
	// WorkerPort is the UDP port of worker 0; worker i has WorkerPort+i.
	WorkerPort = 8000
	// RequestPort is where routers take requests.
	RequestPort = 8000
	// FeedbackPort is where routers take FEEDBACK.
	FeedbackPort = 9000
	// SidecarPort is the sidecar's read over mutual TLS.
	SidecarPort = 9443
	// MetricsPort is the sidecar's Prometheus and health port.
	MetricsPort = 9464

	runDir   = "/run/bobtail"
	ctlPath  = runDir + "/ctl.sock"
	cacheFn  = runDir + "/config.json"
	keyDir   = "/etc/bobtail/keys"
	tlsDir   = "/etc/bobtail/tls"
	tokenDir = "/var/run/secrets/kubernetes.io/serviceaccount"

	// userID is the unprivileged user of every container: the control socket
	// is shared between containers of a pod, so they must agree on it.
	userID = 65532

	// graceSeconds is above the 20 s that routers and servers take at most to
	// drain, so that the kubelet never cuts a drain short.
	graceSeconds = 30
)

// AnnotationWorkers on a pod is the number of its workers. Pods of the previous
// template live on during a rollout, with the number they were started with.
const AnnotationWorkers = "bobtail.dev/workers"

// AnnotationAccount on a pod is the identity of the ServiceAccount it was made anew for:
// a token of the account before is good for nothing.
const AnnotationAccount = "bobtail.dev/sidecar-account"

// LabelManagedBy with the value ManagedBy marks what the operator makes.
const (
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "bobtail-operator"
)

// Objects returns everything made for a service but its configuration and its
// Secrets, in the order in which it should be applied.
func Objects(in Input) []Object {
	if ByCRAB(in.Service) {
		return tcpObjects(in)
	}
	objects := []Object{
		serviceAccount(in), role(in), roleBinding(in),
		serverPolicy(in), clientService(in), serversService(in), serverBudget(in), serverDeployment(in),
	}
	if in.Slices {
		objects = append(objects, endpointSlices(in)...)
	}
	if HasRouter(in.Service) {
		objects = append(objects, routerPolicy(in), routerBudget(in), routerDeployment(in))
	}
	return objects
}

// OnSwitch says whether a switch is asked to place requests.
func OnSwitch(s *v1alpha1.RpcService) bool {
	return s.Spec.Router.Placement == v1alpha1.PlacementSwitch
}

// HasRouter says whether the service has routers, be it that they stand by.
func HasRouter(s *v1alpha1.RpcService) bool {
	return s.Spec.Router.Placement != v1alpha1.PlacementNone
}

// Forwarding resolves forwarding Auto. Pod networks drop packets whose source
// is not the pod's own, and so do cards that check what a virtual function sends: the
// address travels inside.
func Forwarding(s *v1alpha1.RpcService) v1alpha1.ForwardingMode {
	if f := s.Spec.Router.Forwarding; f != v1alpha1.ForwardingAuto && f != "" {
		return f
	}
	return v1alpha1.ForwardingEncapsulated
}

// Replicas is spec.replicas with its default.
func Replicas(s *v1alpha1.RpcService) int32 {
	if s.Spec.Replicas == nil {
		return 2
	}
	return *s.Spec.Replicas
}

// ServerName is the name of the server Deployment and its network policy.
func ServerName(s *v1alpha1.RpcService) string { return s.Name + "-server" }

// RouterName is the name of the router Deployment, its budget and its policy.
func RouterName(s *v1alpha1.RpcService) string { return s.Name + "-router" }

// Named is an RpcService or a ReplicationGroup.
type Named interface{ GetName() string }

// ConfigMapName is the name of the ConfigMap that configures the dataplane.
func ConfigMapName(of Named) string { return of.GetName() + "-dataplane" }

// KeysName is the name of the Secret with the packet keys.
func KeysName(of Named) string { return of.GetName() + "-keys" }

// TLSName is the name of the Secret with the sidecars' certificate.
func TLSName(of Named) string { return of.GetName() + "-tls" }

// SidecarName is the name of the sidecars' account, role and binding.
func SidecarName(of Named) string { return of.GetName() + "-sidecar" }

// Address is what clients are given as the target. Over TCP a name leads through
// kube-proxy, so an address of the load balancer is better: balanced are those it has.
func Address(s *v1alpha1.RpcService, balanced []string) string {
	if ByCRAB(s) && len(balanced) > 0 {
		return balanced[0]
	}
	return NamedAddress(s)
}

// NamedAddress is the address by the name of the service.
func NamedAddress(s *v1alpha1.RpcService) string {
	number := int32(RequestPort)
	if TCP(s) {
		number = s.Spec.TCP.Port
	}
	return fmt.Sprintf("%s.%s.svc:%d", s.Name, s.Namespace, number)
}

// Selector matches the pods of one component of a service.
func Selector(service, component string) map[string]string {
	return map[string]string{v1alpha1.LabelService: service, v1alpha1.LabelComponent: component}
}

// meta is the metadata of an object made for the service, or for the group.
func meta(in Input, name, component string) metav1.ObjectMeta {
	owner, app := in.owner()
	labels := recommended(app, owner.Name, component)
	labels[v1alpha1.LabelService] = owner.Name
	if component != "" {
		labels[v1alpha1.LabelComponent] = component
	}
	return metav1.ObjectMeta{
		Name: name, Namespace: in.namespace(), Labels: labels,
		OwnerReferences: []metav1.OwnerReference{owner},
	}
}

// owner makes an object go away with what it is made for, and says which application it
// is part of. It does not block the owner's deletion: that would need rights on
// finalizers.
func (in Input) owner() (owner metav1.OwnerReference, app string) {
	kind, app := "RpcService", nameService
	if in.Group != nil {
		kind, app = "ReplicationGroup", nameGroup
	}
	o := in.of()
	return metav1.OwnerReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: kind, Name: o.GetName(), UID: o.GetUID(), Controller: ptr(true),
	}, app
}

func (in Input) of() metav1.Object {
	if in.Group != nil {
		return in.Group
	}
	return in.Service
}

func (in Input) namespace() string { return in.of().GetNamespace() }

func (in Input) sidecarResources() *v1alpha1.Resources {
	if in.Group != nil {
		return nil
	}
	return in.Service.Spec.SidecarResources
}

func (in Input) pullSecrets() []v1alpha1.SecretReference {
	if in.Group != nil {
		return in.Group.Spec.ImagePullSecrets
	}
	return in.Service.Spec.ImagePullSecrets
}

func (in Input) image(component string) string {
	return fmt.Sprintf("%s/bobtail/%s:%s", in.Registry, component, in.Version)
}

func ptr[T any](v T) *T { return &v }
