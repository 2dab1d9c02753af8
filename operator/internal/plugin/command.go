// SPDX-License-Identifier: Apache-2.0

// Package plugin is `kubectl bobtail`: status, check, connectivity test, top, explain,
// plan, bench, support-bundle, version, backup and recover. It reads with the rights of whoever runs it: objects from the
// API server, and what routers and servers measure through the API server's pod
// proxy to the port their metrics are on.
package plugin

import (
	"io"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
)

// streams are where output goes.
type streams struct {
	out, errs io.Writer
}

// Command is the whole program.
func Command(version string, out, errs io.Writer) *cobra.Command {
	rules, overrides := clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{}
	s := streams{out, errs}
	root := &cobra.Command{
		Use: "kubectl-bobtail", Short: "See, explain, plan and try out Bobtail services", Version: version,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl bobtail"},
		SilenceErrors: true, SilenceUsage: true,
	}
	root.SetOut(out)
	root.SetErr(errs)
	root.SetFlagErrorFunc(wrongFlag)
	// kubectl's own flags of that name: --kubeconfig, --context, -n, --as, ...
	root.PersistentFlags().StringVar(&rules.ExplicitPath, "kubeconfig", "", "path of the kubeconfig file")
	clientcmd.BindOverrideFlags(overrides, root.PersistentFlags(), clientcmd.RecommendedConfigOverrideFlags(""))
	connect := func() (*cluster, error) {
		return connect(clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides))
	}
	root.AddCommand(commands(s, version, connect)...)
	return root
}

// commands are all of them; connect opens the cluster when one runs.
func commands(s streams, version string, connect connector) []*cobra.Command {
	return []*cobra.Command{statusCommand(s, version, connect), checkCommand(s, connect), topCommand(s, connect), explainCommand(s, connect),
		planCommand(s, connect), benchCommand(s, connect), connectivityCommand(s, connect), bundleCommand(s, connect), versionCommand(s, version, connect),
		backupCommand(s, connect), recoverCommand(s, connect)}
}
