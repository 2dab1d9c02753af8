// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"errors"
	"os"
	"os/exec"
	"strings"
)

// needKernel asks for kernel features whose modules nothing else loads by
// itself. Without the bridge filter, a pod that reaches a Service whose chosen
// endpoint sits on the same node gets its answer from the wrong address.
func needKernel() error {
	if !hasBridgeFilter() {
		_ = exec.Command("modprobe", "br_netfilter").Run() // absent where the kernel has no modules
	}
	if !hasBridgeFilter() {
		return errors.New("the kernel has no br_netfilter (module not found and not built in): Services would not work; install the module for this kernel")
	}
	if !hasOverlay() {
		_ = exec.Command("modprobe", "overlay").Run()
	}
	if !hasOverlay() {
		return errors.New("the kernel has no overlay file system: containers cannot start; install the module for this kernel")
	}
	return nil
}

func hasBridgeFilter() bool {
	_, err := os.Stat("/proc/sys/net/bridge/bridge-nf-call-iptables")
	return err == nil
}

func hasOverlay() bool {
	b, err := os.ReadFile("/proc/filesystems")
	return err == nil && strings.Contains(string(b), "\toverlay\n")
}
