// SPDX-License-Identifier: Apache-2.0

// Package syntax reads P4 sources: tokens, the preprocessor, and the tree of a strict subset of P4_16. What is not in
// the subset is an error that names file, line and construct; nothing is skipped in silence.
package syntax

import (
	"fmt"
	"strings"
)

// Pos is a place in a source.
type Pos struct {
	File string
	Line int
}

func (p Pos) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// Error is why a source was refused.
type Error struct {
	Pos Pos
	Msg string
}

func (e *Error) Error() string { return e.Pos.String() + ": " + e.Msg }

// Errorf makes an Error.
func Errorf(p Pos, format string, args ...any) *Error {
	return &Error{p, fmt.Sprintf(format, args...)}
}

// Kind of a token.
type Kind uint8

// The kinds. End of file has an empty text.
const (
	EOF Kind = iota
	Name
	Number
	Text
	Punct
)

// Token is one word of a source.
type Token struct {
	Kind  Kind
	Text  string
	Pos   Pos
	first bool // of its line: a # there is a directive
	glued bool // no blank before it: NAME( defines a macro with parameters
	hides *hidden
}

// hidden are the macros that a token came from, which are not expanded in it again.
type hidden struct {
	name string
	up   *hidden
}

func (h *hidden) has(name string) bool {
	for ; h != nil; h = h.up {
		if h.name == name {
			return true
		}
	}
	return false
}

// Longer ones first.
var puncts = []string{"&&&", "|+|", "|-|", "...", "<<", "<=", ">=", "==", "!=", "&&", "||", "++", "##", ".."}

const singles = "#()[]{}<>.,;:=+-*/%&|^~!?@"

type lexer struct {
	file  string
	src   string
	at    int
	line  int
	first bool
	out   []Token
}

// MaxSource bounds a source file.
const MaxSource = 1 << 20

// lex splits a file into tokens.
func lex(file, src string) ([]Token, error) {
	if len(src) > MaxSource {
		return nil, Errorf(Pos{file, 1}, "a file of %d bytes: at most %d", len(src), MaxSource)
	}
	l := &lexer{file: file, src: src, line: 1, first: true}
	for {
		glued, err := l.blanks()
		if err != nil {
			return nil, err
		}
		if l.at >= len(l.src) {
			return l.out, nil
		}
		if err := l.token(glued); err != nil {
			return nil, err
		}
	}
}

func (l *lexer) pos() Pos { return Pos{l.file, l.line} }

func (l *lexer) newline() {
	l.line++
	l.first = true
}

// blanks passes over blanks and comments; true when there were none.
func (l *lexer) blanks() (bool, error) {
	began := l.at
	for l.at < len(l.src) {
		switch rest := l.src[l.at:]; {
		case rest[0] == '\n':
			l.newline()
			l.at++
		case rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\r':
			l.at++
		case strings.HasPrefix(rest, "\\\n"):
			l.line++ // the line goes on
			l.at += 2
		case strings.HasPrefix(rest, "//"):
			n := strings.IndexByte(rest, '\n')
			if n < 0 {
				n = len(rest)
			}
			l.at += n
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest, "*/")
			if n < 0 {
				return false, Errorf(l.pos(), "a comment that does not end")
			}
			l.line += strings.Count(rest[:n], "\n")
			l.at += n + 2
		default:
			return l.at == began, nil
		}
	}
	return l.at == began, nil
}

func letter(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func digit(c byte) bool  { return c >= '0' && c <= '9' }

func (l *lexer) word() string {
	end := l.at
	for end < len(l.src) && (letter(l.src[end]) || digit(l.src[end])) {
		end++
	}
	return l.src[l.at:end]
}

func (l *lexer) push(kind Kind, text string, glued bool) {
	l.out = append(l.out, Token{Kind: kind, Text: text, Pos: l.pos(), first: l.first, glued: glued})
	l.first = false
	l.at += len(text)
}

func (l *lexer) token(glued bool) error {
	c := l.src[l.at]
	switch {
	case letter(c):
		l.push(Name, l.word(), glued)
	case digit(c):
		l.push(Number, l.word(), glued)
	case c == '"':
		end := strings.IndexAny(l.src[l.at+1:], "\"\n")
		if end < 0 || l.src[l.at+1+end] == '\n' {
			return Errorf(l.pos(), "a string that does not end")
		}
		l.push(Text, l.src[l.at:l.at+end+2], glued)
	default:
		for _, p := range puncts {
			if strings.HasPrefix(l.src[l.at:], p) {
				l.push(Punct, p, glued)
				return nil
			}
		}
		if strings.IndexByte(singles, c) < 0 {
			return Errorf(l.pos(), "character %q is not in the subset", c)
		}
		l.push(Punct, string(c), glued)
	}
	return nil
}
