// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/render"
)

// topGroup is what one ReplicationGroup does. Whichever member answers a request measures it.
type topGroup struct {
	Namespace         string   `json:"namespace"`
	Name              string   `json:"name"`
	Members           string   `json:"members"`
	Leader            string   `json:"leader,omitempty"`
	Lag               *int64   `json:"lagEntries,omitempty"`
	RequestsPerSecond float64  `json:"requestsPerSecond"`
	P50               string   `json:"p50"`
	P99               string   `json:"p99"`
	Missing           []string `json:"missing,omitempty"`
}

func (c *cluster) topGroups(ctx context.Context, window int) ([]topGroup, error) {
	list := &v1alpha1.ReplicationGroupList{}
	if err := c.List(ctx, list, client.InNamespace(c.namespace)); err != nil {
		return nil, fmt.Errorf("list ReplicationGroups: %w", err)
	}
	rows := []topGroup{}
	for i := range list.Items {
		row, err := c.topGroup(ctx, &list.Items[i], window)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (c *cluster) topGroup(ctx context.Context, g *v1alpha1.ReplicationGroup, window int) (topGroup, error) {
	row := topGroup{Namespace: g.Namespace, Name: g.Name, Members: g.Status.Voters, Leader: g.Status.Leader, Lag: g.Status.LagEntries}
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods, client.InNamespace(g.Namespace), client.MatchingLabels(render.Selector(g.Name, v1alpha1.ComponentMember))); err != nil {
		return row, fmt.Errorf("list the member pods of %s: %w", g.Name, err)
	}
	var all ll7.Histogram
	for i := range pods.Items {
		if pods.Items[i].Status.Phase != corev1.PodRunning {
			continue
		}
		h, err := read[dataplane.HistogramReply](ctx, c, &pods.Items[i], "v1/histogram", map[string]string{"name": "latency", "windowSeconds": strconv.Itoa(window)})
		if err != nil {
			row.Missing = append(row.Missing, err.Error())
			continue
		}
		if h.Histogram != nil {
			all.Merge(h.Histogram)
			row.RequestsPerSecond += float64(h.Histogram.Total()-h.Histogram.Inf()) / math.Max(1, float64(h.CoveredSeconds))
		}
	}
	row.P50, row.P99 = percentile(&all, "50"), percentile(&all, "99")
	if ready := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionReady); ready == nil || ready.Status != metav1.ConditionTrue {
		row.Missing = append([]string{fmt.Sprintf("Ready is not True (%s): kubectl bobtail -n %s explain rg/%s", reasonOf(ready), g.Namespace, g.Name)}, row.Missing...)
	}
	return row, nil
}

// printTopGroups fits 80 columns for names of usual length; nothing where there are no groups.
func printTopGroups(s streams, rows []topGroup, namespaces bool) error {
	if len(rows) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	head := []string{"GROUP", "MEMBERS", "LEADER", "LAG", "RPS", "P50", "P99"}
	if namespaces {
		head = append([]string{"NAMESPACE"}, head...)
	}
	fmt.Fprintln(w, strings.Join(head, "\t"))
	for _, r := range rows {
		leader, lag := r.Leader, "-"
		if leader == "" {
			leader = "-"
		}
		if r.Lag != nil {
			lag = fmt.Sprint(*r.Lag)
		}
		if namespaces {
			fmt.Fprint(w, r.Namespace, "\t")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.0f\t%s\t%s\n", r.Name, r.Members, leader, lag, r.RequestsPerSecond, r.P50, r.P99)
		for _, m := range r.Missing {
			fmt.Fprintf(s.errs, "%s/%s: %s\n", r.Namespace, r.Name, m)
		}
	}
	return w.Flush()
}
