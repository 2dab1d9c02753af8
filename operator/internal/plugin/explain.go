// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

func explainCommand(s streams, connect connector) *cobra.Command {
	var clients []string
	var f format
	cmd := &cobra.Command{
		Use: "explain slo/NAME | rg/NAME", Short: "Why an objective is not met, or a group does not answer: each cause with its evidence", Args: takes(1, 1, "slo/NAME or rg/NAME"),
		ValidArgsFunction: explainedNames(connect),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			group, isGroup := groupName(args[0])
			name, err := objectName(args[0])
			if err != nil && !isGroup {
				return fmt.Errorf("must be slo/NAME or rg/NAME; got %q", args[0])
			}
			c, err := connect()
			if err != nil {
				return err
			}
			if isGroup {
				return explainGroup(cmd.Context(), s, f, c, group)
			}
			return explain(cmd.Context(), s, f, c, name, clients)
		},
	}
	cmd.Flags().StringSliceVar(&clients, "client-namespace", nil, "namespaces of clients, besides the service's own: is the way of the replies open?")
	f.flag(cmd)
	return cmd
}

// objectName takes "slo/x" and its longer forms.
func objectName(arg string) (string, error) {
	kind, name, ok := strings.Cut(arg, "/")
	if !ok || name == "" || !slices.Contains([]string{"slo", "servicelevelobjective", "servicelevelobjectives"}, kind) {
		return "", fmt.Errorf("must be slo/NAME; got %q", arg)
	}
	return name, nil
}

// groupName takes "rg/x" and its longer forms.
func groupName(arg string) (string, bool) {
	kind, name, ok := strings.Cut(arg, "/")
	return name, ok && name != "" && slices.Contains([]string{"rg", "replicationgroup", "replicationgroups"}, kind)
}

func (c *cluster) objective(ctx context.Context, name string) (*v1alpha1.ServiceLevelObjective, *v1alpha1.RpcService, error) {
	slo := &v1alpha1.ServiceLevelObjective{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: name}, slo); err != nil {
		return nil, nil, fmt.Errorf("read ServiceLevelObjective %s in namespace %s: %w", name, c.namespace, err)
	}
	if ref := slo.Spec.TargetRef; !ref.Names(v1alpha1.TargetService, ref.Name) {
		return nil, nil, fmt.Errorf("%s is about %s %s, and percentiles are explained of services alone: kubectl -n %s describe slo %s, and kubectl bobtail -n %s explain rg/%s", name, ref.Kind, ref.Name, c.namespace, name, c.namespace, ref.Name)
	}
	service, err := c.service(ctx, slo.Spec.TargetRef.Name)
	return slo, service, err
}

// explained is the answer for programs.
type explained struct {
	Namespace         string            `json:"namespace"`
	Name              string            `json:"name"`
	Service           string            `json:"service"`
	Met               *metav1.Condition `json:"met,omitempty"`
	Percentile        string            `json:"percentile"`
	Observed          string            `json:"observed"`
	RequestsPerSecond float64           `json:"requestsPerSecond"`
	Rejected          string            `json:"rejected"`
	Findings          []finding         `json:"findings"`
}

func explanation(slo *v1alpha1.ServiceLevelObjective, o *observation, findings []finding) explained {
	return explained{slo.Namespace, slo.Name, slo.Spec.TargetRef.Name, meta.FindStatusCondition(slo.Status.Conditions, v1alpha1.ConditionMet),
		slo.Spec.Percentile, percentile(&o.latency, slo.Spec.Percentile), o.perSecond, share(o.rejected, o.requests), append([]finding{}, findings...)}
}

func explain(ctx context.Context, s streams, f format, c *cluster, name string, clients []string) error {
	slo, service, err := c.objective(ctx, name)
	if err != nil {
		return err
	}
	if overTCP(service) {
		findings := findingsTCP(slo, service)
		return f.print(s, explanation(slo, &observation{}, findings), func() error {
			printHeadTCP(s, slo)
			printFindings(s, findings)
			return nil
		})
	}
	o, err := c.observe(ctx, service, int(slo.Spec.WindowSeconds))
	if err != nil {
		return err
	}
	var closed []finding
	for _, namespace := range append([]string{service.Namespace}, clients...) {
		found, err := c.blockedClients(ctx, service, namespace)
		if err != nil {
			return err
		}
		closed = append(closed, found...)
	}
	findings := diagnose(slo, service, o, closed)
	return f.print(s, explanation(slo, o, findings), func() error {
		printHead(s, slo, o)
		printFindings(s, findings)
		return nil
	})
}

func printFindings(s streams, findings []finding) {
	if len(findings) == 0 {
		fmt.Fprintln(s.out, "\nNothing stands out.")
	}
	for _, f := range findings {
		fmt.Fprintf(s.out, "\n%s\n  evidence: %s\n  next:     %s\n", f.Cause, f.Evidence, f.Advice)
	}
}

func printMet(s streams, slo *v1alpha1.ServiceLevelObjective) {
	met := "Unknown"
	if c := meta.FindStatusCondition(slo.Status.Conditions, v1alpha1.ConditionMet); c != nil {
		met = fmt.Sprintf("%s (%s)", c.Status, c.Reason)
		if c.Message != "" {
			met += "\n  status   " + c.Message
		}
	}
	fmt.Fprintf(s.out, "%s/%s on %s: Met=%s\n", slo.Namespace, slo.Name, slo.Spec.TargetRef.Name, met)
}

func printHead(s streams, slo *v1alpha1.ServiceLevelObjective, o *observation) {
	printMet(s, slo)
	p := slo.Spec.Percentile
	fmt.Fprintf(s.out, "  p%s      %s, objective %s, last %d s, %d requests\n", p, percentile(&o.latency, p),
		short(time.Duration(slo.Spec.LatencyMicroseconds)*time.Microsecond), slo.Spec.WindowSeconds, o.latency.Total())
	fmt.Fprintf(s.out, "  p%s parts waiting in the routers %s, service %s\n", p, percentile(&o.hold, p), percentile(&o.service, p))
	fmt.Fprintf(s.out, "  rate     %.0f requests/s, rejected %s\n", o.perSecond, share(o.rejected, o.requests))
	for _, b := range slo.Status.ErrorBudgets {
		fmt.Fprintf(s.out, "  budget   %s left over %d h (%d of %d missed it)\n", b.Remaining, b.WindowSeconds/3600, b.Violations, b.Requests)
	}
}
