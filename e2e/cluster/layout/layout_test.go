// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestVersionsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "versions.env")
	write := func(s string) {
		if err := os.WriteFile(path, []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("# pinned\n\nETCD_VERSION=3.6.16\nCONTROLLER_GEN_VERSION=0.23.0\nLWIP_SHA256=00ff\n")
	v, err := readVersions(path)
	if err != nil || v["etcd"] != "3.6.16" || v["controller-gen"] != "0.23.0" || len(v) != 2 {
		t.Errorf("%v, %v", v, err)
	}
	for _, bad := range []string{"ETCD=1\n", "ETCD_VERSION=\n", "LWIP_SHA256=\n", "nonsense\n"} {
		write("\n" + bad)
		if _, err := readVersions(path); err == nil || !strings.Contains(err.Error(), ":2:") {
			t.Errorf("%q: want an error with the line number, got %v", bad, err)
		}
	}
}

// Every tool that a cluster runs must have a pinned version in the repository.
func TestEveryBuiltToolIsPinned(t *testing.T) {
	v, err := FindVersions()
	if err != nil {
		t.Fatal(err)
	}
	for tool := range builtPrograms {
		if v[tool] == "" {
			t.Errorf("%s has no version in %s", tool, versionsFile)
		}
	}
}

func TestMissingNamesWhatToInstall(t *testing.T) {
	tools := Tools{Cache: t.TempDir(), Versions: Versions{"etcd": "3.6.16"}}
	all := strings.Join(tools.Missing(), ", ")
	if !strings.Contains(all, "etcd 3.6.16") || !strings.Contains(all, "kubelet") {
		t.Errorf("got %q", all)
	}
}

func TestStateFolderThatNodesCannotSeeIsRefused(t *testing.T) {
	for dir, ok := range map[string]bool{"/var/lib/bobtail": false, "/run": false, "/var/library": true, "/srv/x": true} {
		_, err := OpenState(dir)
		if (err == nil) != ok {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestClustersOfDifferentFoldersDoNotMix(t *testing.T) {
	a, _ := OpenState("/srv/a")
	b, _ := OpenState("/srv/b")
	again, _ := OpenState("/srv/../srv/a")
	if a.CgroupName() == b.CgroupName() || a.CgroupName() != again.CgroupName() {
		t.Errorf("%s %s %s", a.CgroupName(), b.CgroupName(), again.CgroupName())
	}
}

func TestClusterRecord(t *testing.T) {
	s, _ := OpenState(t.TempDir())
	if _, err := s.ReadCluster(); !errors.Is(err, ErrNoCluster) {
		t.Errorf("got %v", err)
	}
	want := Cluster{Nodes: []string{"a", "b"}, APIPort: 4711, Cgroup2: "/sys/fs/cgroup"}
	if err := s.WriteCluster(want); err != nil {
		t.Fatal(err)
	}
	got, err := s.ReadCluster()
	if err != nil || got.APIPort != 4711 || len(got.Nodes) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	if dir := s.Node2Cgroup(got, "b"); dir != "/sys/fs/cgroup/"+s.CgroupName()+"/b" {
		t.Error(dir)
	}
	if err := os.WriteFile(s.clusterFile(), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ReadCluster(); err == nil || !strings.Contains(err.Error(), "down") {
		t.Errorf("a damaged record must say what to do: %v", err)
	}
}
