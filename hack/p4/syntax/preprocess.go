// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"path"
	"strings"
)

// Files gives the text of a source by its name.
type Files func(name string) (string, error)

type macro struct {
	params   []string // nil: an object
	function bool
	body     []Token
}

type preprocessor struct {
	files    Files
	system   Files
	macros   map[string]*macro
	depth    int
	out      []Token
	Included []string
}

// Bounds of what the preprocessor makes of a source.
const (
	maxIncludes = 16
	maxTokens   = 400_000
	maxMacro    = 64 // macros in macros
)

// Preprocess reads a file and what it includes: "names" through files, <names> through system.
func Preprocess(name string, files, system Files, defines map[string]string) ([]Token, error) {
	p := &preprocessor{files: files, system: system, macros: map[string]*macro{}}
	for k, v := range defines {
		body, err := lex("<command line>", v)
		if err != nil {
			return nil, err
		}
		p.macros[k] = &macro{body: body}
	}
	if err := p.file(Pos{name, 1}, name, files); err != nil {
		return nil, err
	}
	return append(p.out, Token{Kind: EOF, Pos: Pos{name, 0}}), nil
}

func (p *preprocessor) file(from Pos, name string, files Files) error {
	if p.depth == maxIncludes {
		return Errorf(from, "#include more than %d deep", maxIncludes)
	}
	src, err := files(name)
	if err != nil {
		return Errorf(from, "%v", err)
	}
	tokens, err := lex(name, src)
	if err != nil {
		return err
	}
	p.depth++
	defer func() { p.depth-- }()
	return p.lines(tokens)
}

// branch is one #if that is open: whether its lines count, whether one of its arms did, whether those around do.
type branch struct {
	pos              Pos
	on, taken, outer bool
	elsed            bool
}

func (p *preprocessor) lines(tokens []Token) error {
	var open []branch
	for at := 0; at < len(tokens); {
		t := tokens[at]
		on := len(open) == 0 || open[len(open)-1].on
		if !(t.first && t.Text == "#") {
			end := at + 1
			for end < len(tokens) && !(tokens[end].first && tokens[end].Text == "#") {
				end++
			}
			if on {
				if err := p.expandInto(tokens[at:end]); err != nil {
					return err
				}
			}
			at = end
			continue
		}
		end := at + 1
		for end < len(tokens) && !tokens[end].first {
			end++
		}
		line := tokens[at+1 : end]
		at = end
		var err error
		if open, err = p.directive(t.Pos, line, open, on); err != nil {
			return err
		}
	}
	if len(open) != 0 {
		return Errorf(open[len(open)-1].pos, "an #if without #endif")
	}
	return nil
}

func (p *preprocessor) directive(pos Pos, line []Token, open []branch, on bool) ([]branch, error) {
	if len(line) == 0 {
		return open, nil
	}
	word, rest := line[0].Text, line[1:]
	switch word {
	case "ifdef", "ifndef":
		if len(rest) != 1 || rest[0].Kind != Name {
			return nil, Errorf(pos, "#%s takes one name", word)
		}
		_, defined := p.macros[rest[0].Text]
		is := defined == (word == "ifdef")
		return append(open, branch{pos: pos, on: on && is, taken: is, outer: on}), nil
	case "else", "endif":
		if len(open) == 0 {
			return nil, Errorf(pos, "#%s without #if", word)
		}
		if word == "endif" {
			return open[:len(open)-1], nil
		}
		b := &open[len(open)-1]
		if b.elsed {
			return nil, Errorf(pos, "a second #else")
		}
		b.elsed, b.on = true, b.outer && !b.taken
		return open, nil
	}
	if !on {
		if word == "if" || word == "elif" {
			return nil, Errorf(pos, "#%s is not in the subset: use #ifdef", word)
		}
		return open, nil
	}
	return open, p.command(pos, word, rest)
}

func (p *preprocessor) command(pos Pos, word string, rest []Token) error {
	switch word {
	case "include":
		return p.include(pos, rest)
	case "define":
		return p.define(pos, rest)
	case "undef":
		if len(rest) != 1 || rest[0].Kind != Name {
			return Errorf(pos, "#undef takes one name")
		}
		delete(p.macros, rest[0].Text)
		return nil
	}
	return Errorf(pos, "#%s is not in the subset", word)
}

func (p *preprocessor) include(pos Pos, rest []Token) error {
	if len(rest) == 1 && rest[0].Kind == Text {
		name := strings.Trim(rest[0].Text, `"`)
		return p.file(pos, path.Join(path.Dir(pos.File), name), p.files)
	}
	var name strings.Builder
	for _, t := range rest {
		name.WriteString(t.Text)
	}
	text := name.String()
	if len(text) < 3 || text[0] != '<' || text[len(text)-1] != '>' {
		return Errorf(pos, "#include takes \"a file\" or <core.p4>, <v1model.p4>, <tna.p4>")
	}
	return p.file(pos, text[1:len(text)-1], p.system)
}

