// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

func topCommand(s streams, connect connector) *cobra.Command {
	all, window := false, 10
	cmd := &cobra.Command{
		Use: "top", Short: "What the services do now: rate, percentiles, queues, rejections", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if window < 1 || window > 600 {
				return fmt.Errorf("--window: must be 1 to 600 seconds; got %d", window)
			}
			c, err := connect()
			if err != nil {
				return err
			}
			if all {
				c.namespace = ""
			}
			return top(cmd.Context(), s, c, window)
		},
	}
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "services of all namespaces")
	cmd.Flags().IntVar(&window, "window", window, "seconds to look back")
	return cmd
}

func top(ctx context.Context, s streams, c *cluster, window int) error {
	list := &v1alpha1.RpcServiceList{}
	if err := c.List(ctx, list, client.InNamespace(c.namespace)); err != nil {
		return fmt.Errorf("list RpcServices: %w", err)
	}
	if len(list.Items) == 0 {
		fmt.Fprintln(s.errs, "No RpcService found; -A looks in all namespaces.")
		return nil
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "NAMESPACE\tNAME\tWORKERS\tRPS\tP50\tP99\tSERVICE P99\tQUEUE\tREJECTED\tUNANSWERED")
	for i := range list.Items {
		service := &list.Items[i]
		if overTCP(service) { // nothing of ours sees its requests
			fmt.Fprintf(w, "%s\t%s\t%s\t-\t-\t-\t-\t-\t-\t-\n", service.Namespace, service.Name, service.Status.Workers)
			continue
		}
		o, err := c.observe(ctx, service, window)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.0f\t%s\t%s\t%s\t%.0f\t%s\t%s\n", service.Namespace, service.Name, service.Status.Workers, o.perSecond,
			percentile(&o.latency, "50"), percentile(&o.latency, "99"), percentile(&o.service, "99"),
			o.held, share(o.rejected, o.requests), share(o.latency.Inf(), o.latency.Total()))
		for _, g := range o.gaps {
			fmt.Fprintf(s.errs, "%s/%s: %s: %s; %s\n", service.Namespace, service.Name, g.cause, g.evidence, g.advice)
		}
		for _, u := range o.unread {
			fmt.Fprintf(s.errs, "%s/%s is incomplete: %s\n", service.Namespace, service.Name, u)
		}
	}
	return w.Flush()
}
