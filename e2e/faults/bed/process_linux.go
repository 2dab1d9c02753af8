// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/config"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
)

// Process is one run of a program on a host.
type Process struct {
	Name string
	Host int
	Log  string // file with what it wrote
	Ctl  string // its control socket, "" without
	// Killed is set before a SIGKILL: its end is then no failure.
	Killed bool

	cmd  *exec.Cmd
	done chan struct{}

	mu   sync.Mutex
	conn *net.UnixConn
	buf  []byte
}

// sanitizers make a report end the program: a run that goes on after one
// proves nothing.
var sanitizers = []string{
	"ASAN_OPTIONS=abort_on_error=0:detect_leaks=1",
	"UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1",
	"TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1",
}

// Start runs a program; its output goes to LOG/NAME.log, behind that of earlier runs.
func (n *Network) Start(name string, host int, dir, ctlPath string, argv ...string) (*Process, error) {
	p := &Process{Name: name, Host: host, Ctl: ctlPath}
	return p, p.start(dir, n.Command(context.Background(), host, argv...))
}

// StartHere runs a program in the network that this process is in.
func StartHere(name, dir, ctlPath string, argv ...string) (*Process, error) {
	p := &Process{Name: name, Ctl: ctlPath}
	return p, p.start(dir, exec.Command(argv[0], argv[1:]...))
}

func (p *Process) start(dir string, cmd *exec.Cmd) error {
	p.Log, p.done, p.cmd = filepath.Join(dir, p.Name+".log"), make(chan struct{}), cmd
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd.Env = append(os.Environ(), sanitizers...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	// A signal to the runner's terminal is the runner's business.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	return nil
}

// PID of the program: `ip netns exec` becomes it.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Running tells whether it has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Signal sends a signal.
func (p *Process) Signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// Kill ends it as a crash of its host would.
func (p *Process) Kill() {
	p.Killed = true
	_ = p.cmd.Process.Kill()
	<-p.done
	p.hangUp()
}

// Wait for the end; an error when it takes longer or the exit status is not 0.
func (p *Process) Wait(most time.Duration) error {
	select {
	case <-p.done:
	case <-time.After(most):
		return fmt.Errorf("%s did not end within %v", p.Name, most)
	}
	p.hangUp()
	if code := p.cmd.ProcessState.ExitCode(); code != 0 && !p.Killed {
		return fmt.Errorf("%s: %s", p.Name, p.cmd.ProcessState)
	}
	return nil
}

// Stop is SIGTERM and a clean end.
func (p *Process) Stop(most time.Duration) error {
	p.Signal(syscall.SIGTERM)
	return p.Wait(most)
}

func (p *Process) hangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn != nil {
		p.conn.Close()
		p.conn = nil
	}
}

const (
	askMost    = 20 * time.Second // sanitizers on a busy machine
	replyBytes = 1 << 20
)

// ask sends one control message and decodes the answer. The connection stays.
func (p *Process) ask(message []byte, out any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn == nil {
		c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: p.Ctl, Net: "unixpacket"})
		if err != nil {
			return err
		}
		p.conn, p.buf = c, make([]byte, replyBytes)
	}
	_ = p.conn.SetDeadline(time.Now().Add(askMost))
	_, err := p.conn.Write(message)
	var n int
	if err == nil {
		n, err = p.conn.Read(p.buf)
	}
	if err == nil {
		err = json.Unmarshal(p.buf[:n], out)
	}
	if err != nil {
		p.conn.Close()
		p.conn = nil
		return fmt.Errorf("%s: control socket: %w", p.Name, err)
	}
	return nil
}

func query(op string) []byte { return fmt.Appendf(nil, `{"v":%d,"op":%q}`, ctl.Version, op) }

// State asks what it is doing.
func (p *Process) State() (*ctl.State, error) {
	s := &ctl.State{}
	if err := p.ask(query(ctl.OpState), s); err != nil {
		return nil, err
	}
	if s.Error != nil {
		return nil, s.Error
	}
	return s, nil
}

// Samples are counters and gauges by name and labels.
type Samples []ctl.Sample

// Sum of all of that name whose labels are among those given as name, value pairs.
func (s Samples) Sum(name string, labels ...string) (n int64) {
next:
	for _, c := range s {
		if c.Name != name {
			continue
		}
		for i := 0; i+1 < len(labels); i += 2 {
			if c.Labels[labels[i]] != labels[i+1] {
				continue next
			}
		}
		n += int64(c.Value)
	}
	return n
}

// Counters asks for all of them.
func (p *Process) Counters() (Samples, error) {
	c := ctl.Counters{}
	if err := p.ask(query(ctl.OpCounters), &c); err != nil {
		return nil, err
	}
	return append(c.Counters, c.Gauges...), nil
}

// Apply hands over a configuration.
func (p *Process) Apply(d *config.Document) error {
	text, err := d.Canonical()
	if err != nil {
		return err
	}
	var out ctl.Applied
	err = p.ask(fmt.Appendf(nil, `{"v":%d,"op":"apply","hash":%q,"config":%s}`, ctl.Version, config.Hash(text), text), &out)
	if err == nil && out.Error != nil {
		err = out.Error
	}
	return err
}

// Files is how many file descriptors it has open.
func (p *Process) Files() int {
	entries, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID()))
	return len(entries)
}

var rssLine = regexp.MustCompile(`(?m)^VmRSS:\s+(\d+) kB`)

// RSS is its resident memory in KiB.
func (p *Process) RSS() int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	m := rssLine.FindSubmatch(text)
	if m == nil {
		return 0
	}
	kib, _ := strconv.Atoi(string(m[1]))
	return kib
}

// sanitizerLine begins a report of any sanitizer, or of Go's race detector.
var sanitizerLine = regexp.MustCompile(`(?m)^.*(ERROR: AddressSanitizer|ERROR: LeakSanitizer|runtime error:|WARNING: ThreadSanitizer|FATAL: ThreadSanitizer|WARNING: DATA RACE|panic:|fatal error:).*$`)

// SanitizerReports are the first lines of reports in a log.
func SanitizerReports(log string) ([]string, error) {
	text, err := os.ReadFile(log)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return sanitizerLine.FindAllString(string(text), -1), err
}

// Tail is the end of a log.
func Tail(log string, lines int) string {
	text, _ := os.ReadFile(log)
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Until polls until cond is true; the error of a wait that was in vain is the
// last one cond gave.
func Until(most time.Duration, cond func() error) (took time.Duration, err error) {
	start := time.Now()
	for {
		err = cond()
		took = time.Since(start)
		if err == nil || took > most {
			return took, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}