func (p *preprocessor) define(pos Pos, rest []Token) error {
	if len(rest) == 0 || rest[0].Kind != Name {
		return Errorf(pos, "#define without a name")
	}
	m := &macro{body: rest[1:]}
	if len(rest) > 1 && rest[1].Text == "(" && rest[1].glued {
		m.function = true
		at := 2
		for ; at < len(rest) && rest[at].Text != ")"; at++ {
			if rest[at].Kind == Name {
				m.params = append(m.params, rest[at].Text)
			} else if rest[at].Text != "," {
				return Errorf(pos, "#define %s: parameters are names", rest[0].Text)
			}
		}
		if at == len(rest) {
			return Errorf(pos, "#define %s: no ) after the parameters", rest[0].Text)
		}
		m.body = rest[at+1:]
	}
	if old, ok := p.macros[rest[0].Text]; ok && !same(old, m) {
		return Errorf(pos, "%s is defined twice", rest[0].Text)
	}
	p.macros[rest[0].Text] = m
	return nil
}

func same(a, b *macro) bool {
	if a.function != b.function || len(a.body) != len(b.body) || len(a.params) != len(b.params) {
		return false
	}
	for i := range a.body {
		if a.body[i].Text != b.body[i].Text {
			return false
		}
	}
	return true
}

func (p *preprocessor) expandInto(tokens []Token) error {
	out, err := p.expand(tokens, 0)
	if err != nil {
		return err
	}
	p.out = append(p.out, out...)
	if len(p.out) > maxTokens {
		return Errorf(out[len(out)-1].Pos, "more than %d tokens", maxTokens)
	}
	return nil
}

// expand replaces macros until none is left.
func (p *preprocessor) expand(tokens []Token, depth int) ([]Token, error) {
	var out []Token
	for at := 0; at < len(tokens); {
		t := tokens[at]
		m := p.macros[t.Text]
		if t.Kind != Name || m == nil || t.hides.has(t.Text) ||
			m.function && (at+1 == len(tokens) || tokens[at+1].Text != "(") {
			out = append(out, t)
			at++
			continue
		}
		if depth == maxMacro || len(out) > maxTokens {
			return nil, Errorf(t.Pos, "%s expands to too much", t.Text)
		}
		args, end, err := p.arguments(m, tokens, at, depth)
		if err != nil {
			return nil, err
		}
		body, err := p.substitute(m, t, args)
		if err != nil {
			return nil, err
		}
		if body, err = p.expand(body, depth+1); err != nil {
			return nil, err
		}
		out = append(out, body...)
		at = end
	}
	return out, nil
}

type argument struct{ raw, expanded []Token }

// arguments of the macro named by tokens[at], and where they end.
func (p *preprocessor) arguments(m *macro, tokens []Token, at, depth int) ([]argument, int, error) {
	if !m.function {
		return nil, at + 1, nil
	}
	args, end := split(tokens, at+1)
	if end == len(tokens) {
		return nil, 0, Errorf(tokens[at].Pos, "%s( does not end", tokens[at].Text)
	}
	if len(m.params) == 0 && len(args) == 1 && len(args[0].raw) == 0 {
		args = nil
	}
	if len(args) != len(m.params) {
		return nil, 0, Errorf(tokens[at].Pos, "%s takes %d arguments, got %d", tokens[at].Text, len(m.params), len(args))
	}
	for i := range args {
		var err error
		if args[i].expanded, err = p.expand(args[i].raw, depth+1); err != nil {
			return nil, 0, err
		}
	}
	return args, end + 1, nil
}

// split takes what stands in the parentheses that open at tokens[at] apart at its commas; len(tokens): they do not close.
func split(tokens []Token, at int) ([]argument, int) {
	var args []argument
	var one []Token
	level := 1
	for at++; at < len(tokens); at++ {
		t := tokens[at]
		ends := t.Kind == Punct && level == 1 && (t.Text == "," || t.Text == ")")
		if !ends {
			level += nesting(t)
			one = append(one, t)
			continue
		}
		args = append(args, argument{raw: one})
		one = nil
		if t.Text == ")" {
			break
		}
	}
	return args, at
}

func nesting(t Token) int {
	if t.Kind != Punct {
		return 0
	}
	switch t.Text {
	case "(":
		return 1
	case ")":
		return -1
	}
	return 0
}

// substitute puts the arguments in, and joins what stands at both sides of ##. Tokens take the place of the macro's name.
func (p *preprocessor) substitute(m *macro, name Token, args []argument) ([]Token, error) {
	hides := &hidden{name.Text, name.hides}
	var out []Token
	paste := false
	for i, t := range m.body {
		if t.Text == "##" {
			paste = true
			continue
		}
		next := i+1 < len(m.body) && m.body[i+1].Text == "##"
		part := []Token{{Kind: t.Kind, Text: t.Text, hides: hides}}
		for k, param := range m.params {
			if t.Kind == Name && t.Text == param {
				part = args[k].expanded
				if paste || next {
					part = args[k].raw
				}
			}
		}
		if paste && len(out) > 0 && len(part) > 0 {
			joined, err := lex(name.Pos.File, out[len(out)-1].Text+part[0].Text)
			if err != nil || len(joined) != 1 {
				return nil, Errorf(name.Pos, "## makes no token of %s and %s", out[len(out)-1].Text, part[0].Text)
			}
			out[len(out)-1].Text, out[len(out)-1].Kind = joined[0].Text, joined[0].Kind
			part = part[1:]
		}
		paste = false
		for _, q := range part {
			q.Pos, q.first = name.Pos, false
			out = append(out, q)
		}
	}
	return out, nil
}
