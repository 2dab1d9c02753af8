// SPDX-License-Identifier: Apache-2.0

// Whether routers are to let the kernel decide requests, and whether they do, in
// their own words.
package rpcservice

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// fastPath is who asks for it, and why the pods would not be admitted.
type fastPath struct {
	chooser v1alpha1.FastPathChooser // empty: nobody asks
	barred  string                   // empty: they are admitted
}

// given says whether router pods are made for it.
func (f fastPath) given() bool { return f.chooser != "" && f.barred == "" }

// gatherFastPath reads what a service that is to have it depends on.
func (r *Reconciler) gatherFastPath(ctx context.Context, s *snapshot) error {
	chooser := render.FastPath(s.service, r.FastPath)
	if chooser == "" {
		r.denials.forget(client.ObjectKeyFromObject(s.service))
		return nil
	}
	namespace := s.service.Namespace
	level, err := r.enforced(ctx, namespace)
	if err != nil {
		return err
	}
	s.fastPath = fastPath{chooser: chooser, barred: barredByLabel(namespace, level)}
	if s.fastPath.barred != "" {
		return nil
	}
	if denial := r.denials.look(s, level, chooser); denial != "" {
		s.fastPath.barred = barredByDenial(namespace, denial)
	}
	return nil
}

// fastPathStatus sums up what live routers say; nil while nobody asks for it.
func fastPathStatus(s *snapshot) *v1alpha1.FastPathStatus {
	if s.fastPath.chooser == "" {
		return nil
	}
	routers, active, reason, message := countFastPaths(s)
	out := &v1alpha1.FastPathStatus{State: v1alpha1.FastPathPartial, ChosenBy: s.fastPath.chooser, ActiveRouters: active, Reason: reason}
	switch {
	case routers == 0:
		out.State, out.Reason, message = v1alpha1.FastPathInactive, v1alpha1.FastPathReasonNoAnswer, "no router has answered"
	case active == routers:
		out.State, out.Reason = v1alpha1.FastPathActive, v1alpha1.FastPathReasonActive
	case active == 0:
		out.State = v1alpha1.FastPathInactive
	}
	if s.fastPath.barred != "" {
		// Routers that still have it are on their way out.
		out.State, out.Reason, message = v1alpha1.FastPathInactive, v1alpha1.FastPathReasonPodSecurity, s.fastPath.barred
		if active > 0 {
			out.State = v1alpha1.FastPathPartial
		}
	}
	out.Message = fmt.Sprintf("%d of %d routers decide requests in the kernel", active, routers)
	if message != "" {
		out.Message += "; " + message
	}
	return out
}

// countFastPaths counts the routers that answer and those among them that decide
// in the kernel, and says why the oldest of the others does not.
func countFastPaths(s *snapshot) (routers, active int32, reason, message string) {
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
	return routers, active, reason, message
}

// fastPathOf is what a router says. One that says nothing was started without
// it, from the template before this one.
func fastPathOf(d *dataplane.State) dataplane.FastPathState {
	if d.FastPath == nil {
		return dataplane.FastPathState{Reason: v1alpha1.FastPathReasonRollingOut, Message: "it was started without the fast path"}
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
