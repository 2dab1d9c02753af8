// SPDX-License-Identifier: Apache-2.0

// Whether the pods are those that the specification asks for. Enough ready pods
// are not enough: during a rollout, and for ever when it is stuck, they are pods
// of an earlier specification.
package rpcservice

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/bobtail-dev/bobtail/operator/internal/controller/apply"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// rollingOut says which Deployment still runs something else than was last
// written, and why; empty when none does. written is the versions as written, by name.
func rollingOut(s *snapshot, wanted []render.Object, written map[string]string) string {
	for _, o := range wanted {
		if o.GetObjectKind().GroupVersionKind().Kind != "Deployment" {
			continue
		}
		d, pods := s.serverDeployment, s.servers
		if o.GetName() == render.RouterName(s.service) {
			d, pods = s.routerDeployment, s.routers
		}
		if why := unfinishedRollout(o.GetName(), d, written[o.GetName()]); why != "" {
			return because(why, d, pods)
		}
	}
	return ""
}

// unfinishedRollout judges one Deployment as `kubectl rollout status` does.
// written is the version it was last given, which the one read may lag behind.
func unfinishedRollout(name string, d *appsv1.Deployment, written string) string {
	if d == nil || apply.Version(d) != written || d.Status.ObservedGeneration < d.Generation {
		return fmt.Sprintf("Deployment %s has just been changed", name)
	}
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	switch updated := d.Status.UpdatedReplicas; {
	case updated < want:
		return fmt.Sprintf("%d of %d pods of Deployment %s are of the present specification", updated, want, name)
	case d.Status.Replicas > updated:
		return fmt.Sprintf("%d pods of Deployment %s are of an earlier specification", d.Status.Replicas-updated, name)
	}
	return ""
}
