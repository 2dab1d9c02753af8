// SPDX-License-Identifier: Apache-2.0

package crab

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The step of every counter in another version: its programs can be told from ours while they work.
const otherStep = 1000

// otherPrograms builds an agent of another version with the same maps: its programs count by otherStep.
func (b *Bed) otherPrograms() string {
	b.t.Helper()
	bpf, replace := filepath.Join(b.root, "dataplane/bpf"), map[string]string{}
	maps := filepath.Join(b.dir, "other/crab_maps.h")
	b.run("cp", "-r", bpf, filepath.Join(b.dir, "other"))
	b.change(maps, maps, "*n += 1;", "*n += "+itoa(otherStep)+";")
	include := "/usr/include/" + strings.TrimSpace(b.run("gcc", "-print-multiarch"))
	sources, err := filepath.Glob(filepath.Join(b.dir, "other", "crab_*.bpf.c")) // of both families
	b.must(err)
	for _, source := range sources {
		name := "zz_generated_" + strings.TrimSuffix(filepath.Base(source), ".bpf.c") + "_bpfel.o"
		out := filepath.Join(b.dir, "other", name)
		b.run("clang", "-O2", "-g", "-target", "bpfel", "-mcpu=v3", "-I"+include, "-c", source, "-o", out)
		b.run("llvm-strip", "-g", out)
		replace[filepath.Join(b.root, "operator/internal/redirect/programs", name)] = out
	}
	if len(replace) == 0 {
		b.t.Fatal("no program of crab_*.bpf.c: this test makes another version of each")
	}
	return b.build("other-programs", replace)
}

// otherLayout builds an agent whose maps are laid out in another way.
func (b *Bed) otherLayout() string {
	b.t.Helper()
	source, changed := filepath.Join(b.root, "operator/internal/redirect/programs/pool.go"), filepath.Join(b.dir, "pool.go")
	b.change(source, changed, "LayoutVersion = 1\n", "LayoutVersion = 2\n")
	return b.build("other-layout", map[string]string{source: changed})
}

func (b *Bed) change(from, to, old, other string) {
	b.t.Helper()
	raw, err := os.ReadFile(from)
	b.must(err)
	if strings.Count(string(raw), old) != 1 {
		b.t.Fatalf("%s does not hold %q once: this test changes it to make another version", from, old)
	}
	b.must(os.WriteFile(to, []byte(strings.Replace(string(raw), old, other, 1)), 0o600))
}

// build makes bobtail-redirect with some files replaced.
func (b *Bed) build(name string, replace map[string]string) string {
	b.t.Helper()
	raw, err := json.Marshal(map[string]any{"Replace": replace})
	b.must(err)
	overlay, out := filepath.Join(b.dir, name+".json"), filepath.Join(b.dir, name)
	b.must(os.WriteFile(overlay, raw, 0o600))
	c := exec.Command("go", "build", "-trimpath", "-overlay", overlay, "-o", out, "./operator/cmd/bobtail-redirect")
	c.Dir, c.Env = b.root, append(os.Environ(), "CGO_ENABLED=0")
	if said, err := c.CombinedOutput(); err != nil {
		b.t.Fatalf("build %s: %v: %s", name, err, said)
	}
	return out
}
