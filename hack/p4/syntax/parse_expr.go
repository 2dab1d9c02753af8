// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"strconv"
	"strings"
)

// Binary operators, weakest first.
var levels = [][]string{{"||"}, {"&&"}, {"|"}, {"^"}, {"&"}, {"==", "!="}, {"<", ">", "<=", ">="}, {"<<", ">>"}, {"++", "+", "-", "|+|", "|-|"}}

// expr with ?: at the weakest.
func (r *reader) expr() *Expr {
	t := r.peek()
	r.deeper(t.Pos)
	defer func() { r.depth-- }()
	x := r.binary(0)
	if r.accept("?") {
		e := &Expr{at: at{t.Pos}, Kind: ECond, X: x, Y: r.expr()}
		r.want(":")
		e.Z = r.expr()
		return e
	}
	return x
}

func (r *reader) operator(level int) string {
	t := r.peek()
	if t.Kind != Punct {
		return ""
	}
	for _, op := range levels[level] {
		if op == t.Text {
			// >> is lexed as two.
			return op
		}
		if op == ">>" && t.Text == ">" && r.ahead(1).Text == ">" && r.ahead(1).glued {
			return op
		}
	}
	return ""
}

func (r *reader) binary(level int) *Expr {
	if level == len(levels) {
		return r.unary()
	}
	x := r.binary(level + 1)
	for n := 0; ; n++ {
		t := r.peek()
		op := r.operator(level)
		if op == "" || op == ">" && r.ahead(1).Text == ">" && r.ahead(1).glued {
			break
		}
		if n == maxDepth {
			r.fail(t.Pos, "more than %d operators in a row", maxDepth)
		}
		r.next()
		if op == ">>" {
			r.next()
		}
		x = &Expr{at: at{t.Pos}, Kind: EBinary, Op: op, X: x, Y: r.binary(level + 1)}
	}
	switch t := r.peek(); t.Text {
	case "*", "/", "%":
		r.fail(t.Pos, "operator %s is not in the subset: no switch divides", t.Text)
	}
	return x
}

func (r *reader) unary() *Expr {
	t := r.peek()
	r.deeper(t.Pos)
	defer func() { r.depth-- }()
	switch {
	case r.is("!") || r.is("~") || r.is("-"):
		r.next()
		return &Expr{at: at{t.Pos}, Kind: EUnary, Op: t.Text, X: r.unary()}
	case r.is("(") && r.isCast():
		r.next()
		e := &Expr{at: at{t.Pos}, Kind: ECast, Type: r.typeRef()}
		r.want(")")
		e.X = r.unary()
		return e
	}
	return r.postfix()
}

func (r *reader) isCast() bool {
	n := r.ahead(1)
	switch n.Text {
	case "bit", "int", "bool":
		return true
	}
	return n.Kind == Name && r.types[n.Text] && r.ahead(2).Text == ")"
}

func (r *reader) postfix() *Expr {
	x := r.primary()
	for n := 0; ; n++ {
		t := r.peek()
		if n == maxDepth {
			r.fail(t.Pos, "more than %d members in a row", maxDepth)
		}
		switch {
		case r.accept("."):
			m := r.next()
			if m.Kind != Name {
				r.fail(m.Pos, "want a member, got %s", shown(m))
			}
			x = &Expr{at: at{t.Pos}, Kind: EMember, X: x, Name: m.Text}
			if r.is("<") && r.types[r.ahead(1).Text] && r.ahead(2).Text == ">" && r.ahead(3).Text == "(" {
				r.typeArgs() // emit<T>(...): the argument says it, too
			}
		case r.accept("["):
			s := &Expr{at: at{t.Pos}, Kind: ESlice, X: x, Hi: r.expr()}
			if !r.accept(":") {
				r.fail(t.Pos, "an index of a stack is not in the subset")
			}
			s.Lo = r.expr()
			r.want("]")
			x = s
		case r.is("("):
			x = &Expr{at: at{t.Pos}, Kind: ECall, X: x, Args: r.args()}
		default:
			return x
		}
	}
}

func (r *reader) primary() *Expr {
	t := r.next()
	switch {
	case t.Kind == Number:
		return r.number(t)
	case t.Text == "true" || t.Text == "false":
		e := &Expr{at: at{t.Pos}, Kind: EBool}
		if t.Text == "true" {
			e.Value = 1
		}
		return e
	case t.Kind == Name && !reserved[t.Text]:
		return &Expr{at: at{t.Pos}, Kind: EName, Name: t.Text}
	case t.Kind == Punct && t.Text == "(":
		x := r.expr()
		r.want(")")
		return x
	case t.Kind == Punct && t.Text == "{":
		e := &Expr{at: at{t.Pos}, Kind: EList}
		for !r.is("}") {
			e.Args = append(e.Args, r.expr())
			if !r.accept(",") {
				break
			}
		}
		r.want("}")
		return e
	}
	r.fail(t.Pos, "want an expression, got %s", shown(t))
	return nil
}

// number is 12, 0x1f, 0b101, or with a width: 8w12, 4s3.
func (r *reader) number(t Token) *Expr {
	e := &Expr{at: at{t.Pos}, Kind: ENumber}
	text := strings.ReplaceAll(t.Text, "_", "")
	if i := strings.IndexAny(text, "ws"); i > 0 && !strings.HasPrefix(text, "0x") {
		width, err := strconv.Atoi(text[:i])
		if err != nil || width < 1 || width > 64 {
			r.fail(t.Pos, "%s: widths are 1 to 64", t.Text)
		}
		e.Width, e.Signed, text = width, text[i] == 's', text[i+1:]
	}
	v, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		r.fail(t.Pos, "%s is no number of at most 64 bits", t.Text)
	}
	if e.Width > 0 && e.Width < 64 && v>>e.Width != 0 {
		r.fail(t.Pos, "%s does not fit its width", t.Text)
	}
	e.Value = v
	return e
}
