// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bobtail-dev/bobtail/hack/p4/judge"
	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// Mutation is one planted bug.
type Mutation struct {
	Name, File, Find, Replace, Why string
}

// Mutations reads the rows: `- key: "value"` and `  key: "value"` lines, nothing else.
func Mutations(file string) ([]Mutation, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []Mutation
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, quoted, ok := strings.Cut(line[min(2, len(line)):], ": ")
		var value string
		if !ok || json.Unmarshal([]byte(quoted), &value) != nil {
			return nil, fmt.Errorf("%s:%d: want a key and a double-quoted string", file, i+1)
		}
		if strings.HasPrefix(line, "- ") {
			all = append(all, Mutation{})
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("%s:%d: a row begins with -", file, i+1)
		}
		row := &all[len(all)-1]
		to := map[string]*string{"name": &row.Name, "file": &row.File, "find": &row.Find, "replace": &row.Replace, "why": &row.Why}[key]
		if to == nil {
			return nil, fmt.Errorf("%s:%d: %s is no key", file, i+1, key)
		}
		*to = value
	}
	return all, nil
}

// Bench is what planted bugs are looked for with.
type Bench struct {
	Root    string // of the tree
	Vectors string
	Lines   []byte // of bobtail-sim switch
	Frames  uint64

	Segments []byte // of bobtail-sim switch --program=crab
	Messages []byte // of bobtail-sim switch --program=aggregator
	Requests []byte // of bobtail-sim switch --program=box
	Beside   []byte // of bobtail-sim switch --program=software
}

// text of the mutation's file with the bug in it.
func (b *Bench) text(m Mutation) (string, error) {
	text, err := os.ReadFile(filepath.Join(b.Root, m.File))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), m.Find); n != 1 {
		return "", fmt.Errorf("%s: its text occurs %d times in %s: once is wanted", m.Name, n, m.File)
	}
	return strings.Replace(string(text), m.Find, m.Replace, 1), nil
}

// Check says which rows do not find their text.
func (b *Bench) Check(rows []Mutation) error {
	for _, m := range rows {
		if _, err := b.text(m); err != nil {
			return err
		}
	}
	return nil
}

// Plant says what noticed a bug; "": nothing did. An error: the row is no program.
func (b *Bench) Plant(m Mutation) (string, error) {
	text, err := b.text(m)
	if err != nil {
		return "", err
	}
	if strings.HasSuffix(m.File, ".go") {
		return b.plantInGo(m, text)
	}
	planted := filepath.Join(b.Root, m.File)
	files := func(name string) (string, error) {
		if filepath.Clean(name) == planted {
			return text, nil
		}
		raw, err := os.ReadFile(name)
		return string(raw), err
	}
	name := filepath.Base(filepath.Dir(m.File))
	var programs []*model.Program
	for _, shell := range []string{"v1model", "tna"} {
		p, err := model.LoadFrom(filepath.Join(b.Root, "dataplane/p4", name, shell+".p4"), files, nil)
		if err != nil {
			return "", fmt.Errorf("%s is no program: %w", m.Name, err)
		}
		programs = append(programs, p)
	}
	return b.Notice(name, programs[0], programs[1])
}

// Notice is the first of the proofs that fails for a pair of programs; "": all hold.
func (b *Bench) Notice(name string, v1, tna *model.Program) (string, error) {
	if f := append(judge.Gress(tna, tna.Ingress).Findings, judge.Gress(tna, tna.Egress).Findings...); len(f) > 0 {
		return "discipline: " + f[0], nil
	}
	for _, p := range []*model.Program{v1, tna} {
		if _, failed, err := Cases(filepath.Join(b.Root, "dataplane/p4", name, "stf"), p); err != nil || len(failed) > 0 {
			return "case: " + strings.Join(failed, "; "), err
		}
	}
	switch name {
	case "crab":
		return b.noticeCrab(v1, tna)
	case "slog":
		return b.noticeSlog(v1, tna)
	case "aggregator":
		return b.noticeAggregator(v1, tna)
	case "box":
		return b.noticeBox(v1, tna)
	}
	return b.noticeRouter(v1, tna)
}

