// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// listens is what a server logs once it has its device and its port.
const listens = "workers from "

// object is a manifest as it is read and written.
type object = map[string]any

// copyWithout is a server pod as a manifest of its own, that belongs to nobody, with one of
// its capabilities fewer (none: with all), and ends when its program ends.
func copyWithout(pod object, name, capability string) (object, error) {
	text, err := json.Marshal(pod) // a deep copy
	if err != nil {
		return nil, err
	}
	var p struct {
		Metadata struct {
			Namespace   string            `json:"namespace"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Spec object `json:"spec"`
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, err
	}
	delete(p.Metadata.Annotations, "k8s.v1.cni.cncf.io/network-status") // it is told its own
	for _, key := range []string{"nodeName", "readinessGates", "topologySpreadConstraints", "priority", "preemptionPolicy"} {
		delete(p.Spec, key)
	}
	p.Spec["restartPolicy"], p.Spec["terminationGracePeriodSeconds"] = "Never", 1
	if capability != "" {
		added, err := capabilitiesOf(p.Spec)
		if err != nil {
			return nil, err
		}
		i := slices.Index(added, any(capability))
		if i < 0 {
			return nil, fmt.Errorf("the server has no capability %s, it has %v", capability, added)
		}
		set := p.Spec["containers"].([]any)[0].(object)["securityContext"].(object)["capabilities"].(object)
		set["add"] = slices.Delete(added, i, i+1)
	}
	return object{"apiVersion": "v1", "kind": "Pod", "metadata": object{
		"name": name, "namespace": p.Metadata.Namespace, "annotations": p.Metadata.Annotations, "labels": object{"without": name},
	}, "spec": p.Spec}, nil
}

// capabilitiesOf are those that the first container is given.
func capabilitiesOf(spec object) ([]any, error) {
	containers, _ := spec["containers"].([]any)
	if len(containers) == 0 {
		return nil, errors.New("a pod without containers")
	}
	first, _ := containers[0].(object)
	security, _ := first["securityContext"].(object)
	set, _ := security["capabilities"].(object)
	added, _ := set["add"].([]any)
	if len(added) == 0 {
		return nil, errors.New("the first container is given no capability")
	}
	return added, nil
}

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
			pod, granted, err := s.aServer(ctx)
			if err != nil {
				return err
			}
			copies := append([]any{"nothing"}, granted...)
			for _, c := range copies {
				missing := c.(string)
				if missing == "nothing" {
					missing = ""
				}
				one, err := copyWithout(pod, copyName(c.(string)), missing)
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

// aServer is a running server pod, and the capabilities of its program.
func (s *Suite) aServer(ctx context.Context) (object, []any, error) {
	var list struct {
		Items []object `json:"items"`
	}
	if err := s.Env.Get(ctx, &list, "-n", Namespace, "pods", "-l", "bobtail.dev/component=server"); err != nil {
		return nil, nil, err
	}
	for _, pod := range list.Items {
		if _, leaving := pod["metadata"].(object)["deletionTimestamp"]; leaving {
			continue
		}
		granted, err := capabilitiesOf(pod["spec"].(object))
		return pod, granted, err
	}
	return nil, nil, errors.New("no server is running")
}

// unneeded waits until the copy with everything serves and the others have either ended or
// serve, too. Those that serve did without what they miss.
func (s *Suite) unneeded(ctx context.Context, granted []any) (serve []string, err error) {
	if _, err := s.outcome(ctx, copyName("nothing"), listens); err != nil {
		return nil, fmt.Errorf("a copy with all capabilities does not serve, so the others prove nothing: %w", err)
	}
	for _, c := range granted {
		capability := c.(string)
		log, err := s.outcome(ctx, copyName(capability), "CAP_"+capability)
		switch {
		case err != nil:
			return nil, fmt.Errorf("without %s: %w", capability, err)
		case strings.Contains(log, listens):
			serve = append(serve, capability)
		default:
			s.Steps.Say("     without %-9s %s", capability, lastLine(log))
		}
	}
	return serve, nil
}

// outcome waits until the program of a copy has said this, or that it serves.
func (s *Suite) outcome(ctx context.Context, name, word string) (log string, err error) {
	err = harness.Until(ctx, 90*time.Second, time.Second, func(ctx context.Context) (bool, string, error) {
		var err error
		if log, err = s.Env.Kubectl(ctx, "-n", Namespace, "logs", name, "-c", "server"); err != nil {
			return false, "", err // its container is not there yet
		}
		return strings.Contains(log, word) || strings.Contains(log, listens), "pod " + name + " says: " + lastLine(log), nil
	})
	return log, err
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndex(text, "\n")+1:]
}
