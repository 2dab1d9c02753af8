// SPDX-License-Identifier: Apache-2.0

package syntax

// reader goes through the tokens. A refusal is a panic with *Error, caught in Parse.
type reader struct {
	tokens []Token
	at     int
	depth  int
	types  map[string]bool // names of types: (name)x is a cast
	notes  map[string]bool // of declarations at the top
}

const maxDepth = 200 // of nesting

// Parse makes a tree of preprocessed tokens.
func Parse(tokens []Token) (prog *Program, err error) {
	r := &reader{tokens: tokens, types: map[string]bool{}}
	defer func() {
		switch e := recover().(type) {
		case nil:
		case *Error:
			prog, err = nil, e
		default:
			panic(e)
		}
	}()
	prog = &Program{Notes: map[string]bool{}}
	r.notes = prog.Notes
	for r.peek().Kind != EOF {
		prog.Decls = append(prog.Decls, r.topDecl()...)
	}
	return prog, nil
}

func (r *reader) peek() Token { return r.ahead(0) }

func (r *reader) ahead(n int) Token {
	if r.at+n >= len(r.tokens) {
		return r.tokens[len(r.tokens)-1]
	}
	return r.tokens[r.at+n]
}

func (r *reader) next() Token {
	t := r.peek()
	if t.Kind != EOF {
		r.at++
	}
	return t
}

func (r *reader) fail(p Pos, format string, args ...any) {
	panic(Errorf(p, format, args...))
}

func shown(t Token) string {
	if t.Kind == EOF {
		return "the end of the file"
	}
	return "'" + t.Text + "'"
}

// is and takes a punctuation or word.
func (r *reader) is(text string) bool { return r.peek().Text == text && r.peek().Kind != Text }

func (r *reader) accept(text string) bool {
	if r.is(text) {
		r.at++
		return true
	}
	return false
}

func (r *reader) want(text string) Token {
	t := r.peek()
	if !r.accept(text) {
		r.fail(t.Pos, "want '%s', got %s", text, shown(t))
	}
	return t
}

var reserved = map[string]bool{"action": true, "actions": true, "apply": true, "bit": true, "bool": true, "const": true, "control": true,
	"default": true, "else": true, "entries": true, "enum": true, "exit": true, "extern": true, "false": true, "header": true,
	"header_union": true, "if": true, "in": true, "inout": true, "int": true, "key": true, "list": true, "match_kind": true, "out": true,
	"package": true, "parser": true, "return": true, "select": true, "state": true, "string": true, "struct": true, "switch": true,
	"table": true, "this": true, "transition": true, "true": true, "tuple": true, "type": true, "typedef": true, "varbit": true,
	"value_set": true, "void": true, "for": true, "break": true, "continue": true}

func (r *reader) name(what string) string {
	t := r.next()
	if t.Kind != Name || reserved[t.Text] {
		r.fail(t.Pos, "want %s, got %s", what, shown(t))
	}
	return t.Text
}

func (r *reader) deeper(p Pos) {
	if r.depth++; r.depth > maxDepth {
		r.fail(p, "nested more than %d deep", maxDepth)
	}
}

func (r *reader) annotations() []Annotation {
	var all []Annotation
	for r.is("@") {
		r.next()
		t := r.next()
		if t.Kind != Name {
			r.fail(t.Pos, "want the name of an annotation, got %s", shown(t))
		}
		a := Annotation{Name: t.Text}
		if r.is("(") {
			r.next()
			if !r.is(")") {
				a.Value = r.annotationValue()
			}
			r.want(")")
		}
		all = append(all, a)
	}
	return all
}

func (r *reader) annotationValue() *Expr {
	if t := r.peek(); t.Kind == Text {
		r.next()
		return &Expr{at: at{t.Pos}, Kind: EName, Name: t.Text}
	}
	return r.expr()
}

