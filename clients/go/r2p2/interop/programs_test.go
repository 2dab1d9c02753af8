// SPDX-License-Identifier: Apache-2.0

// Package interop holds the Go library against the C programs, over loopback,
// both ways round. It has tests only.
package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/config"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/internal/starved"
)

var loopback = netip.MustParseAddr("127.0.0.1")

// program finds a C program: in $BOBTAIL_BUILD, else in build/dataplane.
func program(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("BOBTAIL_BUILD")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "build", "dataplane")
	}
	path, err := filepath.Abs(filepath.Join(dir, "apps", name, name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is not built: %v", name, err)
		}
		t.Skipf("%s is not built (run `make build`, or point BOBTAIL_BUILD to a dataplane build): %v", name, err)
	}
	return path
}

// process is a running C program; its output is shown when the test fails.
type process struct {
	cmd  *exec.Cmd
	out  lockedBuffer
	done chan struct{}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func start(t *testing.T, name string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(program(t, name), args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("%s %s:\n%s", name, strings.Join(args, " "), p.out.String())
		}
	})
	return p
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// ports finds n consecutive UDP ports that are free now.
func ports(t *testing.T, n int) int {
	t.Helper()
	for range 200 {
		var held []*net.UDPConn
		first := 0
		for i := range n {
			at := 0
			if i > 0 {
				at = first + i
			}
			c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: at})
			if err != nil {
				break
			}
			held = append(held, c)
			if i == 0 {
				first = c.LocalAddr().(*net.UDPAddr).Port
			}
		}
		for _, c := range held {
			c.Close()
		}
		if len(held) == n {
			return first
		}
	}
	t.Fatalf("no %d consecutive UDP ports are free", n)
	return 0
}

// cserver is a running bobtail-serve.
func cserver(t *testing.T, workers int, args ...string) (*process, int) {
	t.Helper()
	port := ports(t, workers)
	args = append([]string{"--address=127.0.0.1", "--port=" + strconv.Itoa(port), "--workers=" + strconv.Itoa(workers), "--ctl="}, args...)
	return start(t, "bobtail-serve", args...), port
}

// crouter is a running bobtail-router with a control socket.
type crouter struct {
	*process
	request, feedback int
	socket            string
	conn              net.Conn
}

func newCRouter(t *testing.T, keyDir string) *crouter {
	t.Helper()
	r := &crouter{request: ports(t, 1), feedback: ports(t, 1), socket: filepath.Join(t.TempDir(), "ctl.sock")}
	r.process = start(t, "bobtail-router", "--address=127.0.0.1", fmt.Sprintf("--request-port=%d", r.request),
		fmt.Sprintf("--feedback-port=%d", r.feedback), "--ctl="+r.socket, "--key-dir="+keyDir)
	eventually(t, "router's control socket", func() bool {
		var err error
		r.conn, err = net.Dial("unixpacket", r.socket)
		return err == nil
	})
	t.Cleanup(func() { r.conn.Close() })
	return r
}

func (r *crouter) entry(i int) config.Router {
	return config.Router{Address: "127.0.0.1", RequestPort: r.request, FeedbackPort: r.feedback, Name: fmt.Sprintf("router-%d", i)}
}

func (r *crouter) addr() netip.AddrPort { return netip.AddrPortFrom(loopback, uint16(r.request)) }

// ask sends one control message and decodes the answer.
func ask(t *testing.T, c net.Conn, text string, out any) {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1<<20)
	n, err := c.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(buf[:n], out); err != nil {
		t.Fatalf("%s: %v", buf[:n], err)
	}
}

func (r *crouter) state(t *testing.T) *ctl.State {
	t.Helper()
	st := &ctl.State{}
	ask(t, r.conn, `{"v":1,"op":"state"}`, st)
	if !st.OK {
		t.Fatalf("state: %v", st.Error)
	}
	return st
}

func apply(t *testing.T, c net.Conn, doc *config.Document) {
	t.Helper()
	text, err := doc.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	var out ctl.Applied
	ask(t, c, fmt.Sprintf(`{"v":1,"op":"apply","hash":"%s","config":%s}`, config.Hash(text), text), &out)
	if !out.OK {
		t.Fatalf("apply: %v", out.Error)
	}
}

func document(depth int, keyIDs []int, routers []*crouter, members ...config.Member) *config.Document {
	d := &config.Document{
		APIVersion: config.APIVersion,
		Service: config.Service{
			Name: "echo", Namespace: "demo", Placement: "Software", Policy: "JBSQ", WorkerQueueDepth: depth, CentralQueueLimit: 65536,
			MaxQueueMilliseconds: 20000, Forwarding: "Encapsulated", DeviceProfile: "Kernel", LegacyPeers: "Deny",
			RequestTimeoutMilliseconds: 10000, WorkersPerReplica: 1,
		},
		Members: members, KeyIDs: keyIDs,
	}
	for i, r := range routers {
		d.Routers = append(d.Routers, r.entry(i))
	}
	return d
}

func keyDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "1"), []byte("000102030405060708090a0b0c0d0e0f"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if cond() {
			return
		}
	}
	t.Fatalf("not within a minute: %s", what)
}

// load is what bobtail-load reports.
type load struct {
	Offered, Sent, Completed, Dropped, Timeouts, Errors, Lost uint64
	Histogram                                                 json.RawMessage
}

func runLoad(t *testing.T, args ...string) load {
	t.Helper()
	cmd := exec.Command(program(t, "bobtail-load"), append(args, "--output=json", "--warmup=0s")...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		t.Fatalf("bobtail-load: %v\n%s%s", err, out.String(), errOut.String())
	}
	var l load
	if err := json.Unmarshal(out.Bytes(), &l); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	return l
}

// answeredLoad is a load of messages of several packets, every one answered; it
// tells whether a starved machine lost some before.
func answeredLoad(t *testing.T, args ...string) (l load, disturbed bool) {
	t.Helper()
	disturbed = starved.Answered(t, func() error {
		if l = runLoad(t, args...); l.Offered == 0 || l.Completed != l.Offered {
			return fmt.Errorf("%+v, want every request answered", l)
		}
		return nil
	})
	return l, disturbed
}

// lossless fails the test unless every offered request was answered.
func (l load) lossless(t *testing.T) {
	t.Helper()
	if l.Offered == 0 || l.Completed != l.Offered || l.Dropped+l.Timeouts+l.Errors+l.Lost != 0 {
		t.Errorf("%+v, want every request answered", l)
	}
}
