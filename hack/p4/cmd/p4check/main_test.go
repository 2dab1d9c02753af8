// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is outside the subset ends with its place and nothing runs; what is asked wrongly says where to look.
func TestCommands(t *testing.T) {
	t.Chdir("../../../..")
	const router = "dataplane/p4/router/"
	bad := filepath.Join(t.TempDir(), "bad.p4")
	if err := os.WriteFile(bad, []byte("#include <core.p4>\n#include <v1model.p4>\nextern X { }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args  string
		want  string
		usage bool
	}{
		{"check " + router + "tna.p4", "", false},
		{"p4info " + router + "v1model.p4", "", false},
		{"judge " + router + "tna.p4", "", false},
		{"stf " + router + "v1model.p4 " + router + "stf/forward.stf " + router + "stf/arp.stf", "", false},
		{"trace " + router + "tna.p4 " + router + "stf/turns.stf", "", false},
		{"mutate --check", "", false},
		{"check " + bad, "bad.p4:3: 'extern' is not in the subset", false},
		{"judge " + bad, "bad.p4:3: 'extern'", false},
		{"check none.p4", "no such file", false},
		{"stf " + router + "v1model.p4 " + router + "tna.p4", "is no command", false},
		{"check", "--help", true},
		{"none", "unknown command none", true},
		{"suite --none", "--help", true},
		{"", "--help", true},
	} {
		err := run(strings.Fields(c.args))
		said := ""
		if err != nil {
			said = err.Error()
		}
		if c.want == "" && err != nil || !strings.Contains(said, c.want) || errors.Is(err, errUsage) != c.usage {
			t.Errorf("%q: %q, want %q", c.args, said, c.want)
		}
	}
}
