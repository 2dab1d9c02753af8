// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Tools gives the absolute path of every program the cluster runs.
type Tools struct {
	Cache    string   `json:"cache"`
	Versions Versions `json:"versions"`
}

// CacheDir is where hack/deps/install puts what it builds.
func CacheDir() (string, error) {
	if dir := os.Getenv("BOBTAIL_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no home folder; set BOBTAIL_CACHE to a folder for built tools: %w", err)
	}
	return filepath.Join(home, ".cache", "bobtail"), nil
}

// Dir is the folder of one tool's binaries.
func (t Tools) Dir(tool string) string {
	return filepath.Join(t.Cache, tool+"-"+t.Versions[tool], "bin")
}

// builtPrograms lists, per tool, what must be in its folder.
var builtPrograms = map[string][]string{
	"kubernetes":  {"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"},
	"etcd":        {"etcd"},
	"containerd":  {"containerd", "containerd-shim-runc-v2", "ctr"},
	"coredns":     {"coredns"},
	"whereabouts": {"whereabouts"},
}

// systemPrograms come from Debian packages, named here for the error message.
var systemPrograms = map[string]string{
	"runc": "runc", "conntrack": "conntrack", "nft": "nftables", "iptables": "iptables",
	"ip": "iproute2", "nsenter": "util-linux", "unshare": "util-linux", "sysctl": "procps",
}

// CNIDir is where Debian's containernetworking-plugins puts its binaries.
const CNIDir = "/usr/lib/cni"

// Path returns the absolute path of a built program.
func (t Tools) Path(program string) string {
	for tool, programs := range builtPrograms {
		for _, p := range programs {
			if p == program {
				return filepath.Join(t.Dir(tool), p)
			}
		}
	}
	return program
}

// Missing names everything that has to be installed before a cluster can start.
func (t Tools) Missing() []string {
	var missing []string
	for tool, programs := range builtPrograms {
		for _, p := range programs {
			if _, err := os.Stat(filepath.Join(t.Dir(tool), p)); err != nil {
				missing = append(missing, p+" "+t.Versions[tool])
			}
		}
	}
	for program, pkg := range systemPrograms {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program+" (Debian package "+pkg+")")
		}
	}
	if _, err := os.Stat(filepath.Join(CNIDir, "bridge")); err != nil {
		missing = append(missing, "CNI plugins (Debian package containernetworking-plugins)")
	}
	return missing
}

// SearchPath is the PATH that node programs get: the cached tools first.
func (t Tools) SearchPath() string {
	return strings.Join([]string{t.Dir("containerd"), t.Dir("kubernetes"), "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}, ":")
}
