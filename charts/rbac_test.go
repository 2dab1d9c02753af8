// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// The operator's rights, every one of them. A change here is a change of what a
// compromised operator can do: it needs a reason in the commit message.
var clusterRights = []string{
	"apps/deployments: create get list patch watch",
	"apps/statefulsets: create get list patch watch",
	"batch/jobs: create get list patch watch",
	"bobtail.dev/latencyexperiments/status: patch",
	"bobtail.dev/latencyexperiments: get list watch",
	"bobtail.dev/programmableswitches/status: patch",
	"bobtail.dev/programmableswitches: get list patch watch",
	"bobtail.dev/replicationgroups/status: patch",
	"bobtail.dev/replicationgroups: get list watch",
	"bobtail.dev/rpcservices/status: patch",
	"bobtail.dev/rpcservices: get list watch",
	"bobtail.dev/servicelevelobjectives/status: patch",
	"bobtail.dev/servicelevelobjectives: get list watch",
	"core/configmaps: create get list patch watch",
	"core/namespaces: get",
	"core/nodes: list",           // what they offer of a device (spec.device)
	"core/pods/eviction: create", // of a group's members, and of pods whose device is gone; held to the budget
	"core/pods/resize: patch",    // CPU of a service's pods in place (spec.scheduling)
	"core/pods/status: patch",
	"core/pods: get list watch",
	"core/secrets: create get patch",
	"core/serviceaccounts: create get list patch watch",
	"core/services: create get list patch watch",
	"discovery.k8s.io/endpointslices: create get list patch watch",
	"events.k8s.io/events: create patch",
	"k8s.cni.cncf.io/network-attachment-definitions: get",
	"networking.k8s.io/networkpolicies: create get list patch watch",
	"policy/poddisruptionbudgets: create get list patch watch",
	"rbac.authorization.k8s.io/rolebindings: create get list patch watch",
	"rbac.authorization.k8s.io/roles: create get list patch watch",
}

var namespaceRights = []string{
	"coordination.k8s.io/leases[bobtail-operator]: get update",
	"core/events: create patch",
	"core/secrets[bobtail-ca]: get update",
}

// What it gets besides where CRAB is wanted: to look at all Services and at the
// services of ours behind them, and to write the Services' status.
var crabRights = []string{
	"bobtail.dev/nodedataplanes: list watch",
	"bobtail.dev/rpcservices: list watch",
	"core/nodes: list watch",
	"core/services/status: patch",
	"core/services: list watch",
	"discovery.k8s.io/endpointslices: list watch",
	"events.k8s.io/events: create patch",
}

func TestRightsForCRABArePinned(t *testing.T) {
	rendered := template(t, "bobtail", "--set", "crab.enabled=true")
	for _, role := range documents[rbacv1.ClusterRole](t, rendered, "ClusterRole") {
		if role.Name == "bobtail-operator-crab" {
			if got := rights(role.Rules); !slices.Equal(got, crabRights) {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(crabRights, "\n  "))
			}
			return
		}
	}
	t.Error("the role is missing")
}

func TestRightsArePinned(t *testing.T) {
	rendered := template(t, "bobtail")
	cluster := documents[rbacv1.ClusterRole](t, rendered, "ClusterRole")
	local := documents[rbacv1.Role](t, rendered, "Role")
	if len(cluster) != 1 || len(local) != 1 {
		t.Fatalf("%d ClusterRoles, %d Roles", len(cluster), len(local))
	}
	for _, c := range []struct {
		name  string
		rules []rbacv1.PolicyRule
		want  []string
	}{{"ClusterRole", cluster[0].Rules, clusterRights}, {"Role", local[0].Rules, namespaceRights}} {
		got := rights(c.rules)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got\n  %s\n want\n  %s", c.name, strings.Join(got, "\n  "), strings.Join(c.want, "\n  "))
		}
		for _, line := range got {
			for _, never := range []string{"*", "escalate", "bind", "impersonate", "delete", "exec"} {
				if slices.Contains(strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" :/", r) }), never) {
					t.Errorf("%s: the operator never needs %q: %s", c.name, never, line)
				}
			}
		}
	}
}

// rights writes rules one resource a line.
func rights(rules []rbacv1.PolicyRule) []string {
	var out []string
	for _, r := range rules {
		for _, group := range r.APIGroups {
			if group == "" {
				group = "core"
			}
			for _, resource := range r.Resources {
				verbs := slices.Clone(r.Verbs)
				sort.Strings(verbs)
				names := ""
				if len(r.ResourceNames) > 0 {
					names = fmt.Sprintf("%v", r.ResourceNames)
				}
				out = append(out, fmt.Sprintf("%s/%s%s: %s", group, resource, names, strings.Join(verbs, " ")))
			}
		}
	}
	sort.Strings(out)
	return out
}

// Only the operator gets these rights.
func TestBindings(t *testing.T) {
	rendered := template(t, "bobtail")
	var subjects []rbacv1.Subject
	for _, b := range documents[rbacv1.ClusterRoleBinding](t, rendered, "ClusterRoleBinding") {
		subjects = append(subjects, b.Subjects...)
	}
	for _, b := range documents[rbacv1.RoleBinding](t, rendered, "RoleBinding") {
		subjects = append(subjects, b.Subjects...)
	}
	for _, s := range subjects {
		if s.Kind != "ServiceAccount" || s.Name != "bobtail-operator" || s.Namespace != "bobtail-system" {
			t.Errorf("bound to %+v", s)
		}
	}
	if len(subjects) != 2 {
		t.Errorf("%d subjects", len(subjects))
	}
}
