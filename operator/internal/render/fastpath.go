// SPDX-License-Identifier: Apache-2.0

// Who gets the fast path: the service says, or else the cluster.
package render

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// fastPathCapabilities load the program and attach it to the pod's own device. It
// is pinned nowhere, so there is no file system to mount.
var fastPathCapabilities = []corev1.Capability{"BPF", "NET_ADMIN"}

// FastPath says who asks that routers let the kernel decide requests; empty:
// nobody. The cluster's choice counts where the service leaves the field out, and
// only where its specification leaves the program something to do.
func FastPath(s *v1alpha1.RpcService, cluster v1alpha1.FastPathMode) v1alpha1.FastPathChooser {
	switch own := s.Spec.Router.FastPath; {
	case !HasRouter(s), !OnKernel(s.Spec.Device.Device):
	case own == v1alpha1.FastPathAuto:
		return v1alpha1.FastPathByService
	case own == "" && cluster == v1alpha1.FastPathAuto && fastPathHelps(s):
		return v1alpha1.FastPathByCluster
	}
	return ""
}

// fastPathHelps is what the API server's rules ask of a service that says Auto
// itself: they refuse it, whereas the choice of a cluster passes it by.
func fastPathHelps(s *v1alpha1.RpcService) bool {
	r, h := s.Spec.Router, s.Spec.Hedging
	return Forwarding(s) != v1alpha1.ForwardingTransparent && r.Policy == v1alpha1.PolicyJBSQ && r.HoldBack == nil &&
		(h == nil || h.Mode == v1alpha1.HedgingOff)
}

// HasFastPath says whether the pods of a Deployment are made for the fast path.
func HasFastPath(d *appsv1.Deployment) bool {
	for _, c := range d.Spec.Template.Spec.Containers {
		if s := c.SecurityContext; s != nil && s.Capabilities != nil && slices.Contains(s.Capabilities.Add, fastPathCapabilities[0]) {
			return true
		}
	}
	return false
}
