// SPDX-License-Identifier: Apache-2.0

// The plan: from a snapshot to what should be there, by pure functions. Nothing here
// reads or writes anything.
package rpcservice

import (
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/verdict"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// Bounds of one configuration document.
const (
	maxWorkers = 1024
	maxRouters = 16
)

// plan is what one reconciliation is to do.
type plan struct {
	accepted verdict.Verdict
	overTCP  bool
	// input is what everything is rendered from, objects is all of it but Secrets and
	// configuration, in the order in which it is applied.
	input   render.Input
	objects []render.Object
	// secrets says that keys and certificate are looked after; keys is the keyring to
	// have, certificate says why one is to be issued anew, empty: it is good.
	secrets     bool
	keys        keyring
	certificate string
	// document is the configuration to hand out once everything stands.
	document desired
	hedging  *v1alpha1.HedgingStatus
	fastPath fastPath
	device   deviceDecision
	onSwitch switchDecision
	// resizes are the pods whose CPU is changed in place.
	resizes []resize
	// replaced are the pods that are evicted, because their device is gone.
	replaced []*corev1.Pod
	remember memory
	// failed is what could not be planned and is tried again.
	failed error
}

// memory is what the next snapshot should find.
type memory struct {
	counted counted
	denial  denial
	lagged  map[string]time.Time
}

// planFor is the one decision about a snapshot.
func planFor(s *snapshot) *plan {
	p := &plan{accepted: decideAccepted(s), overTCP: render.ByCRAB(s.service), input: s.input}
	var expected float64
	p.hedging, expected = decideHedging(s)
	p.remember.counted = s.counted.expecting(expected)
	p.fastPath, p.remember.denial = decideFastPath(s)
	p.input.FastPath, p.input.LiveWorkers = p.fastPath.given(), mostWorkers(s.servers)
	p.input.Accounts = renewals(s)
	p.remember.lagged = lagging(s)
	p.planSwitch(s)
	p.planDevice(s)
	p.input.Standing, _ = render.StandingOf(s.serverDeployment)
	p.resizes = decideResizes(s)
	p.objects = render.Objects(p.input)
	if p.overTCP || !p.accepted.OK() && (!s.live.exists || s.secretTaken) {
		return p
	}
	p.secrets = true
	p.keys = decideKeys(s, p.accepted.OK())
	p.certificate = decideCertificate(s)
	p.planDocument(s)
	return p
}

// planDevice says which device pods are made for, and what clients see of them.
func (p *plan) planDevice(s *snapshot) {
	p.device = decideDevice(s)
	d := p.device.device
	p.replaced = decideReplaced(s, d)
	p.input.Device, p.input.WithoutSurge = d, withoutSurge(s, d)
	p.input.Slices = s.devices.able && !p.overTCP && (!render.OnKernel(s.service.Spec.Device.Device) || p.input.Switched || s.slices.ours)
	if p.input.Slices {
		p.input.Endpoints, p.input.EmptyingSelector = withSwitch(endpoints(s), p.onSwitch), s.slices.theirs
	}
}

// planDocument finds a document that breaks a bound before anything is changed: then
// it is the specification that cannot be accepted.
func (p *plan) planDocument(s *snapshot) {
	var err error
	if p.document, err = decideConfig(s, p, p.accepted.OK()); err == nil {
		return
	}
	var field *dataplane.FieldError
	if !errors.As(err, &field) {
		p.failed = err
		return
	}
	if p.accepted.OK() {
		p.accepted = verdict.No(v1alpha1.ReasonInvalidConfiguration, err.Error())
		p.document, p.failed = keptConfig(s, p)
	}
}

// keptConfig is the last accepted document, brought up to date with the pods. That it
// breaks a bound is no news.
func keptConfig(s *snapshot, p *plan) (desired, error) {
	d, err := decideConfig(s, p, false)
	var field *dataplane.FieldError
	if errors.As(err, &field) {
		return desired{}, nil
	}
	return d, err
}

// decideAccepted says whether the specification can be acted on.
func decideAccepted(s *snapshot) verdict.Verdict {
	if len(s.conflicts) > 0 {
		return verdict.No(v1alpha1.ReasonNameConflict, fmt.Sprintf(
			"%s: exists and does not belong to this RpcService; delete or rename it, or choose another name for the service",
			strings.Join(s.conflicts, ", ")))
	}
	return verdict.Yes(v1alpha1.ReasonAccepted, "the specification is valid")
}

// decideKeys is the keyring to have. Keys are made even while the specification is not
// accepted, if there are none: what serves must go on serving.
func decideKeys(s *snapshot, rotate bool) keyring {
	have := s.keys
	if !rotate && len(have.keys) > 0 {
		return have
	}
	token := s.service.Annotations[v1alpha1.AnnotationRotateKeys]
	fresh := func() []byte { return s.freshKey }
	if running := runningKeys(s); len(have.keys) == 0 && len(running) > 0 {
		return withoutHolders(s, replaceLost(running, s.now, token, fresh))
	}
	return withoutHolders(s, have.advance(s.now, token, acknowledgedExactly(s, have.named()), fresh))
}

// decideCertificate says why the sidecars need a new certificate; empty: they do not.
func decideCertificate(s *snapshot) string {
	var data map[string][]byte
	if s.tls != nil {
		data = s.tls.Data
	}
	if s.tls != nil && !ownedBy(s.tls, s.service) {
		return "its Secret belonged to nobody"
	}
	return s.authority.Stale(data, dataplane.SidecarServerName(s.service.Name, s.service.Namespace), s.now)
}
