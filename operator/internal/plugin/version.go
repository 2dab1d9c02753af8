// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// versions of what is ours, here and in the cluster.
type versions struct {
	Plugin   string `json:"plugin"`
	Operator string `json:"operator,omitempty"`
	Agent    string `json:"agent,omitempty"`
	Cluster  string `json:"kubernetes,omitempty"`
}

func versionCommand(s streams, own string, connect connector) *cobra.Command {
	var f format
	local := false
	cmd := &cobra.Command{
		Use: "version", Short: "Versions of the plugin, the operator, the agents and the cluster", Args: takes(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			v := versions{Plugin: own}
			if !local {
				c, err := connect()
				if err != nil {
					return err
				}
				if err := c.versions(cmd.Context(), &v); err != nil {
					return err
				}
			}
			return f.print(s, v, func() error {
				for _, line := range [][2]string{{"plugin", v.Plugin}, {"operator", v.Operator}, {"agent", v.Agent}, {"kubernetes", v.Cluster}} {
					if line[1] != "" {
						fmt.Fprintf(s.out, "%-12s%s\n", line[0], line[1])
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&local, "client", false, "the plugin's own version only, without asking the cluster")
	f.flag(cmd)
	return cmd
}

// labels of what the chart installs.
const (
	labelName      = "app.kubernetes.io/name"
	labelComponent = "app.kubernetes.io/component"
	labelVersion   = "app.kubernetes.io/version"
	chartName      = "bobtail"
)

func installed(component string) client.MatchingLabels {
	return client.MatchingLabels{labelName: chartName, labelComponent: component}
}

func (c *cluster) versions(ctx context.Context, v *versions) error {
	operators, agents := &appsv1.DeploymentList{}, &appsv1.DaemonSetList{}
	if err := c.List(ctx, operators, installed("operator")); err != nil {
		return fmt.Errorf("list Deployments: %w; --client asks nobody", err)
	}
	if err := c.List(ctx, agents, installed("agent")); err != nil {
		return fmt.Errorf("list DaemonSets: %w; --client asks nobody", err)
	}
	for _, d := range operators.Items {
		v.Operator = d.Labels[labelVersion]
	}
	for _, d := range agents.Items {
		v.Agent = d.Labels[labelVersion]
	}
	info, err := c.set.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("ask the API server for its version: %w", err)
	}
	v.Cluster = info.GitVersion
	return nil
}
