// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// State is one cluster's folder. Everything a cluster leaves on disk is in it.
type State struct{ Root string }

// DefaultStateDir is used when no --state is given.
func DefaultStateDir() (string, error) {
	if dir := os.Getenv("BOBTAIL_STATE"); dir != "" {
		return filepath.Join(dir, "cluster"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no home folder; give --state=DIR: %w", err)
	}
	return filepath.Join(home, ".local", "state", "bobtail", "cluster"), nil
}

// hiddenFromNodes are folders a node covers with its own mounts, so that a
// state folder below them would disappear from the node's sight.
var hiddenFromNodes = []string{"/run", "/var/run", "/var/lib", "/var/log", "/sys", "/proc"}

// OpenState checks and returns the state folder; it need not exist yet.
func OpenState(dir string) (State, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return State{}, err
	}
	for _, hidden := range hiddenFromNodes {
		if abs == hidden || strings.HasPrefix(abs, hidden+"/") {
			return State{}, fmt.Errorf("--state=%s: nodes mount their own %s and could not see it; choose a folder elsewhere", dir, hidden)
		}
	}
	return State{Root: abs}, nil
}

// ID is short and stable; cgroups and process marks carry it so that clusters
// with different state folders never touch each other.
func (s State) ID() string {
	sum := sha256.Sum256([]byte(s.Root))
	return hex.EncodeToString(sum[:3])
}

// CgroupName is the folder of this cluster in every cgroup hierarchy.
func (s State) CgroupName() string { return "bobtail-" + s.ID() }

func (s State) path(parts ...string) string {
	return filepath.Join(append([]string{s.Root}, parts...)...)
}

// Kubeconfig is the administrator's kubeconfig for the root network namespace.
func (s State) Kubeconfig() string { return s.path("kubeconfig") }

// PKI is the folder of certificates, keys and the components' kubeconfigs.
func (s State) PKI(file string) string { return s.path("pki", file) }

// Pid is the pid file of one process.
func (s State) Pid(process string) string { return s.path("run", process+".json") }

// RunDir holds the pid files.
func (s State) RunDir() string { return s.path("run") }

// LogDir holds one log per process; it survives down for post-mortems.
func (s State) LogDir() string { return s.path("logs") }

// Log is the log file of one process.
func (s State) Log(process string) string { return s.path("logs", process+".log") }

// Etcd is etcd's data folder.
func (s State) Etcd() string { return s.path("etcd") }

// Images holds the tars that every node imports at start.
func (s State) Images(file string) string { return s.path("images", file) }

// CNI is the folder of our own CNI plugin.
func (s State) CNI(file string) string { return s.path("cni", file) }

// Node is a path in one node's folder.
func (s State) Node(node string, parts ...string) string {
	return s.path(append([]string{"nodes", node}, parts...)...)
}

// Before is the snapshot of the machine taken before the cluster started.
func (s State) Before() string { return s.path("before.json") }

// Leftovers is the difference written by the last down.
func (s State) Leftovers() string { return s.path("leftovers.json") }

// Lock serialises up, down and the other changing commands.
func (s State) Lock() string { return s.path(".lock") }

// Cluster is what up decided and later commands need to know.
type Cluster struct {
	Nodes     []string `json:"nodes"`
	DualStack bool     `json:"dualStack,omitempty"`
	// StaticCPUs: the kubelets' CPU manager is static.
	StaticCPUs bool     `json:"staticCPUs,omitempty"`
	Machines   []string `json:"machines,omitempty"` // nodes on machines of their own, which came later
	Tools      Tools    `json:"tools"`
	APIPort    int      `json:"apiPort"`
	Cgroup2    string   `json:"cgroup2"`
	CgroupV1   bool     `json:"cgroupV1"`
	MountedC2  bool     `json:"mountedCgroup2,omitempty"`
}

func (s State) clusterFile() string { return s.path("cluster.json") }

// ErrNoCluster means that no cluster was started in this state folder.
var ErrNoCluster = errors.New("no cluster here: start one with bobtail-cluster up")

// ReadCluster returns what up recorded.
func (s State) ReadCluster() (Cluster, error) {
	var c Cluster
	b, err := os.ReadFile(s.clusterFile())
	if errors.Is(err, os.ErrNotExist) {
		return c, fmt.Errorf("%s: %w", s.Root, ErrNoCluster)
	}
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return c, fmt.Errorf("%s is damaged (%w): run bobtail-cluster down", s.clusterFile(), err)
	}
	return c, nil
}

// WriteCluster records what up decided.
func (s State) WriteCluster(c Cluster) error {
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(s.clusterFile(), append(b, '\n'), 0o644)
}

// Node2Cgroup is the cgroup2 folder of one node: programs attached to it see
// the traffic of the node's daemons and of every pod on it.
func (s State) Node2Cgroup(c Cluster, node string) string {
	return filepath.Join(c.Cgroup2, s.CgroupName(), node)
}
