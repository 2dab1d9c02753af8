// SPDX-License-Identifier: Apache-2.0

// Package hostfacts finds what a machine has for services on devices of their own:
// virtual functions, hugepages, isolated CPUs, an IOMMU, AF_XDP; and what it lacks, with
// the line to add. It reads files below a root, which tests replace by a tree of their own,
// and asks the kernel and the kubelet through functions. It changes nothing.
package hostfacts

import (
	"bufio"
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// VirtualLink is what a physical function says of one of its virtual functions.
type VirtualLink struct {
	MAC  string
	Down bool // its administrator set it down
}

// Sources are asked besides the files. A nil function knows nothing.
type Sources struct {
	// Root of the file system: sys and proc are below it. Empty is the machine's own.
	Root string
	// Links are the virtual functions of a card's interface, by their numbers.
	Links func(card string) map[int]VirtualLink
	// XDP says what the driver of an interface can.
	XDP func(device string) XDPFeatures
	// Kubelet tells what it gave to whom. An error: it cannot be asked.
	Kubelet func() (Given, error)
}

// XDPFeatures of a driver, as the kernel tells them; none where it does not.
type XDPFeatures struct{ Native, ZeroCopy bool }

// Given is what a kubelet has to give and gave.
type Given struct {
	Resources map[string]string // of devices, by their IDs
	Pods      map[string]string // that have a device, as namespace/name, by its ID
	CPUs      []int64           // that containers can have for themselves
}

// Read finds everything there is.
func Read(s Sources) *v1alpha1.NodeHost {
	r := reader{s}
	given, err := Given{}, error(nil)
	asked := s.Kubelet != nil
	if asked {
		given, err = s.Kubelet()
	}
	nodes := r.names("sys/devices/system/node", "node")
	h := &v1alpha1.NodeHost{
		NUMANodes: int32(len(nodes)), IsolatedCPUs: bounded(r.text("sys/devices/system/cpu/isolated"), 128), // #nosec G115 -- of folders
		ExclusiveCPUs: bounded(ranges(given.CPUs), 128), IOMMU: r.iommu(), AFXDP: r.afxdp(), Hugepages: r.hugepages(nodes),
	}
	h.Power = r.power(given, kubelet{asked: asked, err: err})
	cards := r.cards()
	known := asked && err == nil
	for _, card := range cards {
		h.VirtualFunctions = append(h.VirtualFunctions, r.functions(card, given, known)...)
	}
	slices.SortFunc(h.VirtualFunctions, func(a, b v1alpha1.HostFunction) int { return cmp.Compare(a.PCIAddress, b.PCIAddress) })
	markSameMACs(h.VirtualFunctions)
	h.Missing = missing(r, h, cards, given, kubelet{asked: asked, err: err})
	h.VirtualFunctions = h.VirtualFunctions[:min(len(h.VirtualFunctions), v1alpha1.MaxHostFunctions)]
	return h
}

type reader struct{ Sources }

func (r reader) path(path string) string { return filepath.Join(cmp.Or(r.Root, "/"), path) }

// text of a file without the end of its line; empty when it is not to be had.
func (r reader) text(path string) string {
	raw, err := os.ReadFile(r.path(path))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

// exists says whether there is such a file or folder. What may not be looked at is there.
func (r reader) exists(path string) bool {
	_, err := os.Stat(r.path(path))
	return !errors.Is(err, fs.ErrNotExist)
}

// number in a file; -1 when there is none.
func (r reader) number(path string) int64 {
	n, err := strconv.ParseInt(r.text(path), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// names of a folder that begin with a word, in order.
func (r reader) names(folder, word string) (out []string) {
	entries, err := os.ReadDir(r.path(folder))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if rest, ok := strings.CutPrefix(e.Name(), word); ok && (word == "" || isNumber(rest)) {
			out = append(out, e.Name())
		}
	}
	return out
}

// target is the last part of what a link leads to; empty: there is no such link.
func (r reader) target(path string) string {
	to, err := os.Readlink(r.path(path))
	if err != nil {
		return ""
	}
	return filepath.Base(to)
}

func (r reader) iommu() v1alpha1.HostIOMMU {
	if len(r.names("sys/class/iommu", "")) > 0 {
		return v1alpha1.IOMMUOn
	}
	return v1alpha1.IOMMUOff
}

// afxdp: the kernel has its protocol, or not; the rest is the driver's of the default route.
func (r reader) afxdp() v1alpha1.HostAFXDP {
	has := false
	for line := range strings.Lines(r.text("proc/net/protocols")) {
		has = has || strings.HasPrefix(line, "XDP ")
	}
	switch features := r.features(); {
	case !has:
		return v1alpha1.AFXDPNone
	case features.ZeroCopy:
		return v1alpha1.AFXDPZeroCopy
	case features.Native:
		return v1alpha1.AFXDPNative
	}
	return v1alpha1.AFXDPGeneric
}

func (r reader) features() XDPFeatures {
	if device := r.uplink(); device != "" && r.XDP != nil {
		return r.XDP(device)
	}
	return XDPFeatures{}
}

// uplink is the interface of the default route.
func (r reader) uplink() string {
	scanner := bufio.NewScanner(strings.NewReader(r.text("proc/net/route")))
	for scanner.Scan() {
		if f := strings.Fields(scanner.Text()); len(f) > 7 && f[1] == "00000000" && f[7] == "00000000" {
			return f[0]
		}
	}
	return ""
}

func (r reader) hugepages(nodes []string) (out []v1alpha1.HostHugepages) {
	for _, node := range nodes {
		n, _ := strconv.ParseInt(strings.TrimPrefix(node, "node"), 10, 32)
		folder := "sys/devices/system/node/" + node + "/hugepages"
		for _, size := range r.names(folder, "") {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(size, "hugepages-"), "kB"), 10, 64)
			pages, free := r.number(folder+"/"+size+"/nr_hugepages"), r.number(folder+"/"+size+"/free_hugepages")
			if err != nil || kib < 1024 || pages <= 0 || free < 0 {
				continue
			}
			out = append(out, v1alpha1.HostHugepages{PageMebibytes: int32(min(kib/1024, 1<<20)), NUMANode: int32(n), Pages: pages, Free: free}) // #nosec G115 -- bounded
		}
	}
	return out[:min(len(out), v1alpha1.MaxHostHugepages)]
}

// markSameMACs names for each function the first one with its MAC.
func markSameMACs(all []v1alpha1.HostFunction) {
	first := map[string]int{}
	for i := range all {
		mac := all[i].MAC
		if mac == "" {
			continue
		}
		at, seen := first[mac]
		if !seen {
			first[mac] = i
			continue
		}
		all[i].SameMACAs = all[at].PCIAddress
		if all[at].SameMACAs == "" {
			all[at].SameMACAs = all[i].PCIAddress
		}
	}
}

// ranges writes numbers as 2-3,6.
func ranges(cpus []int64) string {
	cpus = slices.Clone(cpus)
	slices.Sort(cpus)
	var parts []string
	for i := 0; i < len(cpus); {
		j := i
		for j+1 < len(cpus) && cpus[j+1] <= cpus[j]+1 {
			j++
		}
		text := strconv.FormatInt(cpus[i], 10)
		if cpus[j] > cpus[i] {
			text += "-" + strconv.FormatInt(cpus[j], 10)
		}
		parts = append(parts, text)
		i = j + 1
	}
	return strings.Join(parts, ",")
}

func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 32)
	return err == nil
}

func bounded(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most-3], "") + "…"
}
