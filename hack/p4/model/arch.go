// SPDX-License-Identifier: Apache-2.0

package model

import (
	"embed"
	"fmt"
	"os"

	"github.com/bobtail-dev/bobtail/hack/p4/syntax"
)

//go:embed arch/*.p4
var archFiles embed.FS

func system(name string) (string, error) {
	text, err := archFiles.ReadFile("arch/" + name)
	if err != nil {
		return "", fmt.Errorf("<%s> is not in the subset: there are core.p4, v1model.p4 and tna.p4", name)
	}
	return string(text), nil
}

// Load reads a program from the disk and checks it.
func Load(file string, defines map[string]string) (*Program, error) {
	return LoadFrom(file, func(name string) (string, error) {
		text, err := os.ReadFile(name)
		return string(text), err
	}, defines)
}

// LoadFrom reads a program from files. The architecture is the one that it includes.
func LoadFrom(file string, files syntax.Files, defines map[string]string) (*Program, error) {
	arch := ""
	tokens, err := syntax.Preprocess(file, files, func(name string) (string, error) {
		switch name {
		case "v1model.p4":
			arch = "v1model"
		case "tna.p4":
			arch = "tna"
		}
		return system(name)
	}, defines)
	if err != nil {
		return nil, err
	}
	tree, err := syntax.Parse(tokens)
	if err != nil {
		return nil, err
	}
	if arch == "" {
		return nil, syntax.Errorf(syntax.Pos{File: file, Line: 1}, "includes neither <v1model.p4> nor <tna.p4>")
	}
	return Build(tree, arch)
}

// enumValue is a member of an enum or error that the architectures have; nil: there is none.
func enumValue(of, member string) (uint64, *Type) {
	switch of + "." + member {
	case "error.NoError":
		return noError, errorType
	case "error.PacketTooShort":
		return packetTooShort, errorType
	case "error.NoMatch":
		return noMatch, errorType
	case "CloneType.E2E":
		return cloneEgress, bits(8)
	case "CloneType.I2E", "HashAlgorithm.csum16", "CounterType.packets", "CounterType_t.PACKETS":
		return 0, bits(8)
	case "HashAlgorithm.crc16", "HashAlgorithm_t.CRC16":
		return 16, bits(8)
	case "HashAlgorithm.crc32", "HashAlgorithm_t.CRC32":
		return 32, bits(8)
	}
	return 0, nil
}

// gress is one pass of a program: what its blocks share by type.
type gress struct {
	places map[string]*Place
	parser []*state
}

func (b *builder) architecture() {
	main, ok := b.lookup("main").(*syntax.Instance)
	if !ok {
		b.fail(syntax.Pos{}, "there is no main")
	}
	switch b.prog.Arch {
	case "v1model":
		b.v1model(main)
	default:
		b.tna(main)
	}
}

// block is the parser or control that an argument of a package makes an instance of.
func (b *builder) block(x *syntax.Expr) any {
	if x.Kind != syntax.ECall || x.X.Kind != syntax.EName || len(x.Args) != 0 {
		b.fail(x.Pos, "want a block, such as Ingress()")
	}
	switch d := b.lookup(x.X.Name).(type) {
	case *syntax.Parser, *syntax.Control:
		return d
	}
	b.fail(x.Pos, "%s is no parser or control", x.X.Name)
	return nil
}

// params gives each parameter of a block what its type says: blocks of a pass share what is of one type.
func (b *builder) params(g *gress, params []syntax.Param) {
	seen := map[string]bool{}
	for _, p := range params {
		if seen[p.Type.Name] {
			b.fail(p.Pos, "two parameters of type %s", p.Type.Name)
		}
		seen[p.Type.Name] = true
		if p.Type.Name == "packet_in" || p.Type.Name == "packet_out" {
			b.declare(p.Pos, p.Name, &object{kind: p.Type.Name})
			continue
		}
		t := b.typeOf(p.Type)
		if t.Kind != KStruct && t.Kind != KHeader {
			b.fail(p.Pos, "a block with a parameter of %s is not in the subset", t)
		}
		if g.places[t.Name] == nil {
			g.places[t.Name] = b.place(t, p.Name)
		}
		b.declare(p.Pos, p.Name, g.places[t.Name])
	}
}

func (b *builder) parserBlock(g *gress, x *syntax.Expr) {
	p, ok := b.block(x).(*syntax.Parser)
	if !ok {
		b.fail(x.Pos, "want a parser")
	}
	b.within(x.Pos, func() {
		b.params(g, p.Params)
		g.parser = b.parserStates(p)
	})
}

func (b *builder) controlBlock(g *gress, x *syntax.Expr) []*Node {
	c, ok := b.block(x).(*syntax.Control)
	if !ok {
		b.fail(x.Pos, "want a control")
	}
	var nodes []*Node
	b.within(x.Pos, func() {
		b.params(g, c.Params)
		nodes = b.control(c, c.Name)
	})
	return nodes
}

// need is a member of a place that the architecture reads or writes; −1 when the program has no such place.
func (g *gress) need(typ, member string) int {
	p := g.places[typ]
	if p == nil {
		return -1
	}
	return p.member(member).Slot
}
