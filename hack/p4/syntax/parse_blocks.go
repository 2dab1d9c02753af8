// SPDX-License-Identifier: Apache-2.0

package syntax

func (r *reader) control() *Control {
	t := r.want("control")
	c := &Control{at: at{t.Pos}, Name: r.name("a name")}
	c.Params = r.params()
	r.want("{")
	for !r.is("apply") {
		c.Decls = append(c.Decls, r.localDecl())
	}
	r.next()
	c.Apply = r.block()
	r.want("}")
	return c
}

// localDecl is a declaration of a control.
func (r *reader) localDecl() Decl {
	notes := r.annotations()
	t := r.peek()
	switch t.Text {
	case "action":
		r.next()
		a := &Action{at: at{t.Pos}, Annotations: notes, Name: r.name("a name")}
		a.Params, a.Body = r.params(), r.block()
		return a
	case "table":
		return r.table(notes)
	case "const":
		return r.constant()
	}
	return r.varOrInstance(notes)
}

// varOrInstance is T name; T name = value; or T<...>(args) name;
func (r *reader) varOrInstance(notes []Annotation) Decl {
	began := r.at
	t := r.peek()
	ref := r.typeRef()
	if r.is("(") {
		r.at = began
		return r.instance(notes)
	}
	v := &Var{at: at{t.Pos}, Type: ref, Name: r.name("a name")}
	if r.accept("=") {
		v.Value = r.expr()
	}
	r.want(";")
	return v
}

func (r *reader) table(notes []Annotation) *Table {
	t := r.want("table")
	tab := &Table{at: at{t.Pos}, Annotations: notes, Name: r.name("a name")}
	r.want("{")
	for !r.accept("}") {
		r.property(tab)
	}
	return tab
}

func (r *reader) property(tab *Table) {
	r.accept("const")
	t := r.next()
	r.want("=")
	switch t.Text {
	case "key":
		r.want("{")
		for !r.accept("}") {
			k := Key{at: at{r.peek().Pos}, Expr: r.expr()}
			r.want(":")
			k.Kind = r.name("a kind of match")
			r.annotations()
			r.want(";")
			tab.Keys = append(tab.Keys, k)
		}
		return
	case "actions":
		r.want("{")
		for !r.accept("}") {
			r.annotations()
			tab.Actions = append(tab.Actions, ActionRef{at: at{r.peek().Pos}, Name: r.name("an action")})
			r.want(";")
		}
		return
	case "default_action":
		ref := ActionRef{at: at{r.peek().Pos}, Name: r.name("an action")}
		if r.is("(") {
			ref.Args = r.args()
		}
		tab.Default = &ref
	case "size":
		tab.Size = r.expr()
	default:
		r.fail(t.Pos, "table property %s is not in the subset", shown(t))
	}
	r.want(";")
}

func (r *reader) parser() *Parser {
	t := r.want("parser")
	p := &Parser{at: at{t.Pos}, Name: r.name("a name")}
	p.Params = r.params()
	r.want("{")
	for !r.is("}") {
		if r.is("state") {
			p.States = append(p.States, r.state())
			continue
		}
		if len(p.States) > 0 {
			r.fail(r.peek().Pos, "want a state, got %s", shown(r.peek()))
		}
		p.Decls = append(p.Decls, r.varOrInstance(r.annotations()))
	}
	r.next()
	return p
}

func (r *reader) state() *State {
	t := r.want("state")
	s := &State{at: at{t.Pos}, Name: r.name("a name")}
	r.want("{")
	for !r.is("transition") {
		if r.is("}") {
			r.fail(r.peek().Pos, "state %s has no transition", s.Name)
		}
		s.Body = append(s.Body, r.stmt())
	}
	r.next()
	if r.accept("select") {
		s.Keys = r.args()
		if len(s.Keys) == 0 {
			r.fail(t.Pos, "a select of nothing")
		}
		r.want("{")
		for !r.accept("}") {
			s.Cases = append(s.Cases, r.oneCase(len(s.Keys)))
		}
	} else {
		s.Next = r.name("a state")
		r.want(";")
	}
	r.want("}")
	return s
}

func (r *reader) oneCase(keys int) Case {
	c := Case{at: at{r.peek().Pos}}
	switch {
	case r.accept("default") || r.accept("_"):
	case keys > 1 && r.is("("):
		r.next()
		for !r.is(")") {
			c.Keysets = append(c.Keysets, r.keyset())
			if !r.accept(",") {
				break
			}
		}
		r.want(")")
	default:
		c.Keysets = []Keyset{r.keyset()}
	}
	if len(c.Keysets) != 0 && len(c.Keysets) != keys {
		r.fail(c.Pos, "%d keysets for %d keys", len(c.Keysets), keys)
	}
	r.want(":")
	c.Next = r.name("a state")
	r.want(";")
	return c
}

func (r *reader) keyset() Keyset {
	if r.accept("_") || r.accept("default") {
		return Keyset{Any: true}
	}
	k := Keyset{Value: r.expr()}
	if r.accept("&&&") {
		k.Mask = r.expr()
	} else if r.is("..") {
		r.fail(r.peek().Pos, "ranges in a select are not in the subset")
	}
	return k
}

func (r *reader) block() []Stmt {
	t := r.want("{")
	r.deeper(t.Pos)
	defer func() { r.depth-- }()
	body := []Stmt{}
	for !r.accept("}") {
		body = append(body, r.stmt())
	}
	return body
}

func (r *reader) stmt() Stmt {
	notes := r.annotations()
	t := r.peek()
	switch {
	case r.is("{"):
		for _, a := range notes {
			if a.Name != "atomic" {
				r.fail(t.Pos, "annotation @%s of a block is not in the subset", a.Name)
			}
		}
		return &Block{at: at{t.Pos}, Body: r.block()}
	case r.is("if"):
		return r.ifStmt()
	case r.accept(";"):
		return &Block{at: at{t.Pos}}
	case r.is("const"):
		return &Local{at{t.Pos}, r.constant()}
	case t.Kind != Name || reserved[t.Text] && t.Text != "bit" && t.Text != "int" && t.Text != "bool":
		r.fail(t.Pos, "statement %s is not in the subset", shown(t))
	}
	if r.declares() {
		return &Local{at{t.Pos}, r.varOrInstance(notes)}
	}
	return r.assignOrCall()
}

// declares: a type and a name follow.
func (r *reader) declares() bool {
	switch r.peek().Text {
	case "bit", "int", "bool":
		return true
	}
	return r.ahead(1).Kind == Name
}

func (r *reader) ifStmt() Stmt {
	t := r.want("if")
	r.deeper(t.Pos)
	defer func() { r.depth-- }()
	r.want("(")
	s := &If{at: at{t.Pos}, Cond: r.expr()}
	r.want(")")
	s.Then = r.arm()
	if r.accept("else") {
		s.Else = r.arm()
	}
	return s
}

func (r *reader) arm() []Stmt {
	if r.is("{") {
		return r.block()
	}
	return []Stmt{r.stmt()}
}

func (r *reader) assignOrCall() Stmt {
	t := r.peek()
	x := r.postfix()
	if r.accept("=") {
		s := &Assign{at: at{t.Pos}, To: x, Value: r.expr()}
		r.want(";")
		return s
	}
	if x.Kind != ECall {
		r.fail(t.Pos, "want an assignment or a call, got %s after it", shown(r.peek()))
	}
	r.want(";")
	return &Call{at{t.Pos}, x}
}
