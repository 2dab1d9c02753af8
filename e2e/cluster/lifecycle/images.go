// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bobtail-dev/bobtail/e2e/cluster/layout"
	"github.com/bobtail-dev/bobtail/e2e/cluster/netns"
	"github.com/bobtail-dev/bobtail/e2e/cluster/ociimage"
	"github.com/bobtail-dev/bobtail/e2e/cluster/proc"
)

func (m *Manager) importImage(c layout.Cluster, node, tar, digests string) error {
	holder, err := m.live("node-" + node)
	if err != nil {
		return err
	}
	ctr := func(args ...string) error {
		_, err := proc.Run(m.env(c.Tools), "", holder.Enter(inNode, append([]string{c.Tools.Path("ctr"), "-n", "k8s.io", "images"}, args...)...)...)
		return err
	}
	if err := ctr("import", "--snapshotter", "overlayfs", tar); err != nil {
		return err
	}
	for tagged, pinned := range pinnedNames(digests) {
		if err := ctr("tag", "--force", tagged, pinned); err != nil {
			return err
		}
	}
	return nil
}

// pinnedNames are the names by which a pod may ask for imported images with a digest, as a
// registry would give them, by the names they came with.
func pinnedNames(digests string) map[string]string {
	out := map[string]string{}
	for _, one := range strings.Fields(digests) {
		name, digest, _ := strings.Cut(one, "=")
		if colon := strings.LastIndex(name, ":"); colon > strings.LastIndex(name, "/") && digest != "" {
			out[name] = name[:colon] + "@" + digest
		}
	}
	return out
}

// loaded is where a node notes which archive it has under a file name: images
// stay until the cluster goes down, so importing the same again is waste.
func (m *Manager) loaded(node, tar string) string {
	return m.State.Node(node, "loaded", filepath.Base(tar))
}

// loadImage imports an archive into one node unless it has it already.
func (m *Manager) loadImage(c layout.Cluster, node, tar, digests string) error {
	note := m.loaded(node, tar)
	if was, err := os.ReadFile(note); err == nil && digests != "" && string(was) == digests {
		return nil
	}
	if err := m.importImage(c, node, tar, digests); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(note), 0o755); err != nil {
		return err
	}
	return os.WriteFile(note, []byte(digests), 0o644)
}

// LoadImages imports image archives into every node.
func (m *Manager) LoadImages(tars []string) error {
	return m.changing(func(c layout.Cluster) error { return m.loadImages(c, tars) })
}

func (m *Manager) loadImages(c layout.Cluster, tars []string) error {
	digests := map[string]string{}
	for _, tar := range tars {
		abs, err := filepath.Abs(tar) // nodes start in the root folder
		if err != nil {
			return err
		}
		if digests[abs], err = ociimage.Digests(abs); err != nil {
			return fmt.Errorf("image archive: %w", err)
		}
	}
	step := fmt.Sprintf("importing %d images into %d nodes", len(tars), len(c.Nodes))
	return m.step(step, m.State.Log("containerd-a"), "not an OCI or Docker image archive", func() error {
		return eachNode(netns.Plan(c.Nodes, c.DualStack), func(n netns.Node) error {
			for tar, d := range digests {
				if err := m.loadImage(c, n.Name, tar, d); err != nil {
					return err
				}
			}
			return nil
		})
	})
}