func (r *reader) typeRef() *TypeRef {
	t := r.next()
	ref := &TypeRef{at: at{t.Pos}, Name: t.Text}
	switch t.Text {
	case "bit", "int":
		if t.Text == "int" && !r.is("<") {
			return ref
		}
		r.want("<")
		ref.Size = r.primary()
		r.want(">")
	case "bool", "void":
	case "varbit", "tuple", "list", "string", "enum", "header_union":
		r.fail(t.Pos, "type %s is not in the subset", t.Text)
	default:
		if t.Kind != Name || reserved[t.Text] {
			r.fail(t.Pos, "want a type, got %s", shown(t))
		}
		ref.Args = r.typeArgs()
		if r.is("[") {
			r.fail(t.Pos, "header stacks are not in the subset")
		}
	}
	return ref
}

func (r *reader) typeArgs() []*TypeRef {
	if !r.is("<") {
		return nil
	}
	r.next()
	r.deeper(r.peek().Pos)
	defer func() { r.depth-- }()
	var args []*TypeRef
	for !r.is(">") {
		args = append(args, r.typeRef())
		if !r.accept(",") {
			break
		}
	}
	r.want(">")
	return args
}

func (r *reader) topDecl() []Decl {
	notes := r.annotations()
	for _, n := range notes {
		r.notes[n.Name] = true
	}
	t := r.peek()
	switch t.Text {
	case "const":
		return []Decl{r.constant()}
	case "typedef":
		r.next()
		d := &Typedef{at: at{t.Pos}, Type: r.typeRef(), Name: r.name("a name")}
		r.types[d.Name] = true
		r.want(";")
		return []Decl{d}
	case "struct", "header":
		return []Decl{r.structure()}
	case "parser":
		return []Decl{r.parser()}
	case "control":
		return []Decl{r.control()}
	}
	if t.Kind == Name && !reserved[t.Text] {
		return []Decl{r.instance(notes)}
	}
	r.fail(t.Pos, "%s is not in the subset here", shown(t))
	return nil
}

func (r *reader) constant() *Const {
	t := r.want("const")
	c := &Const{at: at{t.Pos}, Type: r.typeRef(), Name: r.name("a name")}
	r.want("=")
	c.Value = r.expr()
	r.want(";")
	return c
}

func (r *reader) structure() *Struct {
	t := r.next()
	s := &Struct{at: at{t.Pos}, Header: t.Text == "header", Name: r.name("a name")}
	r.types[s.Name] = true
	r.want("{")
	for !r.accept("}") {
		r.annotations()
		f := Field{at: at{r.peek().Pos}, Type: r.typeRef(), Name: r.name("a field")}
		s.Fields = append(s.Fields, f)
		r.want(";")
	}
	return s
}

func (r *reader) params() []Param {
	r.want("(")
	var all []Param
	for !r.is(")") {
		r.annotations()
		p := Param{at: at{r.peek().Pos}}
		switch r.peek().Text {
		case "in", "out", "inout":
			p.Direction = r.next().Text
		}
		p.Type, p.Name = r.typeRef(), r.name("a parameter")
		all = append(all, p)
		if !r.accept(",") {
			break
		}
	}
	r.want(")")
	return all
}

func (r *reader) args() []*Expr {
	r.want("(")
	var all []*Expr
	for !r.is(")") {
		all = append(all, r.expr())
		if !r.accept(",") {
			break
		}
	}
	r.want(")")
	return all
}

// instance is Type<...>(args) name; or Type<...>(args) name = { void apply(...) { ... } };
func (r *reader) instance(notes []Annotation) *Instance {
	d := &Instance{at: at{r.peek().Pos}, Annotations: notes, Type: r.typeRef()}
	d.Args = r.args()
	d.Name = r.name("the name of an instance")
	if r.accept("=") {
		r.want("{")
		t := r.want("void")
		r.want("apply")
		d.Apply = &Action{at: at{t.Pos}, Name: "apply", Params: r.params(), Body: r.block()}
		r.want("}")
	}
	r.want(";")
	return d
}
