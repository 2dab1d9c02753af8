// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

func statusCommand(s streams, own string, connect connector) *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use: "status", Short: "Operator, agents, kinds, services, groups and objectives: what is wrong, and the next command", Args: takes(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			c, err := connect()
			if err != nil {
				return err
			}
			return answer(s, f, c.status(cmd.Context(), own))
		},
	}
	f.flag(cmd)
	return cmd
}

const install = "helm upgrade --install bobtail charts/bobtail --namespace bobtail-system --create-namespace (docs/guides/operations.md)"

func (c *cluster) status(ctx context.Context, own string) []verdict {
	out := []verdict{c.kinds()}
	out = append(out, c.operators(ctx, own)...)
	out = append(out, c.features(ctx)...)
	out = append(out, c.agents(ctx)...)
	out = append(out, c.services(ctx)...)
	out = append(out, c.groups(ctx)...)
	return append(out, c.objectives(ctx)...)
}

// kinds says whether the API server knows all kinds of this release.
func (c *cluster) kinds() verdict {
	const subject = "kinds"
	served, err := c.set.Discovery().ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	if err != nil {
		return verdict{subject, failed, fmt.Sprintf("the API server does not serve %s: %v", v1alpha1.GroupVersion, err), install}
	}
	there := map[string]bool{}
	for _, r := range served.APIResources {
		there[r.Kind] = true
	}
	var missing []string
	wanted := c.ownKinds()
	for _, kind := range wanted {
		if !there[kind] {
			missing = append(missing, kind)
		}
	}
	if len(missing) > 0 {
		return verdict{subject, failed, "missing: " + strings.Join(missing, ", "), install}
	}
	return verdict{subject, fine, fmt.Sprintf("%s, %d kinds", v1alpha1.GroupVersion, len(wanted)), ""}
}

// ownKinds are the kinds of this release: those that have a list.
func (c *cluster) ownKinds() []string {
	known := c.Scheme().KnownTypes(v1alpha1.GroupVersion)
	var out []string
	for name := range known {
		if _, listed := known[name+"List"]; listed {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func (c *cluster) operators(ctx context.Context, own string) []verdict {
	const subject = "operator"
	list := &appsv1.DeploymentList{}
	if err := c.List(ctx, list, installed(subject)); err != nil {
		return []verdict{unseen(subject, err)}
	}
	if len(list.Items) == 0 {
		return []verdict{{subject, failed, "none is installed", install}}
	}
	var out []verdict
	for _, d := range list.Items {
		v := verdict{subject, fine, fmt.Sprintf("%s/%s, %d of %d ready, version %s", d.Namespace, d.Name, d.Status.ReadyReplicas, wantedReplicas(d.Spec.Replicas), d.Labels[labelVersion]), ""}
		switch {
		case d.Status.ReadyReplicas == 0:
			v.Outcome, v.Next = failed, fmt.Sprintf("kubectl -n %s describe pods -l %s=%s; services go on without it", d.Namespace, labelComponent, subject)
		case own != "devel" && d.Labels[labelVersion] != own:
			v.Outcome, v.Next = warning, fmt.Sprintf("this plugin is %s: use one of the operator's release", own)
		case len(list.Items) > 1:
			v.Outcome, v.Next = warning, "one operator serves a cluster: uninstall the others (helm list -A)"
		}
		out = append(out, v)
	}
	return out
}

func wantedReplicas(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

func (c *cluster) agents(ctx context.Context) []verdict {
	const subject = "agents"
	list := &appsv1.DaemonSetList{}
	if err := c.List(ctx, list, installed("agent")); err != nil {
		return []verdict{unseen(subject, err)}
	}
	if len(list.Items) == 0 {
		return []verdict{{subject, fine, "none: CRAB is off (crab.enabled of the chart)", ""}}
	}
	var out []verdict
	for _, d := range list.Items {
		v := verdict{subject, fine, fmt.Sprintf("%d of %d nodes", d.Status.NumberReady, d.Status.DesiredNumberScheduled), ""}
		if d.Status.NumberReady < d.Status.DesiredNumberScheduled {
			v.Outcome, v.Next = failed, "kubectl get ndp; kubectl -n "+d.Namespace+" get pods -l "+labelComponent+"=agent -o wide"
		}
		out = append(out, v)
	}
	return out
}

func (c *cluster) services(ctx context.Context) []verdict {
	list := &v1alpha1.RpcServiceList{}
	if err := c.List(ctx, list); err != nil {
		return []verdict{unseen("services", err)}
	}
	return conditions("services", "rpcsvc", v1alpha1.ConditionReady, list.Items, func(s *v1alpha1.RpcService) (client.Object, []metav1.Condition) {
		return s, s.Status.Conditions
	})
}

func (c *cluster) objectives(ctx context.Context) []verdict {
	list := &v1alpha1.ServiceLevelObjectiveList{}
	if err := c.List(ctx, list); err != nil {
		return []verdict{unseen("objectives", err)}
	}
	return withExplain("slo", conditions("objectives", "slo", v1alpha1.ConditionMet, list.Items, func(s *v1alpha1.ServiceLevelObjective) (client.Object, []metav1.Condition) {
		return s, s.Status.Conditions
	}))
}

func (c *cluster) groups(ctx context.Context) []verdict {
	list := &v1alpha1.ReplicationGroupList{}
	if err := c.List(ctx, list); err != nil {
		return []verdict{unseen("groups", err)}
	}
	return withExplain("rg", conditions("groups", "rg", v1alpha1.ConditionReady, list.Items, func(g *v1alpha1.ReplicationGroup) (client.Object, []metav1.Condition) {
		return g, g.Status.Conditions
	}))
}

// withExplain sends a reader of what is not well to the command that says why.
func withExplain(kind string, all []verdict) []verdict {
	for i := range all[1:] {
		name, _, _ := strings.Cut(all[i+1].Says, ":")
		namespace, name, _ := strings.Cut(name, "/")
		all[i+1].Next = fmt.Sprintf("kubectl bobtail explain %s/%s -n %s", kind, name, namespace)
	}
	return all
}

// conditions is one verdict over all objects, then one for each that is not well. What
// is not known yet (a new object, a window too short) is no failure.
func conditions[T any](subject, kind, condition string, items []T, of func(*T) (client.Object, []metav1.Condition)) []verdict {
	var bad []verdict
	well := 0
	for i := range items {
		object, all := of(&items[i])
		c := meta.FindStatusCondition(all, condition)
		name := object.GetNamespace() + "/" + object.GetName()
		switch {
		case c == nil:
			bad = append(bad, verdict{subject, unknown, fmt.Sprintf("%s: no condition %s yet", name, condition), "kubectl -n " + object.GetNamespace() + " describe " + kind + " " + object.GetName()})
		case c.Status == metav1.ConditionTrue:
			well++
		default:
			o := map[metav1.ConditionStatus]outcome{metav1.ConditionFalse: failed}[c.Status]
			if o == "" {
				o = unknown
			}
			bad = append(bad, verdict{subject, o, fmt.Sprintf("%s: %s=%s %s: %s", name, condition, c.Status, c.Reason, c.Message),
				"kubectl -n " + object.GetNamespace() + " describe " + kind + " " + object.GetName()})
		}
	}
	slices.SortFunc(bad, func(a, b verdict) int { return strings.Compare(a.Says, b.Says) })
	return append([]verdict{{subject, fine, fmt.Sprintf("%d of %d with %s=True", well, len(items), condition), ""}}, bad...)
}
