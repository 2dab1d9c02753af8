// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect/probe"
)

func probeCommand() *cobra.Command {
	var from, to, mark string
	var timeout time.Duration
	c := &cobra.Command{
		Use: "probe", Short: "Ask a server once: UpCRAB, UpPlain or Down", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			local, err := netip.ParseAddr(from)
			if err != nil {
				return fmt.Errorf("--from: %w", err)
			}
			named := local
			if mark != "" {
				if named, err = netip.ParseAddr(mark); err != nil {
					return fmt.Errorf("--mark: %w", err)
				}
			}
			server, err := netip.ParseAddrPort(to)
			if err != nil {
				return fmt.Errorf("--to: %w", err)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			state, err := probe.Probe(ctx, local, named, server, redirect.Wire{})
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), state)
			}
			return err
		},
	}
	c.Flags().StringVar(&from, "from", "", "an address of this host")
	c.Flags().StringVar(&mark, "mark", "", "the address in the option, which the server's host must allow (default: that of --from)")
	c.Flags().StringVar(&to, "to", "", "the server, ADDRESS:PORT")
	c.Flags().DurationVar(&timeout, "timeout", probe.DefaultTimeout, "how long silence is waited for")
	_ = c.MarkFlagRequired("from")
	_ = c.MarkFlagRequired("to")
	return c
}
