// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/hostfacts"
)

// hostsGuide says where all of it is explained.
const hostsGuide = "docs/guides/devices.md#what-a-node-has"

// hosts: what nodes tell of themselves in their NodeDataplanes, one verdict a node. None
// where nothing of it is installed.
func (c *cluster) hosts(ctx context.Context) (out []verdict) {
	list := &v1alpha1.NodeDataplaneList{}
	if err := c.List(ctx, list); meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil // before the installation
	} else if err != nil {
		return []verdict{unseen("nodes", err)}
	}
	for i := range list.Items {
		if h := list.Items[i].Status.Host; h != nil {
			out = append(out, judgeHost("node "+list.Items[i].Name, h)...)
		}
	}
	return out
}

// thisHost is the same of the machine that the command runs on, below a root: on a node,
// before anything is installed. The kubelet is not asked.
func thisHost(root string) []verdict {
	return judgeHost("this host", hostfacts.Read(hostfacts.Sources{Root: root, Links: hostfacts.Links, XDP: hostfacts.XDP}))
}

// checkThisHost refuses a folder that is no machine's root: it would lack everything.
func checkThisHost(s streams, f format, root string) error {
	for _, part := range []string{"proc", "sys"} {
		if at, err := os.Stat(filepath.Join(root, part)); err != nil || !at.IsDir() {
			return fmt.Errorf("--host: must be a folder with proc and sys, such as /; %s has no %s", root, part)
		}
	}
	return answer(s, f, thisHost(root))
}

// judgeHost is one line of what a machine has, and one for each thing that it lacks or
// that is wrong.
func judgeHost(subject string, h *v1alpha1.NodeHost) []verdict {
	out := []verdict{{subject, fine, describeHost(h), ""}}
	for _, m := range h.Missing {
		out = append(out, verdict{subject, warning, m.Subject + ": " + m.Message, "add " + m.Add})
	}
	var same, orphans []string
	for _, f := range h.VirtualFunctions {
		if f.SameMACAs != "" {
			same = append(same, f.PCIAddress)
		}
		if f.Use == v1alpha1.UseOrphan {
			orphans = append(orphans, f.PCIAddress)
		}
	}
	if len(same) > 0 {
		out = append(out, verdict{subject, warning, "virtual functions with one MAC: " + strings.Join(same, ", "), "ip link set CARD vf N mac MAC, another for each"})
	}
	if len(orphans) > 0 {
		out = append(out, verdict{subject, warning, "virtual functions in use without a pod: " + strings.Join(orphans, ", "), "look who has them; no pod gets them: " + hostsGuide})
	}
	return out
}

func describeHost(h *v1alpha1.NodeHost) string {
	words := []string{fmt.Sprintf("AF_XDP %s", h.AFXDP), fmt.Sprintf("IOMMU %s", h.IOMMU), functionsOf(h.VirtualFunctions)}
	for _, p := range h.Hugepages {
		words = append(words, fmt.Sprintf("%d of %d hugepages of %d MiB free on node %d", p.Free, p.Pages, p.PageMebibytes, p.NUMANode))
	}
	if len(h.Hugepages) == 0 {
		words = append(words, "no hugepages")
	}
	for _, cpus := range [][2]string{{"isolated", h.IsolatedCPUs}, {"exclusive", h.ExclusiveCPUs}} {
		if cpus[1] != "" {
			words = append(words, "CPUs "+cpus[1]+" "+cpus[0])
		}
	}
	return strings.Join(words, ", ")
}

// functionsOf counts them by resource and driver.
func functionsOf(all []v1alpha1.HostFunction) string {
	if len(all) == 0 {
		return "no virtual functions"
	}
	count := map[string]int{}
	var kinds []string
	for _, f := range all {
		kind := "on " + f.Driver
		if f.Driver == "" {
			kind = "without driver"
		}
		if f.Resource != "" {
			kind = "of " + f.Resource + " " + kind
		}
		if count[kind]++; count[kind] == 1 {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%d virtual functions %s", count[kind], kind)
	}
	return strings.Join(kinds, ", ")
}
