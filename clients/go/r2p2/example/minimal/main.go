// SPDX-License-Identifier: Apache-2.0

// Command minimal is the smallest useful R2P2 service and its client: it
// answers every request with the request in upper case.
//
//	minimal --address=$POD_IP --port=8000 --workers=4    # serve, in a pod of an RpcService
//	minimal call --target=echo.demo.svc:8000 hello       # ask, prints HELLO
//
// Copy it and change one function: answer.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
)

// answer is the service.
func answer(_ context.Context, r *r2p2.ServerRequest) ([]byte, error) {
	return bytes.ToUpper(r.Payload), nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := serve
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "call" {
		run, args = ask, args[1:]
	}
	err := run(ctx, args, os.Stdout)
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "minimal:", err, "(see --help)")
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "minimal:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage")

const mtuUsage = "IP MTU of the network, 576..1500; 0 reads it from the interface"

func parse(f *flag.FlagSet, args []string) error {
	err := f.Parse(args)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return err
	}
	return fmt.Errorf("%w: %w", errUsage, err)
}

// serve takes the options the operator gives to every server container.
func serve(ctx context.Context, args []string, _ io.Writer) error {
	f := flag.NewFlagSet("minimal", flag.ContinueOnError)
	address := f.String("address", os.Getenv("POD_IP"), "own IP address")
	port := f.Int("port", 8000, "UDP port of the first worker")
	workers := f.Int("workers", 1, "workers, one UDP port each")
	mtu := f.Int("mtu", 0, mtuUsage)
	socket := f.String("ctl", cmp.Or(os.Getenv("BOBTAIL_CTL"), ctl.DefaultSocket), "control socket; empty for none")
	keys := f.String("key-dir", "", "directory of the service's keys (default $BOBTAIL_KEY_DIR or "+ctl.DefaultKeyDir+")")
	cache := f.String("config-cache", "", "file that keeps the last good configuration (default $BOBTAIL_CONFIG_CACHE)")
	drain := f.Duration("drain", 20*time.Second, "how long a stopping server waits for its backlog")
	if err := parse(f, args); err != nil {
		return err
	}
	ip, err := netip.ParseAddr(*address)
	if err != nil {
		return fmt.Errorf("%w: --address: must be an IP address; got %q", errUsage, *address)
	}
	s, err := r2p2.NewServer(r2p2.ServerConfig{
		Address: ip, FirstPort: *port, Workers: *workers, MTU: *mtu, Handler: r2p2.HandlerFunc(answer),
	})
	if err != nil {
		return err
	}
	if *socket != "" {
		// From here on the sidecar says which routers there are and how much
		// each worker takes.
		l, err := ctl.Serve(s, ctl.Options{Socket: *socket, KeyDir: *keys, Cache: *cache})
		if err != nil {
			return errors.Join(err, s.Close())
		}
		defer l.Close()
	}
	slog.Info("serving", "workers", s.Addrs(), "mtu", s.MTU())
	<-ctx.Done()
	end, cancel := context.WithTimeout(context.Background(), *drain)
	defer cancel()
	return s.Shutdown(end)
}

func ask(ctx context.Context, args []string, out io.Writer) error {
	f := flag.NewFlagSet("minimal call", flag.ContinueOnError)
	target := f.String("target", "", "routers, by name or address, separated by commas")
	timeout := f.Duration("timeout", time.Second, "for the whole reply")
	mtu := f.Int("mtu", 0, mtuUsage)
	if err := parse(f, args); err != nil {
		return err
	}
	if *target == "" {
		return fmt.Errorf("%w: --target: is required", errUsage)
	}
	c, err := r2p2.Dial(ctx, r2p2.ClientConfig{Targets: strings.Split(*target, ","), Timeout: *timeout, MTU: *mtu})
	if err != nil {
		return err
	}
	defer c.Close()
	reply, err := c.Call(ctx, []byte(strings.Join(f.Args(), " ")))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", reply)
	return err
}
