// SPDX-License-Identifier: Apache-2.0

// Whether routers let the kernel decide requests, in their own words.
package rpcservice

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// fastPathStatus sums up what live routers say; nil while nobody asked for it.
func fastPathStatus(s *snapshot) *v1alpha1.FastPathStatus {
	if !render.FastPath(s.service) {
		return nil
	}
	var routers, active int32
	var reason, message string
	for _, p := range s.routers {
		a := s.states[p.Name]
		if !live(p) || a.state == nil || a.state.Dataplane == nil {
			continue
		}
		routers++
		said := fastPathOf(a.state.Dataplane)
		switch {
		case said.Active:
			active++
		case reason == "":
			reason, message = said.Reason, excuse(p, said)
		}
	}
	out := &v1alpha1.FastPathStatus{State: v1alpha1.FastPathPartial, ActiveRouters: active, Reason: reason}
	switch {
	case routers == 0:
		out.State, out.Reason, message = v1alpha1.FastPathInactive, v1alpha1.FastPathReasonNoAnswer, "no router has answered"
	case active == routers:
		out.State, out.Reason = v1alpha1.FastPathActive, v1alpha1.FastPathReasonActive
	case active == 0:
		out.State = v1alpha1.FastPathInactive
	}
	out.Message = fmt.Sprintf("%d of %d routers decide requests in the kernel", active, routers)
	if message != "" {
		out.Message += "; " + message
	}
	return out
}

// fastPathOf is what a router says. One that says nothing was started without
// it, from the template before this one.
func fastPathOf(d *dataplane.State) dataplane.FastPathState {
	if d.FastPath == nil {
		return dataplane.FastPathState{Reason: v1alpha1.FastPathReasonRollingOut, Message: "it was started without `router.fastPath`"}
	}
	return *d.FastPath
}

func excuse(p *corev1.Pod, said dataplane.FastPathState) string {
	const longest = 512 // the field takes 1024
	if len(said.Message) > longest {
		said.Message = said.Message[:longest]
	}
	return fmt.Sprintf("%s: %s", p.Name, said.Message)
}
