// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/e2e/cluster/netns"
)

func machine() Machine {
	return Machine{Node: netns.Plan([]string{"a", "b"}, false)[1], Server: "https://10.99.0.1:6443", Gateway: "10.99.0.11"}
}

// A machine of its own gives whole CPUs away and keeps a share of one for containers that ask
// for less, so that its pods' sidecars have room beside pinned CPUs.
func TestAMachineGivesWholeCPUs(t *testing.T) {
	k := decode(t, machine().Files()["/etc/kubelet.json"])
	for key, want := range map[string]any{"cpuManagerPolicy": "static", "topologyManagerPolicy": "single-numa-node", "tlsCertFile": "/pki/kubelet.crt"} {
		if k[key] != want {
			t.Errorf("%s is %v, want %v", key, k[key], want)
		}
	}
	if r := k["systemReserved"].(map[string]any); r["cpu"] != "500m" {
		t.Errorf("reserved: %v", r)
	}
	if _, there := k["cgroupRoot"]; there {
		t.Error("a machine of its own has a folder in the control groups")
	}
	// Rendered pods ask for ephemeral storage, and a kubelet that does not tell of any gets none of them.
	if counted, said := k["localStorageCapacityIsolation"]; said && counted != true {
		t.Error("the machine offers no ephemeral storage")
	}
	if k["authentication"].(map[string]any)["anonymous"].(map[string]any)["enabled"] != false {
		t.Error("anonymous requests must be refused")
	}
}

// All its files are JSON or TOML of paths on the machine: nothing of this one's is named.
func TestAMachinesFilesNameItsOwnPaths(t *testing.T) {
	m := machine()
	for path, text := range m.Files() {
		if strings.HasSuffix(path, "json") || strings.HasSuffix(path, "conf") || strings.HasSuffix(path, "conflist") {
			if !json.Valid([]byte(text)) {
				t.Errorf("%s: %s", path, text)
			}
		}
		if strings.Contains(text, "/usr/lib/cni") || strings.Contains(text, `""`) {
			t.Errorf("%s: %s", path, text)
		}
	}
	cni := m.Files()["/etc/cni/net.d/10-bridge.conflist"]
	if !strings.Contains(cni, "10.244.1.0/24") || !strings.Contains(cni, "bobtail-networks") || strings.Contains(cni, "portmap") {
		t.Error(cni)
	}
	files := m.Programs(func(p string) string { return "/cache/" + p }, "/somewhere/runc", "/usr/lib/cni")
	if files["/usr/bin/kubelet"] != "/cache/kubelet" || files["/usr/sbin/runc"] != "/somewhere/runc" || files["/opt/cni/bin/bridge"] != "/usr/lib/cni/bridge" {
		t.Error(files)
	}
}
