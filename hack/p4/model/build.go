// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"

	"github.com/bobtail-dev/bobtail/hack/p4/syntax"
)

// builder makes a Program of a tree: every control, parser and action is put in the place where it is used, so that a
// variable is one slot wherever it is passed.
type builder struct {
	prog     *Program
	types    map[string]*Type
	scopes   []map[string]any // *Place, *Expr, *syntax.Action, *Table, *object, *syntax.Control, *syntax.Parser
	stateful *Stateful        // while its body is read
	path     string           // of the instance, for names
	depth    int
	writes   [][]int // slots written, by open action or control
	words    uint64  // of registers and counters so far
	zeroed   bool    // metadata begins with zeros
}

// object is an instance of an extern or of a control.
type object struct {
	kind      string
	typ       *syntax.TypeRef
	register  *Register
	counter   *Counter
	stateful  *Stateful
	sum       int // slot of a checksum's sum
	width     int // of a Random or Hash
	algorithm int // of a Hash: bits
	control   *syntax.Control
	name      string
}

func (b *builder) fail(p syntax.Pos, format string, args ...any) {
	panic(syntax.Errorf(p, format, args...))
}

func (b *builder) lookup(name string) any {
	for i := len(b.scopes) - 1; i >= 0; i-- {
		if x, ok := b.scopes[i][name]; ok {
			return x
		}
	}
	return nil
}

func (b *builder) declare(p syntax.Pos, name string, what any) {
	top := b.scopes[len(b.scopes)-1]
	if _, twice := top[name]; twice {
		b.fail(p, "%s is declared twice", name)
	}
	top[name] = what
}

func (b *builder) open()  { b.scopes = append(b.scopes, map[string]any{}) }
func (b *builder) close() { b.scopes = b.scopes[:len(b.scopes)-1] }

// within runs f with the global scope alone below a new one: what is used elsewhere sees nothing of where it is used.
func (b *builder) within(p syntax.Pos, f func()) {
	if b.depth++; b.depth > 16 {
		b.fail(p, "controls more than 16 deep")
	}
	kept := b.scopes
	b.scopes = []map[string]any{kept[0], {}}
	f()
	b.scopes = kept
	b.depth--
}

const maxHeaderBits = 4096

func (b *builder) typeOf(ref *syntax.TypeRef) *Type {
	switch ref.Name {
	case "bit", "int":
		if ref.Size == nil {
			return infType
		}
		w := b.constantExpr(ref.Size, nil)
		if w < 1 || w > 64 {
			b.fail(ref.Pos, "%s<%d> is not in the subset: widths are 1 to 64", ref.Name, w)
		}
		if ref.Name == "int" {
			return &Type{Kind: KInt, Width: int(w)}
		}
		return bits(int(w))
	case "bool":
		return boolType
	case "void":
		return voidType
	}
	t := b.types[ref.Name]
	if t == nil {
		b.fail(ref.Pos, "type %s is not declared", ref.Name)
	}
	if len(ref.Args) != 0 {
		b.fail(ref.Pos, "%s takes no type arguments", ref.Name)
	}
	return t
}

func (b *builder) topDecl(d syntax.Decl) {
	switch d := d.(type) {
	case *syntax.Const:
		b.constant(d)
	case *syntax.Typedef:
		b.newType(d.Pos, d.Name, b.typeOf(d.Type))
	case *syntax.Struct:
		b.structure(d)
	case *syntax.Control:
		b.declare(d.Pos, d.Name, d)
	case *syntax.Parser:
		b.declare(d.Pos, d.Name, d)
	case *syntax.Instance:
		b.declare(d.Pos, d.Name, d)
	}
}

func (b *builder) newType(p syntax.Pos, name string, t *Type) {
	if b.types[name] != nil {
		b.fail(p, "type %s is declared twice", name)
	}
	b.types[name] = t
}

func (b *builder) constant(d *syntax.Const) {
	t := b.typeOf(d.Type)
	e := b.expr(d.Value, t)
	if !e.Const || !e.T.same(t) {
		b.fail(d.Pos, "const %s: want a constant %s, got %s", d.Name, t, e.T)
	}
	b.declare(d.Pos, d.Name, e)
}

func (b *builder) structure(d *syntax.Struct) {
	t := &Type{Kind: KStruct, Name: d.Name}
	if d.Header {
		t.Kind = KHeader
	}
	for _, f := range d.Fields {
		ft := b.typeOf(f.Type)
		if d.Header && ft.Kind != KBits || ft.Kind == KInf {
			b.fail(f.Pos, "a member of %s in %s is not in the subset", ft, d.Name)
		}
		if slices.ContainsFunc(t.Fields, func(o TypeField) bool { return o.Name == f.Name }) {
			b.fail(f.Pos, "%s has two members %s", d.Name, f.Name)
		}
		t.Fields = append(t.Fields, TypeField{f.Name, ft, t.Width})
		t.Width += ft.Width
	}
	if d.Header && (t.Width%8 != 0 || t.Width > maxHeaderBits) {
		b.fail(d.Pos, "header %s has %d bits: want whole bytes, at most %d", d.Name, t.Width, maxHeaderBits/8)
	}
	if t.Kind == KStruct {
		t.Width = 0
	}
	b.newType(d.Pos, d.Name, t)
}

// Build checks a program and makes it run.
func Build(tree *syntax.Program, arch string) (prog *Program, err error) {
	b := &builder{prog: &Program{Arch: arch}, types: map[string]*Type{"error": errorType}, scopes: []map[string]any{{}}}
	defer func() {
		switch e := recover().(type) {
		case nil:
		case *syntax.Error:
			prog, err = nil, e
		default:
			panic(e)
		}
	}()
	b.zeroed = arch != "tna" || tree.Notes["pa_auto_init_metadata"]
	for _, d := range tree.Decls {
		b.topDecl(d)
	}
	b.architecture()
	return b.prog, nil
}

func annotated(notes []syntax.Annotation, b *builder) uint64 {
	for _, n := range notes {
		if n.Name == "id" && n.Value != nil {
			return b.constantExpr(n.Value, nil)
		}
	}
	return 0
}
