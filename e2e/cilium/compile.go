// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

func wordsOf(s string) int { return len(strings.Fields(s)) }

// variants are the feature sets that programs are compiled with; the module's own dummy headers stand below them.
var variants = map[string][]string{
	// kube-proxy's replacement on natively routed pods.
	"nodeport": {"ENABLE_NODEPORT"},
	// The same, where every packet of the node itself is judged and tracked as well.
	"firewall": {"ENABLE_NODEPORT", "ENABLE_HOST_FIREWALL"},
}

// objects are the sources, and what each needs beside its variant.
var objects = map[string][]string{
	"bpf_host": nil,
	"bpf_lxc":  nil,
	// Programs of tunnel devices exist in tunnelling only.
	"bpf_overlay": {"TUNNEL_MODE", "ENCAP_IFINDEX"},
}

// always are what an agent with both families defines.
var always = []string{"SKIP_DEBUG", "ENABLE_IPV4", "ENABLE_IPV6", "ENABLE_ROUTING"}

// smaller are the maps whose usual sizes are for a node: here are many nodes on one machine.
var smaller = map[string]int{
	"SNAT_MAPPING_IPV4_SIZE": 16384, "SNAT_MAPPING_IPV6_SIZE": 16384,
	"NODEPORT_NEIGH4_SIZE": 4096, "NODEPORT_NEIGH6_SIZE": 4096,
	"CT_MAP_SIZE_TCP": 65536, "CT_MAP_SIZE_ANY": 4096,
	"LB4_REVERSE_NAT_SK_MAP_SIZE": 1024, "LB6_REVERSE_NAT_SK_MAP_SIZE": 1024,
}

// nodeConfig is the header that Cilium's agent writes for its node: here the module's, with other sizes.
func nodeConfig() string {
	var s strings.Builder
	s.WriteString("#include_next <node_config.h>\n")
	for _, name := range sortedKeys(smaller) {
		fmt.Fprintf(&s, "#undef %[1]s\n#define %[1]s %[2]d\n", name, smaller[name])
	}
	return s.String()
}

// compileAll makes every object of every variant: OUT/<variant>/<object>.o.
func compileAll(sources, out string) (any, error) {
	state := filepath.Join(out, "include")
	if err := os.MkdirAll(state, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(state, "node_config.h"), []byte(nodeConfig()), 0o644); err != nil {
		return nil, err
	}
	var all sync.WaitGroup
	var failed error
	var mu sync.Mutex
	made := []string{}
	for variant, features := range variants {
		if err := os.MkdirAll(filepath.Join(out, variant), 0o755); err != nil {
			return nil, err
		}
		all.Go(func() {
			for _, object := range sortedKeys(objects) {
				name := filepath.Join(out, variant, object+".o")
				err := compile(sources, state, object, name, append(append(always[:len(always):len(always)], features...), objects[object]...))
				mu.Lock()
				made, failed = append(made, name), errors.Join(failed, err)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return made, failed
}

// flags are those that Cilium's loader gives the compiler, its warnings aside.
var flags = []string{"-g", "-O2", "--target=bpf", "-std=gnu99", "-nostdinc", "-ftrap-function=__undefined_trap", "-mcpu=v3"}

// compile calls the compiler as Cilium's loader does.
func compile(sources, state, object, out string, defines []string) error {
	args := append([]string{"-I" + state, "-I" + sources, "-I" + filepath.Join(sources, "include")}, flags...)
	for _, d := range defines {
		args = append(args, "-D"+d+"=1")
	}
	args = append(args, "-c", filepath.Join(sources, object+".c"), "-o", out)
	if said, err := exec.Command("clang-19", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("compile %s: %w: %s", object, err, said)
	}
	return nil
}
