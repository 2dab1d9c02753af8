// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// stateFile holds what a server was told to be. It stands once the server listens.
const stateFile = "/state"

const (
	well    = "well"
	unready = "unready" // says so to who asks for readiness, and serves as before
	deaf    = "deaf"    // answers no SYN, and calls itself ready: connections it has go on
)

// tell has the server in the same container change its state.
func tell(state string) error {
	if !slices.Contains([]string{well, unready, deaf}, state) {
		return fmt.Errorf("state must be %s, %s or %s; got %q", well, unready, deaf, state)
	}
	if _, err := os.Stat(stateFile); err != nil {
		return fmt.Errorf("no server listens here: %w", err)
	}
	// A reader must not find it empty.
	if err := os.WriteFile(stateFile+".new", []byte(state), 0o600); err != nil {
		return err
	}
	return os.Rename(stateFile+".new", stateFile)
}

// ready is the readiness probe.
func ready() error {
	state, err := os.ReadFile(stateFile)
	if err != nil {
		return fmt.Errorf("the server does not listen yet: %w", err)
	}
	if string(state) == unready {
		return errors.New("the server was told to be unready")
	}
	return nil
}

// obey makes the listener deaf, and hear again, as the state file says. It ends with
// the process.
func obey(l *net.TCPListener, say func(error)) {
	now := well
	for ; ; time.Sleep(50 * time.Millisecond) {
		read, err := os.ReadFile(stateFile)
		want := strings.TrimSpace(string(read))
		if err != nil || (want == deaf) == (now == deaf) {
			continue
		}
		if err := setDeaf(l, want == deaf); err != nil {
			say(err)
			continue
		}
		now = want
	}
}

// setDeaf drops whatever reaches the listening socket, before TCP looks at it.
// Connections accepted earlier have no such filter.
func setDeaf(l *net.TCPListener, on bool) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	drop, err := bpf.Assemble([]bpf.Instruction{bpf.RetConstant{Val: 0}})
	if err != nil {
		return err
	}
	filter := []unix.SockFilter{{Code: drop[0].Op, Jt: drop[0].Jt, Jf: drop[0].Jf, K: drop[0].K}}
	var set error
	err = raw.Control(func(fd uintptr) {
		if on {
			set = unix.SetsockoptSockFprog(int(fd), syscall.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &filter[0]})
		} else {
			set = unix.SetsockoptInt(int(fd), syscall.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
		}
	})
	return errors.Join(err, set)
}
