// SPDX-License-Identifier: Apache-2.0

// Cores of a server that schedules requests itself (D-6, D-7): what its pod requests,
// and what it is told.
package render

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

const (
	// AnnotationScheduling on a pod is the mode that its server was asked for.
	AnnotationScheduling = "bobtail.dev/scheduling"
	// AnnotationCores on a template is which CPU it requests and is limited to, in
	// cores; absent where the processors are the pod's own.
	AnnotationCores = "bobtail.dev/cores"
	// AnnotationBesidesCores on a template is a digest of the rest of it.
	AnnotationBesidesCores = "bobtail.dev/besides-cores"
)

// schedulingEnv tells a server that knows of it the mode. A server that does not know it
// does not look; an option would end it.
const schedulingEnv = "BOBTAIL_SCHEDULING"

// scheduling is what a configuration says of it; nil: nothing.
func scheduling(s *v1alpha1.RpcService) *dataplane.Scheduling {
	c := s.Spec.Scheduling
	if c == nil {
		return nil
	}
	return &dataplane.Scheduling{
		Mode: string(c.Mode), BatchSize: int(cmp.Or(c.BatchSize, 64)), MinCores: int(c.Least()), MaxCores: int(c.MaxCores),
		Ordering: string(cmp.Or(c.Ordering, v1alpha1.OrderingPerRequest)),
	}
}

// Exclusive says whether the processors of a server are its own.
func Exclusive(s *v1alpha1.RpcService) bool {
	c := s.Spec.Scheduling
	return c != nil && c.CPUs == v1alpha1.CPUsExclusive
}

// onItsCores comes after the template, as onItsDevice does.
func onItsCores(in Input, pod corev1.PodSpec) corev1.PodSpec {
	c := in.Service.Spec.Scheduling
	if c == nil {
		return pod
	}
	main := &pod.Containers[0]
	main.Env = append(main.Env, corev1.EnvVar{Name: schedulingEnv, Value: string(c.Mode)})
	if Exclusive(in.Service) {
		guarantee(main, *resource.NewQuantity(int64(c.MaxCores), resource.DecimalSI))
		for i := range pod.InitContainers {
			if pod.InitContainers[i].Name == sidecarName {
				guarantee(&pod.InitContainers[i], sidecarShare(in.Service))
			}
		}
		return pod
	}
	main.Resources = WithCores(main.Resources, coresOf(in.Service))
	return pod
}

// Cores are a request of CPU and its limit.
type Cores struct{ Least, Most int32 }

func (c Cores) String() string { return fmt.Sprintf("%d-%d", c.Least, c.Most) }

func coresOf(s *v1alpha1.RpcService) Cores {
	return Cores{Least: s.Spec.Scheduling.Least(), Most: s.Spec.Scheduling.MaxCores}
}

// LendsCores is the CPU that the specification wants of pods which can be changed in
// place; false: none can.
func LendsCores(s *v1alpha1.RpcService) (Cores, bool) {
	if s.Spec.Scheduling == nil || Exclusive(s) {
		return Cores{}, false
	}
	return coresOf(s), true
}

// WithCores is what a container requests with this CPU.
func WithCores(r corev1.ResourceRequirements, c Cores) corev1.ResourceRequirements {
	request(&r, corev1.ResourceCPU, *resource.NewQuantity(int64(c.Least), resource.DecimalSI))
	r.Limits[corev1.ResourceCPU] = *resource.NewQuantity(int64(c.Most), resource.DecimalSI)
	return r
}

// Standing is what the template of the live Deployment says of its cores.
type Standing struct {
	Cores        Cores
	BesidesCores string
}

// StandingOf reads it; false: there is nothing, or nothing that can be read.
func StandingOf(d *appsv1.Deployment) (Standing, bool) {
	if d == nil {
		return Standing{}, false
	}
	of := d.Spec.Template.Annotations
	s := Standing{BesidesCores: of[AnnotationBesidesCores]}
	_, err := fmt.Sscanf(of[AnnotationCores], "%d-%d", &s.Cores.Least, &s.Cores.Most) // all of them, or an error
	return s, err == nil && s.BesidesCores != ""
}

// markCores says in a template what it is about. While nothing but cores has changed, the
// template keeps what it had: pods are then changed in place, and none is made anew. The
// next rollout takes the present ones.
func markCores(in Input, t *corev1.PodTemplateSpec) {
	cores, lends := LendsCores(in.Service)
	if in.Service.Spec.Scheduling == nil {
		return
	}
	t.Annotations[AnnotationScheduling] = string(in.Service.Spec.Scheduling.Mode)
	if !lends {
		return
	}
	main := &t.Spec.Containers[0]
	main.Resources = WithCores(main.Resources, Cores{})
	digest := digestOf(t)
	if in.Standing.BesidesCores == digest {
		cores = in.Standing.Cores
	}
	main.Resources = WithCores(main.Resources, cores)
	t.Annotations[AnnotationCores], t.Annotations[AnnotationBesidesCores] = cores.String(), digest
}

func digestOf(t *corev1.PodTemplateSpec) string {
	text, err := json.Marshal(t)
	if err != nil {
		panic("templates of the API server's own types are always encoded: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
