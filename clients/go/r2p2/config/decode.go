// SPDX-License-Identifier: Apache-2.0

package config

// The decoder exists because encoding/json names an unknown field without its
// path, folds case and lets a key occur twice; the two dataplane parsers must
// agree on the exact field at fault.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
)

// Parse reads and validates a document. Every error is a *FieldError.
func Parse(text []byte) (*Document, error) {
	d := &Document{}
	s := strict{json.NewDecoder(bytes.NewReader(text))}
	s.UseNumber()
	if err := s.value(reflect.ValueOf(d).Elem(), ""); err != nil {
		return nil, asFieldError(err)
	}
	if _, err := s.Token(); !errors.Is(err, io.EOF) {
		return nil, invalid("", "the document must end after its closing brace; found more at byte %d", s.InputOffset())
	}
	if err := d.Validate(); err != nil {
		return nil, err
	}
	return d, nil
}

func asFieldError(err error) *FieldError {
	var f *FieldError
	if errors.As(err, &f) {
		return f
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return invalid("", "is not valid JSON: the text ends early")
	}
	return invalid("", "is not valid JSON: %v", err)
}

type strict struct{ *json.Decoder }

func (s strict) value(v reflect.Value, path string) error {
	if v.Kind() == reflect.Pointer { // a part that may be missing, and is there
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	t, err := s.Token()
	if err != nil {
		return err
	}
	switch v.Kind() {
	case reflect.Struct:
		return s.object(t, v, path)
	case reflect.Slice:
		return s.list(t, v, path)
	case reflect.String:
		text, ok := t.(string)
		if !ok {
			return invalid(path, "must be a string; got %s", kindOf(t))
		}
		if strings.IndexByte(text, 0) >= 0 {
			return invalid(path, "must not contain a zero byte")
		}
		v.SetString(text)
		return nil
	case reflect.Int, reflect.Int64:
		number, ok := t.(json.Number)
		if !ok {
			return invalid(path, "must be an integer; got %s", kindOf(t))
		}
		i, err := strconv.ParseInt(number.String(), 10, 64)
		if err != nil {
			return invalid(path, "must be an integer; got %s", number)
		}
		v.SetInt(i)
		return nil
	}
	return fmt.Errorf("document type %s has no decoder", v.Type())
}

func (s strict) object(t json.Token, v reflect.Value, path string) error {
	if t != json.Delim('{') {
		return invalid(path, "must be an object; got %s", kindOf(t))
	}
	seen := map[string]bool{}
	for s.More() {
		t, err := s.Token()
		if err != nil {
			return err
		}
		key, _ := t.(string)
		at := join(path, key)
		field, ok := fieldByName(v, key)
		if !ok {
			return invalid(at, "unknown field; remove it, or use a dataplane that knows it")
		}
		if seen[key] {
			return invalid(at, "occurs twice; keep one")
		}
		seen[key] = true
		if err := s.value(field, at); err != nil {
			return err
		}
	}
	if _, err := s.Token(); err != nil {
		return err
	}
	for i := range v.NumField() {
		if name := jsonName(v.Type().Field(i)); !seen[name] && !mayBeMissing(v.Type().Field(i)) {
			return invalid(join(path, name), "is required")
		}
	}
	return nil
}

func (s strict) list(t json.Token, v reflect.Value, path string) error {
	if t != json.Delim('[') {
		return invalid(path, "must be a list; got %s", kindOf(t))
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	for i := 0; s.More(); i++ {
		if i >= MaxWorkers {
			return invalid(path, "must have at most %d entries", MaxWorkers)
		}
		item := reflect.New(v.Type().Elem()).Elem()
		if err := s.value(item, fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
		v.Set(reflect.Append(v, item))
	}
	_, err := s.Token()
	return err
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func fieldByName(v reflect.Value, key string) (reflect.Value, bool) {
	for i := range v.NumField() {
		if jsonName(v.Type().Field(i)) == key {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

func mayBeMissing(f reflect.StructField) bool {
	return f.Type.Kind() == reflect.Pointer || strings.HasSuffix(f.Tag.Get("json"), ",omitempty")
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func kindOf(t json.Token) string {
	switch t := t.(type) {
	case json.Delim:
		if t == '{' {
			return "an object"
		}
		return "a list"
	case string:
		return "a string"
	case json.Number:
		return "a number"
	case bool:
		return "a boolean"
	case nil:
		return "null"
	}
	return fmt.Sprintf("%T", t)
}
