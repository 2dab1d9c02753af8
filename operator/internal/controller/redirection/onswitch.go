// SPDX-License-Identifier: Apache-2.0

// What a switch adds to the conditions of a Service that it redirects. Pure but for the board that it asks.
package redirection

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/switchboard"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
)

// withSwitch judges a Service anew by what its switch says.
func withSwitch(d decision, board *switchboard.Board) decision {
	name := d.service.Annotations[v1alpha1.AnnotationSwitch]
	if d.released || name == "" || !d.accepted.OK() {
		return d
	}
	d.accepted, d.programmed = judgedBySwitch(d.service, name, board, d.accepted, d.programmed)
	return d
}

func judgedBySwitch(s *corev1.Service, name string, board *switchboard.Board, accepted, programmed verdict.Verdict) (a, p verdict.Verdict) {
	answer, found, there := board.Answered(name, s.Namespace, s.Name)
	refuse := func(reason, text string) (a, p verdict.Verdict) {
		v := verdict.No(reason, "annotation "+v1alpha1.AnnotationSwitch+": "+text)
		return v, verdict.No(v1alpha1.ReasonNotAccepted, v.Message)
	}
	waits := func(text string) (a, p verdict.Verdict) {
		if programmed.OK() {
			programmed = verdict.No(v1alpha1.ReasonSwitchNotProgrammed, text)
		}
		return accepted, programmed
	}
	switch {
	case !there:
		return refuse(v1alpha1.ReasonSwitchNotFound, fmt.Sprintf("there is no ProgrammableSwitch %q; nobody redirects connections to the Service's address", name))
	case len(crabplan.Addresses(s)) == 0:
		return accepted, programmed // it gets one first
	case !found:
		return waits(fmt.Sprintf("ProgrammableSwitch %s has yet to be asked", name))
	case answer.Reason != "":
		return refuse(answer.Reason, answer.Message)
	case answer.ConfigHash != crabplan.Revision(s):
		return waits(fmt.Sprintf("ProgrammableSwitch %s has not read the Service's entries back yet", name))
	}
	if len(answer.UnreachableWorkers) > 0 {
		accepted = verdict.Yes(v1alpha1.ReasonEndpointsExcluded, fmt.Sprintf("ProgrammableSwitch %s knows no way to %s: no network of its `spec.nextHops` holds them, and they get no connections",
			name, strings.Join(answer.UnreachableWorkers, ", ")))
	}
	if programmed.OK() {
		programmed.Message += fmt.Sprintf("; ProgrammableSwitch %s holds it with %d servers", name, answer.Workers)
	}
	return accepted, programmed
}
