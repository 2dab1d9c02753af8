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
	var f format
	cmd := &cobra.Command{
		Use: "top", Short: "What services and groups do now: rate, percentiles, queues, rejections, leaders", Args: takes(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if window < 1 || window > 600 {
				return fmt.Errorf("--window: must be 1 to 600 seconds; got %d", window)
			}
			if err := f.check(); err != nil {
				return err
			}
			c, err := connect()
			if err != nil {
				return err
			}
			if all {
				c.namespace = ""
			}
			return top(cmd.Context(), s, f, c, window)
		},
	}
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "services of all namespaces")
	cmd.Flags().IntVar(&window, "window", window, "seconds to look back")
	f.flag(cmd)
	return cmd
}

// topRow is what one service does; percentiles as text, as people read them.
type topRow struct {
	Namespace         string   `json:"namespace"`
	Name              string   `json:"name"`
	Workers           string   `json:"workers"`
	RequestsPerSecond float64  `json:"requestsPerSecond"`
	P50               string   `json:"p50"`
	P99               string   `json:"p99"`
	ServiceP99        string   `json:"serviceP99"`
	Queue             float64  `json:"queue"`
	Rejected          string   `json:"rejected"`
	Lost              string   `json:"lost"`
	Missing           []string `json:"missing,omitempty"`
}

func top(ctx context.Context, s streams, f format, c *cluster, window int) error {
	list := &v1alpha1.RpcServiceList{}
	if err := c.List(ctx, list, client.InNamespace(c.namespace)); err != nil {
		return fmt.Errorf("list RpcServices: %w", err)
	}
	groups, err := c.topGroups(ctx, window)
	if err != nil {
		return err
	}
	if len(list.Items)+len(groups) == 0 {
		fmt.Fprintln(s.errs, "No RpcService and no ReplicationGroup found; -A looks in all namespaces.")
		if f == asText {
			return nil
		}
	}
	rows := []topRow{}
	for i := range list.Items {
		row, err := c.topRow(ctx, &list.Items[i], window)
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	return f.print(s, map[string]any{"services": rows, "groups": groups}, func() error {
		if err := printTop(s, rows, c.namespace == ""); err != nil {
			return err
		}
		if len(rows) > 0 && len(groups) > 0 {
			fmt.Fprintln(s.out)
		}
		return printTopGroups(s, groups, c.namespace == "")
	})
}

func (c *cluster) topRow(ctx context.Context, service *v1alpha1.RpcService, window int) (topRow, error) {
	row := topRow{Namespace: service.Namespace, Name: service.Name, Workers: service.Status.Workers, P50: "-", P99: "-", ServiceP99: "-", Rejected: "-", Lost: "-"}
	if overTCP(service) { // nothing of ours sees its requests
		return row, nil
	}
	o, err := c.observe(ctx, service, window)
	if err != nil {
		return row, err
	}
	row.RequestsPerSecond, row.Queue = o.perSecond, o.held
	row.P50, row.P99, row.ServiceP99 = percentile(&o.latency, "50"), percentile(&o.latency, "99"), percentile(&o.service, "99")
	row.Rejected, row.Lost = share(o.rejected, o.requests), share(o.latency.Inf(), o.latency.Total())
	for _, g := range o.gaps {
		row.Missing = append(row.Missing, fmt.Sprintf("%s: %s; %s", g.Cause, g.Evidence, g.Advice))
	}
	row.Missing = append(row.Missing, o.unread...)
	return row, nil
}

// printTop fits 80 columns for names of usual length.
func printTop(s streams, rows []topRow, namespaces bool) error {
	if len(rows) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	head := "NAME\tWORKERS\tRPS\tP50\tP99\tSERVICE P99\tQUEUE\tREJECTED\tLOST"
	if namespaces {
		head = "NAMESPACE\t" + head
	}
	fmt.Fprintln(w, head)
	for _, r := range rows {
		if namespaces {
			fmt.Fprint(w, r.Namespace, "\t")
		}
		rate, queue := fmt.Sprintf("%.0f", r.RequestsPerSecond), fmt.Sprintf("%.0f", r.Queue)
		if r.P99 == "-" && r.Rejected == "-" {
			rate, queue = "-", "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Name, r.Workers, rate, r.P50, r.P99, r.ServiceP99, queue, r.Rejected, r.Lost)
		for _, m := range r.Missing {
			fmt.Fprintf(s.errs, "%s/%s: %s\n", r.Namespace, r.Name, m)
		}
	}
	return w.Flush()
}
