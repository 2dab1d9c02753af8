// SPDX-License-Identifier: Apache-2.0

//go:build linux

package connectivity

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
)

const usage = `usage: connectivity serve [--node=NAME] --addresses=A[,B] [--workers=N] [--routed]
       connectivity try --paths=JSON [--message=FILE]`

// Main is the program; the result is its exit status.
func Main(ctx context.Context, args []string, out, errs io.Writer) int {
	if len(args) == 0 {
		fmt.Fprintln(errs, usage)
		return 2
	}
	run := map[string]func(context.Context, []string, io.Writer) error{"serve": serve, "try": try}[args[0]]
	if run == nil {
		fmt.Fprintln(errs, usage)
		return 2
	}
	if err := run(ctx, args[1:], out); err != nil {
		fmt.Fprintln(errs, "connectivity:", err)
		return 1
	}
	return 0
}

func serve(ctx context.Context, args []string, out io.Writer) error {
	o := Server{R2P2Port: R2P2Port, TCPPort: TCPPort}
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	flags.StringVar(&o.Node, "node", "", "what to answer; default: the name of the pod")
	flags.IntVar(&o.Workers, "workers", 1, "workers of each address")
	flags.BoolVar(&o.Routed, "routed", false, "a server of an RpcService")
	addresses := flags.String("addresses", "", "the pod's addresses, with commas between them")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for _, text := range strings.FieldsFunc(*addresses, func(c rune) bool { return c == ',' }) {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return fmt.Errorf("--addresses: %w", err)
		}
		o.Addresses = append(o.Addresses, a)
	}
	if o.Node == "" {
		o.Node, _ = os.Hostname()
	}
	s, err := o.Start()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "connectivity: serving on %v and %v\n", s.R2P2, s.TCP)
	<-ctx.Done()
	return s.Close()
}

func try(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("try", flag.ContinueOnError)
	text := flags.String("paths", "", "the paths, as JSON")
	message := flags.String("message", "", "file for the results, beside stdout")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var paths []Path
	if err := json.Unmarshal([]byte(*text), &paths); err != nil {
		return fmt.Errorf("--paths: %w", err)
	}
	results, err := Marshal(Try(ctx, paths))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", results)
	if *message != "" {
		err = errors.Join(err, os.WriteFile(*message, results, 0o644))
	}
	return err
}
