// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/hack/test/privileged"
)

func texts(t *testing.T, tokens []Token) string {
	t.Helper()
	var b strings.Builder
	for _, k := range tokens {
		b.WriteString(k.Text)
		b.WriteByte('\n')
	}
	return b.String()
}

func none(string) (string, error) { return "", nil }

// The router's sources come out of our preprocessor as they come out of the compiler's.
func TestPreprocessorAgreesWithCpp(t *testing.T) {
	cpp, err := exec.LookPath("cpp")
	if err != nil {
		privileged.Lacking(t, "no cpp")
	}
	empty := t.TempDir()
	for _, name := range []string{"core.p4", "v1model.p4", "tna.p4"} {
		if err := os.WriteFile(filepath.Join(empty, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) (string, error) {
		text, err := os.ReadFile(name)
		return string(text), err
	}
	for _, shell := range []string{"v1model", "tna"} {
		file := "../../../dataplane/p4/router/" + shell + ".p4"
		out, err := exec.Command(cpp, "-P", "-undef", "-nostdinc", "-I", empty, file).Output()
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := lex(file, string(out))
		if err != nil {
			t.Fatal(err)
		}
		ours, err := Preprocess(file, read, none, nil)
		if err != nil {
			t.Fatal(err)
		}
		a, b := strings.Split(texts(t, theirs), "\n"), strings.Split(texts(t, ours[:len(ours)-1]), "\n")
		if len(a) != len(b) {
			t.Errorf("%s: cpp makes %d tokens, we %d", shell, len(a), len(b))
		}
		for i := range min(len(a), len(b)) {
			if a[i] != b[i] {
				t.Fatalf("%s: token %d is %q, cpp's %q", shell, i, b[i], a[i])
			}
		}
	}
}

func TestPreprocessor(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"#define A 1\nA B", "1 B"},
		{"#define F(x, y) x + y\nF(1, (2, 3))", "1 + ( 2 , 3 )"},
		{"#define F(x) x##_t\nF(a) F", "a_t F"},
		{"#define A B\n#define B A\nA", "A"},
		{"#define F(x) x\nF(F(F(1)))", "1"},
		{"#define E()\nx E() y", "x y"},
		{"#define F (1)\nF", "( 1 )"},
		{"#ifdef A\nx\n#else\ny\n#endif", "y"},
		{"#define A\n#ifdef A\n#ifndef A\nx\n#else\ny\n#endif\n#else\nz\n#endif", "y"},
		{"#define A 1\n#undef A\nA", "A"},
		{"#define A 1 \\\n + 2\nA", "1 + 2"},
		{"a /* b\n */ c // d\ne", "a c e"},
		{"#define F(x) [x]\nF(\n1\n)", "[ 1 ]"},
		{"#define A 1\n#define A 2", "!A is defined twice"},
		{"#define F(x) x\nF(1, 2)", "!F takes 1 arguments, got 2"},
		{"#else", "!#else without #if"},
		{"#error x", "!#error is not in the subset"},
		{"/* x", "!a comment that does not end"},
		{"$", "!character '$'"},
	} {
		tokens, err := Preprocess("x.p4", func(string) (string, error) { return c.text, nil }, none, nil)
		got := "!"
		if err == nil {
			got = strings.TrimSpace(strings.ReplaceAll(texts(t, tokens), "\n", " "))
		} else {
			got += err.Error()
		}
		if want, refused := strings.CutPrefix(c.want, "!"); refused && !strings.Contains(got, want) || !refused && got != want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}
