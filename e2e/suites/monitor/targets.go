// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// pods of the cluster, as the API server lists them.
type pods struct {
	Items []struct {
		Metadata struct {
			Name, Namespace string
			Labels          map[string]string
		}
		Spec struct {
			Containers, InitContainers []struct {
				Ports []struct{ Name string }
			}
		}
		Status struct{ Phase string }
	}
}

// withMetrics are namespace/name of the running pods of Bobtail that have a port named
// metrics: those of the chart by their namespace, those of services by their
// service's label. What the scrape configuration asks for is not looked at.
func (l pods) withMetrics() []string {
	var out []string
	for _, p := range l.Items {
		ours := p.Metadata.Namespace == harness.SystemNamespace || p.Metadata.Labels["bobtail.dev/service"] != ""
		if !ours || p.Status.Phase != "Running" {
			continue
		}
		for _, c := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
			for _, port := range c.Ports {
				if port.Name == "metrics" {
					out = append(out, p.Metadata.Namespace+"/"+p.Metadata.Name)
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// scrapedPods reads which pods have metrics.
func scrapedPods(ctx context.Context, env *harness.Env) ([]string, error) {
	out, err := env.Kubectl(ctx, "get", "pods", "--all-namespaces", "-o", "json")
	if err != nil {
		return nil, err
	}
	var l pods
	if err := json.Unmarshal([]byte(out), &l); err != nil {
		return nil, fmt.Errorf("kubectl get pods: %w", err)
	}
	return l.withMetrics(), nil
}

// missing are pods that no target of Prometheus answers for, and targets that do not
// answer or are no such pod.
func missing(want []string, up []Sample) (lacking, wrong []string) {
	answers := map[string]bool{}
	for _, s := range up {
		name := s.Labels["namespace"] + "/" + s.Labels["pod"]
		if answers[name] || s.Value != 1 || !slices.Contains(want, name) {
			wrong = append(wrong, fmt.Sprintf("%s (%s) is %g", name, s.Labels["instance"], s.Value))
		}
		answers[name] = s.Value == 1
	}
	for _, name := range want {
		if !answers[name] {
			lacking = append(lacking, name)
		}
	}
	return lacking, wrong
}

func list(names []string) string { return strings.Join(names, ", ") }
