// SPDX-License-Identifier: Apache-2.0

// Whether routers are to let the kernel decide requests, and whether they do, in
// their own words.
package rpcservice

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// fastPath is who asks for it, and why the pods would not be admitted.
type fastPath struct {
	chooser v1alpha1.FastPathChooser // empty: nobody asks
	barred  string                   // empty: they are admitted
}

// given says whether router pods are made for it.
func (f fastPath) given() bool { return f.chooser != "" && f.barred == "" }

// fastPathAsked is who asks for it, and what is known of the namespace.
type fastPathAsked struct {
	chooser v1alpha1.FastPathChooser // empty: nobody asks
	level   string                   // of its label
	denial  denial                   // as remembered
}

// decideFastPath says whether routers are made for it, and which denial is to be
// remembered.
func decideFastPath(s *snapshot) (fastPath, denial) {
	asked, namespace := s.fastPath, s.service.Namespace
	if asked.chooser == "" {
		return fastPath{}, denial{}
	}
	f := fastPath{chooser: asked.chooser, barred: barredByLabel(namespace, asked.level)}
	if f.barred != "" {
		return f, asked.denial
	}
	known := heldDenial(s)
	if known.why != "" {
		f.barred = barredByDenial(namespace, known.why)
	}
	return f, known
}

// fastPathStatus sums up what live routers say; nil while nobody asks for it.
func fastPathStatus(s *snapshot, f fastPath) *v1alpha1.FastPathStatus {
	if f.chooser == "" {
		return nil
	}
	routers, active, reason, message := countFastPaths(s)
	out := &v1alpha1.FastPathStatus{State: v1alpha1.FastPathPartial, ChosenBy: f.chooser, ActiveRouters: active, Reason: reason}
	switch {
	case routers == 0:
		out.State, out.Reason, message = v1alpha1.FastPathInactive, v1alpha1.FastPathReasonNoAnswer, "no router has answered"
	case active == routers:
		out.State, out.Reason = v1alpha1.FastPathActive, v1alpha1.FastPathReasonActive
	case active == 0:
		out.State = v1alpha1.FastPathInactive
	}
	if f.barred != "" {
		// Routers that still have it are on their way out.
		out.State, out.Reason, message = v1alpha1.FastPathInactive, v1alpha1.FastPathReasonPodSecurity, f.barred
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
		if !live(p) || a.Reply == nil || a.Reply.Dataplane == nil {
			continue
		}
		routers++
		said := fastPathOf(a.Reply.Dataplane)
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
