// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// completionPatience is what a shell waits for names at most.
const completionPatience = 2 * time.Second

// completer proposes arguments.
type completer func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective)

// objectiveNames proposes slo/NAME of the namespace; nothing where it cannot read.
func objectiveNames(connect connector) completer {
	return proposals(connect, func(ctx context.Context, c *cluster) []string { return c.objectiveNames(ctx) })
}

// explainedNames proposes slo/NAME and rg/NAME.
func explainedNames(connect connector) completer {
	return proposals(connect, func(ctx context.Context, c *cluster) []string {
		return append(c.objectiveNames(ctx), c.groupNames(ctx)...)
	})
}

func (c *cluster) objectiveNames(ctx context.Context) (out []string) {
	list := &v1alpha1.ServiceLevelObjectiveList{}
	if c.List(ctx, list, client.InNamespace(c.namespace)) == nil {
		for _, o := range list.Items {
			out = append(out, "slo/"+o.Name)
		}
	}
	return out
}

func (c *cluster) groupNames(ctx context.Context) (out []string) {
	list := &v1alpha1.ReplicationGroupList{}
	if c.List(ctx, list, client.InNamespace(c.namespace)) == nil {
		for _, g := range list.Items {
			out = append(out, "rg/"+g.Name)
		}
	}
	return out
}

// serviceNames proposes rpcsvc/NAME.
func serviceNames(connect connector) completer {
	return proposals(connect, func(ctx context.Context, c *cluster) (out []string) {
		list := &v1alpha1.RpcServiceList{}
		if c.List(ctx, list, client.InNamespace(c.namespace)) == nil {
			for _, s := range list.Items {
				out = append(out, "rpcsvc/"+s.Name)
			}
		}
		return out
	})
}

func proposals(connect connector, names func(context.Context, *cluster) []string) completer {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, done := context.WithTimeout(cmd.Context(), completionPatience)
		defer done()
		return names(ctx, c), cobra.ShellCompDirectiveNoFileComp
	}
}
