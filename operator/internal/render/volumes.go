// SPDX-License-Identifier: Apache-2.0

// Volumes and resources of the pods: long literals kept away from the shape of
// the pods themselves.
package render

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

func volumes(in Input) []corev1.Volume {
	s := in.of()
	return []corev1.Volume{
		// Survives restarts of containers: a router that crashes finds its
		// last configuration here.
		{Name: runVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: resource.NewQuantity(16<<20, resource.BinarySI)}}},
		secretVolume(keysVolume, KeysName(s)),
		secretVolume(tlsVolume, TLSName(s)),
		{Name: tokenVolume, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			DefaultMode: ptr[int32](0o440),
			Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: ptr[int64](3607)}},
				{ConfigMap: &corev1.ConfigMapProjection{
					LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
					Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
				}},
				{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
					Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
				}}}},
			},
		}}},
	}
}

func secretVolume(name, secret string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: ptr[int32](0o440)},
	}}
}

// resources sets requests, and a memory limit unless it is empty.
func resources(cpu, memory, memoryLimit string) corev1.ResourceRequirements {
	r := corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
	}}
	if memoryLimit != "" {
		r.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memoryLimit)}
	}
	return r
}

// Every container of ours has limits, so that a quota on them refuses none.
var (
	sidecarDefault     = v1alpha1.Resources{Requests: amounts("10m", "32Mi", "16Mi"), Limits: amounts("500m", "128Mi", "64Mi")}
	coordinatorDefault = v1alpha1.Resources{Requests: amounts("50m", "64Mi", "16Mi"), Limits: amounts("1", "256Mi", "64Mi")}
)

func amounts(cpu, memory, storage string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory), corev1.ResourceEphemeralStorage: resource.MustParse(storage),
	}
}

// orDefault is what was asked for, and the default of whichever half was not. Where a
// default does not agree with the half that was given, that half goes for both.
func orDefault(given *v1alpha1.Resources, otherwise v1alpha1.Resources) corev1.ResourceRequirements {
	if given == nil {
		return requirements(*otherwise.DeepCopy())
	}
	out := *given.DeepCopy()
	if out.Requests == nil {
		out.Requests = otherwise.Requests.DeepCopy()
		for name, limit := range out.Limits {
			if r, asked := out.Requests[name]; asked && r.Cmp(limit) > 0 {
				out.Requests[name] = limit
			}
		}
	}
	if out.Limits == nil {
		out.Limits = otherwise.Limits.DeepCopy()
		for name, request := range out.Requests {
			if l, limited := out.Limits[name]; limited && l.Cmp(request) < 0 {
				out.Limits[name] = request
			}
		}
	}
	return requirements(out)
}

func requirements(r v1alpha1.Resources) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: r.Requests, Limits: r.Limits}
}
