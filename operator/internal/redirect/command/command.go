// SPDX-License-Identifier: Apache-2.0

// Package command is the bobtail-redirect program: the redirect plane of a host
// without Kubernetes, and a look into the state of any node.
package command

import (
	"encoding/json"
	"errors"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/devices"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

// New is the command with its subcommands.
func New() *cobra.Command {
	var root string
	c := &cobra.Command{
		Use: "bobtail-redirect", Short: "CRAB on this host: run it from a file, look at its state, remove it",
		SilenceUsage: true, SilenceErrors: true,
	}
	c.PersistentFlags().StringVar(&root, "root", "/sys/fs/bpf/bobtail", "folder on a bpffs that holds the state")
	c.AddCommand(runCommand(&root), showCommand(&root), removeCommand(&root), probeCommand())
	return c
}

func runCommand(root *string) *cobra.Command {
	var config string
	c := &cobra.Command{
		Use: "run", Short: "Hold the state that a file describes; follow its changes; leave all at work when stopped",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			return run(ctx, *root, config, cmd.OutOrStdout())
		},
	}
	c.Flags().StringVar(&config, "config", "", "the file (JSON)")
	_ = c.MarkFlagRequired("config")
	return c
}

func removeCommand(root *string) *cobra.Command {
	return &cobra.Command{
		Use: "remove", Short: "Detach everything and forget all state; redirected connections are reset", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return errors.Join(devices.Forget(), redirect.Remove(*root))
		},
	}
}

// Shown is what `show` prints.
type Shown struct {
	Attachments []redirect.Attachment `json:"attachments"`
	VIPs        []redirect.VIP        `json:"vips"`
	Counters    map[string]uint64     `json:"counters"`
	Flows       int                   `json:"flows"`
	List        []redirect.Flow       `json:"list,omitempty"`
}

func showCommand(root *string) *cobra.Command {
	var list bool
	c := &cobra.Command{
		Use: "show", Short: "Print attachments, VIPs, counters and the number of redirected connections as JSON", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := redirect.Open(redirect.Options{Root: *root, ReadOnly: true})
			if err != nil {
				return err
			}
			defer p.Close()
			s, err := show(p, list)
			if err != nil {
				return err
			}
			e := json.NewEncoder(cmd.OutOrStdout())
			e.SetIndent("", "  ")
			return e.Encode(s)
		},
	}
	c.Flags().BoolVar(&list, "flows", false, "list the redirected connections too")
	return c
}

func show(p redirect.Plane, list bool) (s Shown, err error) {
	if s.Attachments, err = p.Attachments(); err != nil {
		return s, err
	}
	if s.VIPs, err = p.VIPs(); err != nil {
		return s, err
	}
	if s.Counters, err = p.Counters(); err != nil {
		return s, err
	}
	err = p.Flows(func(f redirect.Flow) bool {
		s.Flows++
		if list {
			s.List = append(s.List, f)
		}
		return true
	})
	return s, err
}
