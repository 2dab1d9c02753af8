// SPDX-License-Identifier: Apache-2.0

package agentlink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// startTime is how long an agent may take to listen.
const startTime = 10 * time.Second

// Start runs an agent on this machine and connects to it. The agent ends with
// the link; what it wrote to standard error is part of the error if it fails.
func Start(ctx context.Context, program string) (*Link, error) {
	folder, err := os.MkdirTemp("", "lancet-")
	if err != nil {
		return nil, fmt.Errorf("start an agent: %w", err)
	}
	address := "unix:" + filepath.Join(folder, "agent.sock")
	said := &tail{}
	command := exec.Command(program, "--agent="+address, "--agent-once")
	command.Stderr = said
	command.WaitDelay = grace // for what it started itself and left behind
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := command.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start an agent: %w; build it (make build) or name it with --agent-program", err), os.RemoveAll(folder))
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	link, err := await(ctx, address, ended)
	stop := func() error {
		end(command.Process, ended)
		return os.RemoveAll(folder)
	}
	if err != nil {
		_ = stop() // what matters is why it did not start
		return nil, fmt.Errorf("%w\n%s", err, said)
	}
	link.Name, link.stop = fmt.Sprintf("local (pid %d)", command.Process.Pid), stop
	return link, nil
}

// grace is how long an agent may take to end by itself once it is asked to.
const grace = 5 * time.Second

// end asks the process to end and, where it does not listen, ends it.
func end(process *os.Process, ended <-chan error) {
	_ = process.Signal(syscall.SIGTERM) // it may have ended by itself: --agent-once
	select {
	case <-ended:
	case <-time.After(grace):
		_ = process.Kill()
		<-ended
	}
}

// await dials until the agent listens, has ended, or took too long.
func await(ctx context.Context, address string, ended chan error) (*Link, error) {
	late := time.After(startTime)
	for {
		link, err := Dial(ctx, address, nil)
		if err == nil {
			return link, nil
		}
		if !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case end := <-ended:
			ended <- end
			return nil, fmt.Errorf("the agent ended at once: %v", end)
		case <-late:
			return nil, fmt.Errorf("the agent does not listen after %v: %w", startTime, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// tail keeps the end of what an agent said.
type tail struct {
	mutex sync.Mutex
	text  []byte
}

const tailBytes = 4096

func (t *tail) Write(p []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.text = append(t.text, p...)
	t.text = bytes.Clone(t.text[max(0, len(t.text)-tailBytes):])
	return len(p), nil
}

func (t *tail) String() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return strings.TrimSpace(string(t.text))
}
