// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stateFile holds what a server was told to be. It stands once the server listens;
// obeyedFile what it is.
const (
	stateFile  = "/state"
	obeyedFile = "/obeyed"
)

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
	if err := os.Rename(stateFile+".new", stateFile); err != nil {
		return err
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if is, err := os.ReadFile(obeyedFile); err == nil && string(is) == state {
			return nil
		}
	}
	return fmt.Errorf("the server is not %s after %s: its log says why", state, patience)
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

// door lets connections in, or keeps them out: then the listener's queue is full, and
// Linux drops every further SYN. Connections accepted earlier go on. (A filter on the
// socket would do the same, but not every kernel lets a container attach one.)
type door struct {
	*net.TCPListener
	mu      sync.Mutex // held while it is shut
	fillers []net.Conn
}

const (
	usual    = 4096 // connections that may wait to be accepted
	fillers  = 16   // more than it takes to fill a queue that is to have no room
	answered = 200 * time.Millisecond
)

// obey makes the door follow the state file, and says in another file that it does. It
// ends with the process.
func (d *door) obey(say func(error)) {
	now := "" // so that it says at once that it is well
	for ; ; time.Sleep(50 * time.Millisecond) {
		read, err := os.ReadFile(stateFile)
		want := strings.TrimSpace(string(read))
		if err != nil || want == now {
			continue
		}
		if (want == deaf) != (now == deaf) {
			if err := d.turn(want == deaf); err != nil {
				say(err)
				continue
			}
		}
		now = want
		if err := os.WriteFile(obeyedFile, []byte(now), 0o600); err != nil {
			say(err)
		}
	}
}

func (d *door) turn(shut bool) error {
	if shut {
		return d.shut()
	}
	for _, c := range d.fillers {
		c.Close()
	}
	d.fillers = nil
	defer d.mu.Unlock()
	return d.queue(usual)
}

// shut fills the queue with connections of its own, until none gets in.
func (d *door) shut() error {
	d.mu.Lock()
	if err := d.queue(0); err != nil {
		d.mu.Unlock()
		return err
	}
	own := net.JoinHostPort("127.0.0.1", strconv.Itoa(d.Addr().(*net.TCPAddr).Port))
	for refused := 0; len(d.fillers) < fillers; {
		c, err := net.DialTimeout("tcp", own, answered)
		if err == nil {
			d.fillers, refused = append(d.fillers, c), 0
			continue
		}
		if refused++; refused == 2 { // after the first, accept may have taken its last one
			return nil
		}
	}
	return errors.Join(fmt.Errorf("%d connections wait, and another one still gets in", fillers), d.turn(false))
}

func (d *door) queue(n int) error {
	raw, err := d.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) { set = syscall.Listen(int(fd), n) })
	return errors.Join(err, set)
}

// accept waits while the door is shut. One connection may come in just then.
func (d *door) accept() (net.Conn, error) {
	d.untilOpen()
	return d.Accept()
}

func (d *door) untilOpen() {
	d.mu.Lock()
	defer d.mu.Unlock()
}
