// SPDX-License-Identifier: Apache-2.0

// Package leftovers records what a cluster could leave behind on a machine and
// compares two such records. Everything is compared that outlives a process
// (mounts, links, routes, cgroups, rules, kernel settings, well-known paths);
// of processes and what hangs on them, those that bear the cluster's marks,
// because a machine has other work to do meanwhile.
package leftovers

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"

	"github.com/bobtail-dev/bobtail/e2e/cluster/layout"
)

// Mark is the environment variable that every daemon of a cluster carries.
const Mark = "BOBTAIL_CLUSTER_STATE"

// Snapshot maps a category to its items; an item's value is "" where being
// there is all there is to say.
type Snapshot map[string]map[string]string

// Item is one difference.
type Item struct {
	Category string `json:"category"`
	Name     string `json:"name"`
	Before   string `json:"before,omitempty"`
	After    string `json:"after,omitempty"`
	Change   string `json:"change"` // added, removed, changed
}

func (i Item) String() string {
	if i.Change == "changed" {
		return fmt.Sprintf("%s: %s changed from %q to %q", i.Category, i.Name, i.Before, i.After)
	}
	return fmt.Sprintf("%s: %s %s %s%s", i.Category, i.Name, i.Change, i.Before, i.After)
}

type probe struct {
	name string
	read func(layout.State) (map[string]string, error)
}

// settings alone may grow: a kernel feature used for the first time can load a
// module, and the module brings settings of its own. Settings of a new link are
// no loss, since the link itself is listed.
const settings = "sysctl"

var probes = []probe{
	{"process", Processes},
	{"namespace", ourNamespaces},
	{"mount", mounts},
	{"link", links},
	{"address and route", routes},
	{"cgroup", cgroups},
	{"cgroup controller", controllers},
	{"rule", rules},
	{settings, sysctls},
	{"path", paths},
}

// Take records the machine's state now.
func Take(st layout.State) (Snapshot, error) {
	s := Snapshot{}
	for _, p := range probes {
		items, err := p.read(st)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		s[p.name] = items
	}
	return s, nil
}

// Diff lists what was added, removed or changed, sorted.
func Diff(before, after Snapshot) []Item {
	items := []Item{}
	for _, p := range probes {
		b, a := before[p.name], after[p.name]
		for name, was := range b {
			now, there := a[name]
			switch {
			case !there && wentOnItsOwn(before, after, p.name, name):
			case !there:
				items = append(items, Item{Category: p.name, Name: name, Before: was, Change: "removed"})
			case now != was:
				items = append(items, Item{Category: p.name, Name: name, Before: was, After: now, Change: "changed"})
			}
		}
		for name, now := range a {
			if _, there := b[name]; !there && p.name != settings {
				items = append(items, Item{Category: p.name, Name: name, After: now, Change: "added"})
			}
		}
	}
	sort.Slice(items, func(i, j int) bool {
		if items[i].Category != items[j].Category {
			return items[i].Category < items[j].Category
		}
		return items[i].Name < items[j].Name
	})
	return items
}

// wentOnItsOwn says of something that was there before the cluster was, and so was
// never its own, that others took it away: their network namespaces, the virtual
// links that go with those, settings and routes of such links, the control groups of
// sessions that ended.
// What else is gone, a device or a mount of the machine, would be damage.
func wentOnItsOwn(before, after Snapshot, category, name string) bool {
	gone := func(link string) bool {
		_, there := after["link"][link]
		return before["link"][link] == virtual && !there
	}
	switch category {
	case "mount":
		return strings.HasPrefix(name, namespaces+"/") && strings.HasSuffix(name, " nsfs")
	case "path":
		return strings.HasPrefix(name, namespaces+"/")
	case "link":
		return gone(name)
	case settings: // net/ipv4/conf/LINK/...
		return slices.ContainsFunc(strings.Split(name, "/"), gone)
	case "address and route":
		words := strings.Fields(name)
		dev := slices.Index(words, "dev")
		return dev >= 0 && dev+1 < len(words) && gone(words[dev+1])
	}
	return category == "cgroup"
}

// Write stores a snapshot.
func (s Snapshot) Write(path string) error { return writeJSON(path, s) }

// Read loads a snapshot.
func Read(path string) (Snapshot, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var s Snapshot
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", path, err)
	}
	return s, nil
}

// WriteItems stores a difference.
func WriteItems(path string, items []Item) error { return writeJSON(path, items) }

// ReadItems loads a difference.
func ReadItems(path string) ([]Item, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var items []Item
	return items, json.Unmarshal(b, &items)
}

func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}
