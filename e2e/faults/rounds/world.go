// SPDX-License-Identifier: Apache-2.0

package rounds

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/faults/bed"
)

// Long waits are for a machine that has other things to do, not for the
// programs: nothing is asserted about how long they take. Set once, by Run.
var patience = time.Minute

// world is a running bed.
type world struct {
	v    Variant
	root string // of the repository
	dir  string // logs, sockets, keys, configuration
	net  *bed.Network

	mu      sync.Mutex
	routers []*bed.Process
	servers []*bed.Process
	lives   []int // of each server, so that each life has its own execution log
	started int   // names of loads
	logs    map[string]bool
	ended   []error // what went wrong as processes ended
}

func newWorld(v Variant, root, dir string) (*world, error) {
	w := &world{v: v, root: root, dir: dir, logs: map[string]bool{}, lives: make([]int, servers)}
	if err := w.writeFiles(); err != nil {
		return nil, err
	}
	var err error
	if w.net, err = bed.NewNetwork(v.hosts()); err != nil {
		return nil, err
	}
	w.routers, w.servers = make([]*bed.Process, v.routers()), make([]*bed.Process, servers)
	for i := range servers {
		err = errors.Join(err, w.startServer(i, fastService))
	}
	for i := range v.routers() {
		err = errors.Join(err, w.startRouter(i))
	}
	if err == nil {
		err = w.waitWhole()
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) writeFiles() error {
	text, err := w.v.document().Canonical()
	if err != nil {
		return err
	}
	return errors.Join(
		os.MkdirAll(w.path("keys"), 0o700),
		os.WriteFile(w.path("keys/1"), []byte("000102030405060708090a0b0c0d0e0f\n"), 0o600),
		os.WriteFile(w.path("config.json"), text, 0o600))
}

// program is the path of a C program of the variant's build.
func (w *world) program(name string) string {
	build := "dataplane"
	if w.v.Build != "release" {
		build += "-" + w.v.Build
	}
	return filepath.Join(w.root, "build", build, "apps", name, name)
}

func (w *world) start(name string, host int, ctl bool, argv ...string) (*bed.Process, error) {
	socket := ""
	if ctl {
		socket = w.path(name + ".sock")
		argv = append(argv, "--ctl="+socket)
	}
	p, err := w.net.Start(name, host, w.dir, socket, argv...)
	if err == nil {
		w.mu.Lock()
		w.logs[p.Log] = true
		w.mu.Unlock()
	}
	return p, err
}

func (w *world) startRouter(i int) error {
	p, err := w.start(fmt.Sprintf("router-%d", i), w.v.routerHost(i), true, w.program("bobtail-router"),
		fmt.Sprintf("--threads=%d", w.v.routerThreads()), "--address="+w.v.address(w.v.routerHost(i)), "--config="+w.path("config.json"), "--key-dir="+w.path("keys"),
		"--drain-seconds=5", "--drain-quiet=500ms", w.v.fastPath())
	w.routers[i] = p
	return err
}

// goServer tells whether server i is the Go one.
func (w *world) goServer(i int) bool { return w.v.Go && i == servers-1 }

func (w *world) startServer(i int, service time.Duration) error {
	w.lives[i]++
	host := w.v.serverHost(i)
	argv := []string{
		w.program("bobtail-serve"), "--address=" + w.v.address(host), "--workers=" + strconv.Itoa(workers),
		fmt.Sprintf("--service-time=fixed:%dms", service.Milliseconds()), "--execution-log=" + w.executionLog(i),
		"--drain-seconds=10", fmt.Sprintf("--drain-quiet=%dms", drainQuiet.Milliseconds()), "--queue-depth=" + strconv.Itoa(depth), "--key-dir=" + w.path("keys"),
	}
	if w.goServer(i) {
		argv = []string{
			filepath.Join(w.root, "build", "bin", "faultpeer"), "serve", "--address=" + w.v.address(host), "--workers=" + strconv.Itoa(workers),
			fmt.Sprintf("--service-time=%dms", service.Milliseconds()), "--execution-log=" + w.executionLog(i), "--key-dir=" + w.path("keys"),
		}
	}
	if w.v.Legacy {
		argv = append(argv, "--legacy-routers", "--routers="+w.targets())
	} else {
		argv = append(argv, "--config="+w.path("config.json"))
	}
	p, err := w.start(fmt.Sprintf("server-%d", i), host, true, argv...)
	w.servers[i] = p
	return err
}

func (w *world) executionLog(i int) string {
	return w.path(fmt.Sprintf("executions-%d-%d.log", i, w.lives[i]))
}

// targets are the routers, as loads name them.
func (w *world) targets() string {
	var list []string
	for i := range w.v.routers() {
		list = append(list, bracket(w.v.address(w.v.routerHost(i)))+":8000")
	}
	return strings.Join(list, ",")
}

func bracket(ip string) string {
	if strings.Contains(ip, ":") {
		return "[" + ip + "]"
	}
	return ip
}

// whole tells what is missing until every router may use every worker with
// nothing outstanding.
func (w *world) whole() error {
	for i, r := range w.routers {
		st, err := r.State()
		if err != nil {
			return err
		}
		if st.Queue != nil && st.Queue.Held != 0 {
			return fmt.Errorf("router %d holds %d requests", i, st.Queue.Held)
		}
		if len(st.Members) != servers*workers {
			return fmt.Errorf("router %d has %d members, want %d", i, len(st.Members), servers*workers)
		}
		for _, m := range st.Members {
			// n of a worker is shared by the routers it heard lately.
			least := depth / w.v.routers()
			if w.v.Legacy {
				least = 1 // a worker without the long FEEDBACK tells no n
			}
			if !m.Eligible || m.Suspect || m.Ejected || m.Outstanding != 0 || m.N < least || m.N > depth {
				return fmt.Errorf("router %d sees worker %s:%d eligible %v, suspect %v, ejected %v, outstanding %d (sent %d, done %d, lost %d), n %d",
					i, m.Address, m.Port, m.Eligible, m.Suspect, m.Ejected, m.Outstanding, m.Sent, m.Done, m.Lost, m.N)
			}
		}
	}
	return nil
}

func (w *world) waitWhole() error {
	_, err := bed.Until(patience, w.whole)
	return err
}

// processes are those that should run.
func (w *world) processes() []*bed.Process {
	var list []*bed.Process
	for _, p := range append(append([]*bed.Process(nil), w.servers...), w.routers...) {
		if p != nil {
			list = append(list, p)
		}
	}
	return list
}

// stop ends every program by SIGTERM, all at once, and tells which did not end well.
func (w *world) stop() error {
	var err error
	for _, p := range w.processes() {
		p.Signal(sigterm)
	}
	for _, p := range w.processes() {
		err = errors.Join(err, p.Wait(patience))
	}
	return errors.Join(append(w.ended, err)...)
}

// close removes the bed, whatever state it is in.
func (w *world) close() {
	for _, p := range w.processes() {
		if p.Running() {
			p.Kill()
		}
	}
	w.net.Close()
}
