// SPDX-License-Identifier: Apache-2.0

// Resources of containers that own a device. The kubelet pins whole CPUs for Guaranteed
// pods alone, and takes NUMA into account for these alone.
package render

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// What a program with DPDK's default number of packet buffers takes where nobody says.
var (
	deviceCPU    = resource.MustParse("100m")
	deviceMemory = resource.MustParse("256Mi")
)

// wholeCPUs is the number of CPUs a container gets when nobody says: a thread that polls
// never sleeps, and a server has one for packets beside its workers.
func wholeCPUs(in Input, component string) resource.Quantity {
	n := int64(1)
	if component == v1alpha1.ComponentServer {
		n += int64(in.Service.Spec.WorkersPerReplica)
	}
	return *resource.NewQuantity(n, resource.DecimalSI)
}

// guarantee makes requests of a container its limits: of CPUs what was asked for,
// rounded up to whole ones except for a share that is a default, and of memory.
func guarantee(c *corev1.Container, cpus resource.Quantity) {
	r := &c.Resources
	if asked := most(*r, corev1.ResourceCPU); !asked.IsZero() && c.Name != sidecarName {
		cpus = *resource.NewQuantity((asked.MilliValue()+999)/1000, resource.DecimalSI)
	}
	memory := most(*r, corev1.ResourceMemory)
	if memory.IsZero() {
		memory = deviceMemory
	}
	request(r, corev1.ResourceCPU, cpus)
	request(r, corev1.ResourceMemory, memory)
}

// atLeast adds requests of CPU and memory where there are none: a pod may not request
// hugepages alone.
func atLeast(r *corev1.ResourceRequirements) {
	requests := r.Requests.DeepCopy()
	if requests == nil {
		requests = corev1.ResourceList{}
	}
	for name, least := range map[corev1.ResourceName]resource.Quantity{corev1.ResourceCPU: deviceCPU, corev1.ResourceMemory: deviceMemory} {
		_, asked := requests[name]
		if limit, limited := r.Limits[name]; !asked && limited {
			requests[name] = limit
		} else if !asked {
			requests[name] = least
		}
	}
	r.Requests = requests
}

// most is the larger of request and limit.
func most(r corev1.ResourceRequirements, name corev1.ResourceName) resource.Quantity {
	a, b := r.Requests[name], r.Limits[name]
	if a.Cmp(b) > 0 {
		return a
	}
	return b
}

// request sets request and limit, and leaves the lists of others alone.
func request(r *corev1.ResourceRequirements, name corev1.ResourceName, amount resource.Quantity) {
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	for n, q := range r.Requests {
		requests[n] = q
	}
	for n, q := range r.Limits {
		limits[n] = q
	}
	requests[name], limits[name] = amount, amount
	r.Requests, r.Limits = requests, limits
}
