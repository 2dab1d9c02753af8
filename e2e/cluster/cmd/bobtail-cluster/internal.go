// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
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

// The port at which a machine that joined answers commands, and how long one waits for it: it serves one after the other.
const (
	shellPort     = "2300"
	shellPatience = 30 * time.Second
)

// shell runs a command on a machine that joined the cluster, by its port for commands, and
// ends with the command's status.
func shell(args []string) error {
	if len(args) < 2 {
		return errUsage
	}
	var connection net.Conn
	var err error
	for end := time.Now().Add(shellPatience); ; time.Sleep(200 * time.Millisecond) {
		if connection, err = net.DialTimeout("tcp", net.JoinHostPort(args[0], shellPort), 5*time.Second); err == nil || time.Now().After(end) {
			break
		}
	}
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	quoted := make([]string, len(args)-1)
	for i, a := range args[1:] {
		quoted[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	const mark = "\nstatus "
	if _, err := fmt.Fprintf(connection, "%s 2>&1; printf '\\nstatus %%d' $?; exit\n", strings.Join(quoted, " ")); err != nil {
		return err
	}
	out, err := io.ReadAll(connection)
	if err != nil {
		return err
	}
	said, status, found := strings.Cut(string(out), mark)
	fmt.Print(said)
	if !found || status != "0" {
		return fmt.Errorf("%s on %s: status %q", args[1], args[0], status)
	}
	return nil
}
