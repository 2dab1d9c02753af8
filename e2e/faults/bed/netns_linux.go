// SPDX-License-Identifier: Apache-2.0

// Package bed is a small network of real programs: every host is a network
// namespace, all are joined by the shim, and nothing of the machine's own
// network is touched.
package bed

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bobtail-dev/bobtail/e2e/faults/shim"
)

// Network is a set of hosts named by number. Host i has addresses V4(i) and
// V6(i) on its link eth0.
type Network struct {
	Shim  *shim.Shim
	hosts int
	tag   string
}

// prefix of every namespace of ours; the process id behind it says whose.
const prefix = "btf"

var (
	networks atomic.Int64
	ours     = regexp.MustCompile(`^` + prefix + `(\d+)x\d+h\d+$`)
)

// V4 is a host's IPv4 address.
func V4(host int) string { return fmt.Sprintf("10.119.7.%d", host+1) }

// V6 is a host's IPv6 address.
func V6(host int) string { return fmt.Sprintf("fd77:b7::%x", host+1) }

func ip(args ...string) error {
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

func ipBatch(ns, script string) error {
	cmd := exec.Command("ip", "-n", ns, "-batch", "-")
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip -n %s, one of\n%s%w: %s", ns, script, err, out)
	}
	return nil
}

// NewNetwork makes the hosts and the shim between them. It needs root. Whatever
// a network of a process that is gone has left is removed first.
func NewNetwork(hosts int) (*Network, error) {
	if err := Sweep(); err != nil {
		return nil, err
	}
	n := &Network{hosts: hosts, tag: fmt.Sprintf("%s%dx%d", prefix, os.Getpid(), networks.Add(1))}
	if err := n.build(); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// hub is the namespace of the shim's ends.
func (n *Network) hub() string { return n.Namespace(n.hosts) }

// Namespace of a host.
func (n *Network) Namespace(host int) string { return fmt.Sprintf("%sh%d", n.tag, host) }

func (n *Network) build() error {
	if err := ip("netns", "add", n.hub()); err != nil {
		return err
	}
	var links []string
	for i := range n.hosts {
		if err := n.plug(i); err != nil {
			return err
		}
		links = append(links, fmt.Sprintf("p%d", i))
	}
	return Inside(n.hub(), func() (err error) {
		n.Shim, err = shim.Open(links)
		return err
	})
}

func (n *Network) plug(host int) error {
	ns := n.Namespace(host)
	if err := ip("netns", "add", ns); err != nil {
		return err
	}
	// The hub's end has no address and speaks no IPv6: nobody but the shim may
	// answer or ask anything there.
	err := ipBatch(n.hub(), fmt.Sprintf("link add p%d type veth peer name eth0 netns %s\nlink set p%d addrgenmode none\nlink set p%d up\n",
		host, ns, host, host))
	if err != nil {
		return err
	}
	var s strings.Builder
	fmt.Fprintf(&s, "link set lo up\nlink set eth0 address %s\nlink set eth0 addrgenmode none\nlink set eth0 up\n", shim.MAC(host))
	fmt.Fprintf(&s, "addr add %s/24 dev eth0\naddr add %s/64 dev eth0 nodad\n", V4(host), V6(host))
	for other := range n.hosts {
		if other != host {
			fmt.Fprintf(&s, "neigh replace %s lladdr %s dev eth0 nud permanent\n", V4(other), shim.MAC(other))
			fmt.Fprintf(&s, "neigh replace %s lladdr %s dev eth0 nud permanent\n", V6(other), shim.MAC(other))
		}
	}
	if err := ipBatch(ns, s.String()); err != nil {
		return err
	}
	return Inside(ns, func() error {
		// Linux limits ICMP errors to one a second per peer; clients here learn
		// from every one of them.
		_ = os.WriteFile("/proc/sys/net/ipv4/icmp_ratelimit", []byte("0"), 0o644)
		return shim.CompleteChecksums("eth0")
	})
}

// Inside runs f in a network namespace, on a thread that is thrown away.
func Inside(ns string, f func() error) error {
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread must not run anything else
		fd, err := unix.Open(filepath.Join("/run/netns", ns), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			failed <- fmt.Errorf("namespace %s: %w", ns, err)
			return
		}
		defer unix.Close(fd)
		if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			failed <- fmt.Errorf("enter namespace %s: %w", ns, err)
			return
		}
		failed <- f()
	}()
	return <-failed
}

// Command runs a program on a host.
func (n *Network) Command(ctx context.Context, host int, argv ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", n.Namespace(host)}, argv...)...)
}

// UDP is what a host's kernel counted.
type UDP struct{ Received, NoPort, BufferFull, BadChecksum uint64 }

// Kernel reads the counters of a host, IPv4 and IPv6 together.
func (n *Network) Kernel(host int) (u UDP, err error) {
	err = Inside(n.Namespace(host), func() error {
		v4, err := os.ReadFile("/proc/thread-self/net/snmp")
		if err != nil {
			return err
		}
		v6, err := os.ReadFile("/proc/thread-self/net/snmp6")
		if err != nil {
			return err
		}
		u = readUDP(string(v4), string(v6))
		return nil
	})
	return u, err
}

func readUDP(v4, v6 string) UDP {
	values := map[string]uint64{}
	var names []string
	for _, line := range strings.Split(v4, "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "Udp:" {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		for i := 1; i < len(fields) && i < len(names); i++ {
			values[names[i]], _ = strconv.ParseUint(fields[i], 10, 64)
		}
	}
	for _, line := range strings.Split(v6, "\n") {
		if fields := strings.Fields(line); len(fields) == 2 && strings.HasPrefix(fields[0], "Udp6") {
			v, _ := strconv.ParseUint(fields[1], 10, 64)
			values[strings.TrimPrefix(fields[0], "Udp6")] += v
		}
	}
	return UDP{Received: values["InDatagrams"], NoPort: values["NoPorts"], BufferFull: values["RcvbufErrors"], BadChecksum: values["InCsumErrors"]}
}

// Close ends the shim and removes the namespaces, and with them the links.
func (n *Network) Close() {
	if n.Shim != nil {
		n.Shim.Close()
	}
	for i := range n.hosts + 1 {
		_ = exec.Command("ip", "netns", "del", n.Namespace(i)).Run()
	}
}

// Leftovers lists namespaces that this process has made and not removed.
func Leftovers() []string { return namespaces(func(pid int) bool { return pid == os.Getpid() }) }

func namespaces(of func(pid int) bool) (names []string) {
	entries, _ := os.ReadDir("/run/netns")
	for _, e := range entries {
		if m := ours.FindStringSubmatch(e.Name()); m != nil {
			if pid, _ := strconv.Atoi(m[1]); of(pid) {
				names = append(names, e.Name())
			}
		}
	}
	return names
}

// Sweep removes the namespaces of processes that are gone, and what runs in
// them: a killed run cleans nothing up itself.
func Sweep() error {
	dead := func(pid int) bool { return syscall.Kill(pid, 0) == syscall.ESRCH }
	for _, ns := range namespaces(dead) {
		out, _ := exec.Command("ip", "netns", "pids", ns).Output()
		for _, text := range strings.Fields(string(out)) {
			if pid, err := strconv.Atoi(text); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		// Somebody else may be sweeping too.
		if err := ip("netns", "del", ns); err != nil && slices.Contains(namespaces(dead), ns) {
			return err
		}
	}
	return nil
}
