// SPDX-License-Identifier: Apache-2.0

package syntax

// Program is a preprocessed source: declarations in order.
type Program struct {
	Decls []Decl
	Notes map[string]bool // annotations of declarations at the top, which may be meant for all of it
}

// Decl is one declaration at the top, in a parser or in a control.
type Decl interface{ At() Pos }

type at struct{ Pos Pos }

// At is where it stands.
func (a at) At() Pos { return a.Pos }

// Annotation is @name or @name(value).
type Annotation struct {
	Name  string
	Value *Expr // of the first argument, if any
}

// TypeRef names a type: bit<N>, int<N>, bool, void, a name, or a name with arguments.
type TypeRef struct {
	at
	Name string
	Size *Expr // of bit<N> and int<N>
	Args []*TypeRef
}

// The declarations.
type (
	// Const is const T name = value;
	Const struct {
		at
		Type  *TypeRef
		Name  string
		Value *Expr
	}
	// Typedef is typedef T name;
	Typedef struct {
		at
		Type *TypeRef
		Name string
	}
	// Field of a struct or header.
	Field struct {
		at
		Type *TypeRef
		Name string
	}
	// Struct is struct or header.
	Struct struct {
		at
		Name   string
		Header bool
		Fields []Field
	}
	// Param of a parser, control or action. Direction is "", in, out or inout.
	Param struct {
		at
		Direction string
		Type      *TypeRef
		Name      string
	}
	// Var is T name; or T name = value;
	Var struct {
		at
		Type  *TypeRef
		Name  string
		Value *Expr
	}
	// Instance is Type<...>(args) name; or with = { void apply(...) {...} };
	Instance struct {
		at
		Annotations []Annotation
		Type        *TypeRef
		Args        []*Expr
		Name        string
		Apply       *Action // of a RegisterAction
	}
	// Action of a control.
	Action struct {
		at
		Annotations []Annotation
		Name        string
		Params      []Param
		Body        []Stmt
	}
	// Key of a table.
	Key struct {
		at
		Expr *Expr
		Kind string
	}
	// Table of a control.
	Table struct {
		at
		Annotations []Annotation
		Name        string
		Keys        []Key
		Actions     []ActionRef
		Default     *ActionRef
		Size        *Expr
	}
	// ActionRef names an action, with arguments where it is the default.
	ActionRef struct {
		at
		Name string
		Args []*Expr
	}
	// Control with what it declares.
	Control struct {
		at
		Name   string
		Params []Param
		Decls  []Decl
		Apply  []Stmt
	}
	// State of a parser.
	State struct {
		at
		Name  string
		Body  []Stmt
		Next  string  // unconditional
		Keys  []*Expr // select
		Cases []Case
	}
	// Case of a select: one mask for each key, or none for default.
	Case struct {
		at
		Keysets []Keyset
		Next    string
	}
	// Keyset is a value, value &&& mask, or anything.
	Keyset struct {
		Value, Mask *Expr
		Any         bool
	}
	// Parser with its states.
	Parser struct {
		at
		Name   string
		Params []Param
		Decls  []Decl
		States []*State
	}
)

// Stmt is one statement.
type Stmt interface{ At() Pos }

// The statements.
type (
	// Assign is to = value;
	Assign struct {
		at
		To, Value *Expr
	}
	// If with else.
	If struct {
		at
		Cond       *Expr
		Then, Else []Stmt
	}
	// Block is { ... }, perhaps @atomic.
	Block struct {
		at
		Body []Stmt
	}
	// Call is a call for its effect.
	Call struct {
		at
		Call *Expr
	}
	// Local is a declaration among statements.
	Local struct {
		at
		Decl Decl
	}
)

// ExprKind tells expressions apart.
type ExprKind uint8

// The kinds of expressions.
const (
	ENumber ExprKind = iota
	EName
	EMember // X.Name
	ESlice  // X[Hi:Lo]
	ECall   // X(Args...)
	EUnary  // Op X
	EBinary // X Op Y
	ECond   // X ? Y : Z
	ECast   // (Type)X
	EList   // {Args...}
	EBool
)

// Expr is an expression.
type Expr struct {
	at
	Kind    ExprKind
	Name    string // of EName, EMember
	Op      string
	X, Y, Z *Expr
	Args    []*Expr
	Type    *TypeRef // of ECast
	Value   uint64
	Width   int // of ENumber; 0: none
	Signed  bool
	Hi, Lo  *Expr
}
