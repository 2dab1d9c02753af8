// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"errors"
	"fmt"
	"strconv"
)

// Error is an answer of Redis, or of the module, that begins with '-'.
type Error string

func (e Error) Error() string { return "redis: " + string(e) }

// Kind of a Value.
type Kind byte

// Kinds, by the byte that Redis begins them with.
const (
	Status  Kind = '+'
	Integer Kind = ':'
	Bulk    Kind = '$'
	Array   Kind = '*'
	Failed  Kind = '-'
)

// Value is an answer.
type Value struct {
	Kind  Kind
	Null  bool    // a Bulk or an Array that is not there
	Text  string  // of Status, Bulk, Failed
	Int   int64   // of Integer
	Items []Value // of Array
}

// Err is the Error that the value is, or nil.
func (v Value) Err() error {
	if v.Kind == Failed {
		return Error(v.Text)
	}
	return nil
}

// Strings are the texts of an array's values.
func (v Value) Strings() []string {
	list := make([]string, len(v.Items))
	for i, item := range v.Items {
		list[i] = item.Text
	}
	return list
}

// AppendCommand adds a command in Redis' bytes.
func AppendCommand(p []byte, words ...string) []byte {
	p = append(strconv.AppendInt(append(p, '*'), int64(len(words)), 10), '\r', '\n')
	for _, w := range words {
		p = append(strconv.AppendInt(append(p, '$'), int64(len(w)), 10), '\r', '\n')
		p = append(append(p, w...), '\r', '\n')
	}
	return p
}

// errAnswer: what came is no answer of Redis.
var errAnswer = errors.New("redis: malformed answer")

const (
	deepest = 8
	numbers = 20 // digits and a sign
)

// Parse reads answers, one behind the other.
func Parse(p []byte) ([]Value, error) {
	var all []Value
	r := reader{p: p}
	for r.at < len(p) {
		v, err := r.value(0)
		if err != nil {
			return nil, fmt.Errorf("%w at byte %d: %s", errAnswer, r.at, err)
		}
		all = append(all, v)
	}
	return all, nil
}

type reader struct {
	p  []byte
	at int
}

// line is what stands before the next CRLF, which is taken too.
func (r *reader) line() (string, error) {
	for i := r.at; i+1 < len(r.p); i++ {
		if r.p[i] == '\r' && r.p[i+1] == '\n' {
			s := string(r.p[r.at:i])
			r.at = i + 2
			return s, nil
		}
	}
	return "", errors.New("a line without an end")
}

func (r *reader) number() (int64, error) {
	s, err := r.line()
	if err != nil {
		return 0, err
	}
	if len(s) > numbers {
		return 0, errors.New("a long number")
	}
	return strconv.ParseInt(s, 10, 64)
}

func (r *reader) value(depth int) (v Value, err error) {
	if r.at == len(r.p) || depth > deepest {
		return v, errors.New("no value, or too deep a one")
	}
	v.Kind = Kind(r.p[r.at])
	r.at++
	switch v.Kind {
	case Status, Failed:
		v.Text, err = r.line()
	case Integer:
		v.Int, err = r.number()
	case Bulk:
		v.Null, v.Text, err = r.bulk()
	case Array:
		v.Null, v.Items, err = r.array(depth)
	default:
		err = fmt.Errorf("type %q", v.Kind)
	}
	return v, err
}

func (r *reader) bulk() (null bool, text string, err error) {
	n, err := r.number()
	if err != nil || n < -1 {
		return false, "", errors.Join(err, errors.New("a length"))
	}
	if n == -1 {
		return true, "", nil
	}
	if int64(len(r.p)-r.at) < n+2 || r.p[r.at+int(n)] != '\r' || r.p[r.at+int(n)+1] != '\n' {
		return false, "", errors.New("fewer bytes than the length says")
	}
	text = string(r.p[r.at : r.at+int(n)])
	r.at += int(n) + 2
	return false, text, nil
}

func (r *reader) array(depth int) (null bool, items []Value, err error) {
	n, err := r.number()
	if err != nil || n < -1 || n > int64(len(r.p)) {
		return false, nil, errors.Join(err, errors.New("a count"))
	}
	for range max(n, 0) {
		item, err := r.value(depth + 1)
		if err != nil {
			return false, nil, err
		}
		items = append(items, item)
	}
	return n == -1, items, nil
}
