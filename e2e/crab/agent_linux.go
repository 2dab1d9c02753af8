// SPDX-License-Identifier: Apache-2.0

package crab

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// patience is for a slow, busy machine; nothing is judged by it. Agents get more of it: those of all hosts of several
// beds may start at once, and the kernel verifies all programs of each.
const (
	patience      = 60 * time.Second
	agentPatience = 4 * patience
)

// Start the host's agent and wait until it has applied its file.
func (h *Host) Start() {
	h.bed.t.Helper()
	h.writeConfig()
	h.Restart()
}

// Restart starts the agent on what is pinned.
func (h *Host) Restart() {
	h.bed.t.Helper()
	h.launch()
	h.await("ready", 1)
}

func (h *Host) launch() {
	h.bed.t.Helper()
	log, err := os.OpenFile(h.log, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	h.bed.must(err)
	defer log.Close()
	h.agent = h.agentCommand()
	h.agent.Stdout, h.agent.Stderr = log, log
	h.bed.must(h.agent.Start())
}

func (h *Host) agentCommand() *exec.Cmd {
	line := append(slices.Clone(h.under), h.bed.tool, "run", "--root", h.root(), "--config", h.configFile())
	return h.Command(line[0], line[1:]...)
}

// Kill -9 the agent.
func (h *Host) Kill() {
	if h.agent != nil {
		_ = h.agent.Process.Kill()
		_ = h.agent.Wait()
		h.agent = nil
	}
}

// Stop asks the agent to end, and waits until it has.
func (h *Host) Stop() {
	h.bed.t.Helper()
	h.bed.must(h.agent.Process.Signal(syscall.SIGTERM))
	for end := time.Now().Add(patience / 4); !exited(h.agent); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			h.bed.t.Fatalf("%s: the agent does not end: %s", h.Name, h.Log())
		}
	}
	_ = h.agent.Wait()
	h.agent = nil
}

// Apply gives the running agent a new file.
func (h *Host) Apply(change func(*Config)) {
	h.bed.t.Helper()
	before := h.said("applied")
	change(&h.config)
	h.writeConfig()
	h.await("applied", before+1)
}

// Log is what the agent printed.
func (h *Host) Log() string {
	raw, _ := os.ReadFile(h.log)
	return string(raw)
}

// said counts the lines of the log that are this one.
func (h *Host) said(line string) (times int) {
	for l := range strings.SplitSeq(h.Log(), "\n") {
		if l == line {
			times++
		}
	}
	return times
}

func (h *Host) await(line string, times int) {
	h.bed.t.Helper()
	for end := time.Now().Add(agentPatience); h.said(line) < times; time.Sleep(20 * time.Millisecond) {
		if exited(h.agent) {
			h.bed.t.Fatalf("%s: the agent ended and did not say %q: %s", h.Name, line, h.Log())
		}
		if time.Now().After(end) {
			h.bed.t.Fatalf("%s: the agent did not say %q in %s: %s", h.Name, line, agentPatience, h.Log())
		}
	}
}

func exited(c *exec.Cmd) bool {
	raw, err := os.ReadFile("/proc/" + itoa(c.Process.Pid) + "/stat")
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	return strings.HasPrefix(rest, "Z")
}

// device of one host's uplink.
func uplink(duties ...string) []map[string]any {
	return []map[string]any{{"name": "eth0", "placement": "Uplink", "duties": duties}}
}

// StartAll gives every host the usual part: the client's sends to the VIP, the
// balancer has the servers, they echo. change edits the balancer's VIP.
func (b *Bed) StartAll(port int, change func(vip map[string]any)) {
	b.t.Helper()
	var dialled, balanced []map[string]any
	for _, vip := range b.vips() {
		dialled = append(dialled, b.dialled(vip, port))
		balanced = append(balanced, map[string]any{"addr": vip, "port": port, "roles": "Balance", "policy": "RoundRobin", "backends": b.Backends("UpCRAB")})
	}
	if change != nil {
		change(balanced[0])
	}
	for _, h := range b.all {
		switch {
		case h.Name == "client":
			h.config = Config{Devices: uplink("client"), VIPs: dialled}
		case h.Name == "lb":
			h.config = Config{Devices: uplink("balancer"), VIPs: balanced}
		default:
			h.config = Config{Devices: uplink("server"), AllowEcho: b.vips()}
		}
		h.writeConfig()
		h.launch() // all at once: the kernel verifies their programs for a while
	}
	for _, h := range b.all {
		h.await("ready", 1)
	}
}

// dialled is a VIP as its clients' agents know it.
func (b *Bed) dialled(vip string, port int) map[string]any {
	return map[string]any{"addr": vip, "port": port, "roles": "Client", "policy": "RoundRobin", "prefixes": []string{b.nets}}
}

// Backends are all servers in one state.
func (b *Bed) Backends(state string) []map[string]any { return inState(state, b.Servers()) }

func inState(state string, servers []*Host) []map[string]any {
	var all []map[string]any
	for _, h := range servers {
		all = append(all, map[string]any{"addr": h.Addr, "state": state})
	}
	return all
}
