// SPDX-License-Identifier: Apache-2.0

package features

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// cluster serves kinds and has rules.
type cluster struct {
	kinds []string
	rules []rbacv1.PolicyRule
	fails error
}

func (c cluster) Served(_ context.Context, kind string) (bool, error) {
	return slices.Contains(c.kinds, kind), c.fails
}

func (c cluster) May(_ context.Context, group, resource, verb string) (bool, error) {
	for _, r := range c.rules {
		if slices.Contains(r.APIGroups, group) && slices.Contains(r.Resources, resource) && slices.Contains(r.Verbs, verb) {
			return true, c.fails
		}
	}
	return false, c.fails
}

func chart(t *testing.T) cluster {
	t.Helper()
	c := cluster{kinds: []string{"LatencyExperiment", "ProgrammableSwitch", "ReplicationGroup", "NodeDataplane"}}
	for _, file := range []string{"clusterrole-rules.yaml", "crab-operator-rules.yaml"} {
		text, err := os.ReadFile("../../../charts/bobtail/files/" + file)
		if err != nil {
			t.Fatal(err)
		}
		var rules []rbacv1.PolicyRule
		if err := yaml.Unmarshal(text, &rules); err != nil {
			t.Fatal(err)
		}
		c.rules = append(c.rules, rules...)
	}
	return c
}

// Decision 0024: the chart of this release gives every feature what it needs.
func TestTheChartGivesWhatFeaturesNeed(t *testing.T) {
	c := chart(t)
	for _, f := range All {
		if missing, err := f.Missing(t.Context(), c); err != nil || len(missing) > 0 {
			t.Errorf("%s lacks %v, %v", f.Name, missing, err)
		}
	}
}

// Decision 0024: what is missing is told by its name, once for each resource.
func TestWhatIsMissingIsNamed(t *testing.T) {
	c := chart(t)
	c.kinds = c.kinds[:1]
	c.rules = slices.DeleteFunc(c.rules, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.Resources, "jobs") || slices.Contains(r.Resources, "network-attachment-definitions") || slices.Contains(r.Resources, "programmableswitches/status")
	})
	for name, want := range map[string]string{
		Devices:     "the right to get network-attachment-definitions.k8s.cni.cncf.io",
		Experiments: "the right to patch latencyexperiments.bobtail.dev/status; the right to get, list, watch, create, patch jobs.batch",
		Switches:    "kind ProgrammableSwitch; the right to patch programmableswitches.bobtail.dev/status",
		Groups:      "kind ReplicationGroup; the right to patch replicationgroups.bobtail.dev/status",
		Cores:       "",
		CRAB:        "kind NodeDataplane",
	} {
		missing, err := Find(name).Missing(t.Context(), c)
		if got := strings.Join(missing, "; "); err != nil || got != want {
			t.Errorf("%s lacks %q, %v; want %q", name, got, err, want)
		}
	}
	c.fails = errors.New("no route to host")
	for _, f := range All {
		if missing, err := f.Missing(t.Context(), c); missing != nil || !errors.Is(err, c.fails) {
			t.Errorf("%s: %v, %v; want no answer", f.Name, missing, err)
		}
	}
}
