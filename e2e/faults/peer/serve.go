// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
)

// serialOf is the number in the first 8 bytes of a request, as the C programs
// of this machine read it.
func serialOf(payload []byte) uint64 {
	var b [8]byte
	copy(b[:], payload)
	return binary.NativeEndian.Uint64(b[:])
}

func serve(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("serve", flag.ContinueOnError)
	address := f.String("address", "", "own IP address")
	workers := f.Int("workers", 1, "workers")
	service := f.Duration("service-time", 0, "time spent on each request")
	executions := f.String("execution-log", "", "append one line per executed request here")
	keys := f.String("key-dir", "", "folder of keys")
	config := f.String("config", "", "configuration document to start with")
	socket := f.String("ctl", "", "control socket")
	if err := f.Parse(args); err != nil {
		return err
	}
	ip, err := netip.ParseAddr(*address)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(*executions, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	const firstPort = 8000
	handler := func(_ context.Context, r *r2p2.ServerRequest) ([]byte, error) {
		_, err := fmt.Fprintf(log, "%016x %d %s %d\n", serialOf(r.Payload), firstPort+r.Worker, r.Client, r.ID)
		time.Sleep(*service)
		return r.Payload, err
	}
	s, err := r2p2.NewServer(r2p2.ServerConfig{Address: ip, FirstPort: firstPort, Workers: *workers, Handler: r2p2.HandlerFunc(handler)})
	if err != nil {
		return err
	}
	// A document to start with is one that was kept from an earlier life.
	cache := *executions + ".config"
	text, err := os.ReadFile(*config)
	if err = errors.Join(err, os.WriteFile(cache, text, 0o600)); err != nil {
		return errors.Join(err, s.Close())
	}
	l, err := ctl.Serve(s, ctl.Options{Socket: *socket, KeyDir: *keys, Cache: cache})
	if err != nil {
		return errors.Join(err, s.Close())
	}
	defer l.Close()
	<-ctx.Done()
	end, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return s.Shutdown(end)
}
