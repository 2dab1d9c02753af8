// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package netns runs a test as a process with a network and mounts of its own:
// what changes devices, addresses and programs of the kernel then changes nothing
// that anybody else has, on whichever thread it runs.
package netns

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/hack/test/privileged"
)

// variable tells the process of a test that it is inside.
const variable = "BOBTAIL_TEST_INSIDE"

// Inside runs the test once more, inside, and says whether this is that process.
// Each test that uses it is one of its own:
//
//	if !netns.Inside(t) {
//		return
//	}
func Inside(t *testing.T) bool {
	t.Helper()
	if os.Getenv(variable) != "" {
		return true
	}
	privileged.Need(t, "makes a network namespace")
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), variable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return false
}

// IP runs ip(8).
func IP(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Uplink makes the device up0 with the address 10.0.0.1/24; its other end is wire0.
func Uplink(t *testing.T) {
	t.Helper()
	IP(t, "link", "set", "lo", "up")
	IP(t, "link", "add", "up0", "type", "veth", "peer", "name", "wire0")
	IP(t, "link", "set", "up0", "up")
	IP(t, "link", "set", "wire0", "up")
	IP(t, "addr", "add", "10.0.0.1/24", "dev", "up0")
}

// BPF mounts a bpffs and returns its folder.
func BPF(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("bpf", dir, "bpf", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
	return dir
}

// Until waits for something to become true, and says why it has not.
func Until(t *testing.T, ok func() bool, why func() string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(why())
		}
	}
}
