// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// copyName is the name of a copy without a capability.
func copyName(capability string) string {
	return "without-" + strings.ReplaceAll(strings.ToLower(capability), "_", "-")
}

// capabilities: each that the operator grants is taken away from a copy of a server. A
// copy with all of them serves; one without has to end, and to say what it misses.
func (s *Suite) capabilities(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "copies of a server, each with one capability fewer", Cost: "25 s",
		Cause: "a capability is granted that nothing needs: kubectl -n " + Namespace + " logs -l without -c server --prefix"},
		func(ctx context.Context) error {
			pod, granted, err := ServerPod(ctx, s.Env, Namespace)
			if err != nil {
				return err
			}
			copies := append([]any{"nothing"}, granted...)
			for _, c := range copies {
				missing := c.(string)
				if missing == "nothing" {
					missing = ""
				}
				one, err := CopyWithout(pod, copyName(c.(string)), missing)
				if err != nil {
					return err
				}
				text, err := json.Marshal(one)
				if err != nil {
					return err
				}
				if err := s.Env.Apply(ctx, string(text)); err != nil {
					return err
				}
			}
			unneeded, err := s.unneeded(ctx, granted)
			s.Got.Set("capabilities_unneeded", len(unneeded))
			if len(unneeded) > 0 {
				err = errors.Join(err, fmt.Errorf("without %v it serves all the same", unneeded))
			}
			_, gone := s.Env.Kubectl(ctx, "-n", Namespace, "delete", "pods", "-l", "without", "--wait=true", "--timeout=60s")
			return errors.Join(err, gone)
		})
}

// unneeded waits until the copy with everything serves and the others have either ended or
// serve, too. Those that serve did without what they miss.
func (s *Suite) unneeded(ctx context.Context, granted []any) (serve []string, err error) {
	if _, err := Outcome(ctx, s.Env, Namespace, copyName("nothing"), Listens); err != nil {
		return nil, fmt.Errorf("a copy with all capabilities does not serve, so the others prove nothing: %w", err)
	}
	for _, c := range granted {
		capability := c.(string)
		log, err := Outcome(ctx, s.Env, Namespace, copyName(capability), "CAP_"+capability)
		switch {
		case err != nil:
			return nil, fmt.Errorf("without %s: %w", capability, err)
		case strings.Contains(log, Listens):
			serve = append(serve, capability)
		default:
			s.Steps.Say("     without %-9s %s", capability, LastLine(log))
		}
	}
	return serve, nil
}
