// SPDX-License-Identifier: Apache-2.0

// Package command is the bobtail-redirect program: the redirect plane of a host
// without Kubernetes, and a look into the state of any node.
package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

const (
	lookEvery   = 200 * time.Millisecond // at the configuration file
	expireEvery = 2 * time.Second
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

func run(ctx context.Context, root, path string, out io.Writer) error {
	seen := modified(path)
	c, err := readConfig(path)
	if err != nil {
		return err
	}
	p, err := redirect.Open(redirect.Options{Root: root, Wire: c.Wire, Sizes: c.Sizes})
	if err != nil {
		return err
	}
	defer p.Close()
	if err := apply(p, c); err != nil {
		return err
	}
	fmt.Fprintln(out, "ready")
	return follow(ctx, p, c, path, seen, out)
}

// follow applies changes of the file; one that cannot be used is told of, and
// the state stays as it was up to the entry at fault.
func follow(ctx context.Context, p redirect.Plane, c Config, path string, seen time.Time, out io.Writer) error {
	look, expire := time.NewTicker(lookEvery), time.NewTicker(expireEvery)
	defer look.Stop()
	defer expire.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-expire.C:
			if _, err := p.Expire(c.Lives); err != nil {
				return err
			}
		case <-look.C:
			now := modified(path)
			if now.Equal(seen) || now.IsZero() {
				continue
			}
			seen = now
			next, err := readConfig(path)
			if err == nil {
				c = next
				err = apply(p, next)
			}
			if err != nil {
				fmt.Fprintln(out, "not applied:", err)
				continue
			}
			fmt.Fprintln(out, "applied")
		}
	}
}

func removeCommand(root *string) *cobra.Command {
	return &cobra.Command{
		Use: "remove", Short: "Detach everything and forget all state; redirected connections are reset", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return redirect.Remove(*root) },
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
