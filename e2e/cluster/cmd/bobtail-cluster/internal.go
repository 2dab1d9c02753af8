// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/cluster/forward"
)

// pause is the first process of every pod: it waits for its end and buries
// orphans of containers that share its process namespace.
func pause() error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	for s := range signals {
		if s != syscall.SIGCHLD {
			return nil
		}
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
	return nil
}

// forwardInherited serves the listening socket that descriptor 3 is.
func forwardInherited(args []string) error {
	if len(args) != 1 {
		return errUsage
	}
	l, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return fmt.Errorf("descriptor 3 is no listening socket: %w", err)
	}
	return forward.Serve(l, args[0])
}

// resolve runs inside a pod of `check`: it looks names up in the cluster DNS
// and connects to tcp://HOST:PORT arguments. Each argument has 20 s to succeed.
func resolve(args []string) error {
	for _, a := range args {
		var err error
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
			if err = try(a); err == nil {
				break
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func try(arg string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	resolver := &net.Resolver{PreferGo: true}
	if target, ok := strings.CutPrefix(arg, "tcp://"); ok {
		conn, err := (&net.Dialer{Resolver: resolver}).DialContext(ctx, "tcp", target)
		if err != nil {
			return err
		}
		fmt.Println(arg, "connected to", conn.RemoteAddr())
		return conn.Close()
	}
	addrs, err := resolver.LookupHost(ctx, arg)
	if err == nil {
		fmt.Println(arg, addrs)
	}
	return err
}