func (b *Bench) noticeCrab(v1, tna *model.Program) (string, error) {
	r, err := PlayCrab(bytes.NewReader(b.Segments), v1, tna, 1)
	if err != nil || len(r.First) == 0 && r.Odd == 0 {
		return "", err
	}
	return "segments: " + strings.Join(r.First, "; "), nil
}

func (b *Bench) noticeAggregator(v1, tna *model.Program) (string, error) {
	r, err := PlayAggregator(bytes.NewReader(b.Messages), v1, tna, 1)
	if err != nil || len(r.First) == 0 && r.Odd == 0 {
		return "", err
	}
	return "messages: " + strings.Join(r.First, "; "), nil
}

func (b *Bench) noticeBox(v1, tna *model.Program) (string, error) {
	for _, p := range []*model.Program{v1, tna} {
		if _, failed, err := BoxVectors(b.Vectors, p); err != nil || len(failed) > 0 {
			return "vector: " + strings.Join(failed, "; "), err
		}
	}
	if failed, err := BoxPlaces(v1); err != nil || len(failed) > 0 {
		return "places: " + strings.Join(failed, "; "), err
	}
	r, err := PlayBox(bytes.NewReader(b.Requests), v1, tna, 1)
	if err != nil || len(r.First) == 0 && r.Odd == 0 {
		return "", err
	}
	return "requests: " + strings.Join(r.First, "; "), nil
}

func (b *Bench) noticeSlog(v1, tna *model.Program) (string, error) {
	for _, p := range []*model.Program{v1, tna} {
		r, err := Slog(p, Load{Rate: 2e6, TemplateNS: 81.6, Packets: 4000}, 1)
		if err != nil {
			return "", err
		}
		if len(r.First) > 0 || r.Odd > 0 {
			return "load: " + strings.Join(r.First, "; "), nil
		}
	}
	n, first, err := SlogShells(v1, tna, 7, b.Frames)
	if err != nil || n > 0 {
		return "architectures: " + strings.Join(first, "; "), err
	}
	return "", nil
}

func (b *Bench) noticeRouter(v1, tna *model.Program) (string, error) {
	for _, p := range []*model.Program{v1, tna} {
		if _, failed, err := Vectors(b.Vectors, p); err != nil || len(failed) > 0 {
			return "vector: " + strings.Join(failed, "; "), err
		}
		r, err := Play(bytes.NewReader(b.Lines), p, 1)
		if err != nil {
			return "", err
		}
		if len(r.First) > 0 || r.Odd > 0 {
			return "lockstep: " + strings.Join(r.First, "; "), nil
		}
		beside, err := PlayBeside(bytes.NewReader(b.Beside), p, 1)
		if err != nil {
			return "", err
		}
		if len(beside.First) > 0 || beside.Odd > 0 {
			return "software: " + strings.Join(beside.First, "; "), nil
		}
	}
	n, first, err := Shells(v1, tna, 7, b.Frames)
	if err != nil || n > 0 {
		return "architectures: " + strings.Join(first, "; "), err
	}
	return "", nil
}

// plantInGo runs the tests of the package of a file that is another one in this run only.
func (b *Bench) plantInGo(m Mutation, text string) (string, error) {
	dir, err := os.MkdirTemp("", "p4check")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	root, err := filepath.Abs(b.Root)
	if err != nil {
		return "", err
	}
	other, overlay := filepath.Join(dir, "planted.go"), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, m.File): other}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(other, []byte(text), 0o600); err != nil {
		return "", err
	}
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "test", "-vet=off", "-overlay="+overlay, "./"+filepath.Dir(m.File))
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err == nil {
		return "", nil
	}
	if !strings.Contains(string(out), "--- FAIL") {
		return "", fmt.Errorf("%s is no program: %s", m.Name, out)
	}
	return "its tests", nil
}
