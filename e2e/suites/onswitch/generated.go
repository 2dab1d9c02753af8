// SPDX-License-Identifier: Apache-2.0

//go:build linux

package onswitch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
	frames "github.com/bobtail-dev/bobtail/hack/p4/bed"
)

// The load that a second switch makes: so many of its templates are sent.
const (
	loaded        = "loaded"
	templatePort  = 68
	templates     = 1000
	generatedRate = 100
)

const experimentManifest = `apiVersion: bobtail.dev/v1alpha1
kind: LatencyExperiment
metadata: {name: from-the-switch, namespace: %[1]s}
spec:
  placement: Switch
  switch: {name: %[2]s, templatePort: %[3]d, templatesPerSecond: %[4]d}
  target: {addresses: [%[5]s]}
  load: {requestsPerSecond: %[6]d}
  percentile: "90"
  widthMicroseconds: 100000
  limitSeconds: 40
`

// generated: a LatencyExperiment whose load a switch makes, on the workers of a service without a router.
func (s *Suite) generated(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "a LatencyExperiment with placement Switch, until it is conclusive", Cost: "2 min",
		Cause: "no templates come in, or replies find no way: kubectl -n " + Namespace + " describe lexp"}, func(ctx context.Context) error {
		b, err := newBed(ctx, s.Env, generator)
		if err != nil {
			return err
		}
		err = s.experiment(ctx, b)
		_, gone := s.Env.Kubectl(ctx, "delete", "psw", generator.name, "--ignore-not-found", "--timeout=60s")
		return errors.Join(err, gone, b.close(ctx))
	})
}

func (s *Suite) experiment(ctx context.Context, b *bed) error {
	if _, err := s.apply(ctx, generator); err != nil {
		return err
	}
	targets, err := s.workers(ctx)
	if err != nil {
		return err
	}
	text := fmt.Sprintf(experimentManifest, Namespace, generator.name, templatePort, templates, strings.Join(targets, ", "), generatedRate)
	if err := s.Env.Apply(ctx, text); err != nil {
		return err
	}
	// A template costs the checker as much as some entries. So they begin when all 65,536 gaps are there.
	err = harness.Until(ctx, 5*time.Minute, time.Second, func(ctx context.Context) (bool, string, error) {
		version, err := s.Env.Kubectl(ctx, "get", "psw", generator.name, "-o", "jsonpath={.status.services[*].configHash}")
		return version != "", "the switch does not hold the gaps of the load yet", err
	})
	if err != nil {
		return err
	}
	b.pipe.Generate(templatePort, frames.Frame(frames.Ends{SrcPort: 1 << 15, DstPort: 8000}, frames.Request(1, []byte("generated"))), templates)
	conclusive := s.Env.WaitCondition(ctx, 4*time.Minute, Namespace, "lexp", "from-the-switch", "Conclusive=True")
	figure := 0
	if conclusive == nil {
		figure = 1
	}
	s.Got.Set("switch_slog_conclusive", figure)
	return errors.Join(conclusive, s.show(ctx, "-n", Namespace, "get", "lexp"))
}

// workers are those of a service that is addressed without a router.
func (s *Suite) workers(ctx context.Context) (out []string, err error) {
	text := s.manifest(loaded, 2, 2, "1ms")
	text = text[:strings.Index(text, "  router:")] + "  router: {placement: None}\n"
	if err := s.Env.Apply(ctx, text); err != nil {
		return nil, err
	}
	if err := s.Env.WaitCondition(ctx, 2*time.Minute, Namespace, "rpcsvc", loaded, "Ready=True"); err != nil {
		return nil, err
	}
	ips, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "pods", "-l", "bobtail.dev/service="+loaded, "-o", "jsonpath={.items[*].status.podIP}")
	for _, ip := range strings.Fields(ips) {
		for n := range 2 {
			out = append(out, fmt.Sprintf("\"%s:%d\"", ip, 8000+n))
		}
	}
	if err == nil && len(out) == 0 {
		err = errors.New("the service has no pods")
	}
	return out, err
}
