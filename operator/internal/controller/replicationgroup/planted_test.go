// SPDX-License-Identifier: Apache-2.0

package replicationgroup

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// planted are bugs, each of them a guard of the membership taken out. find must occur once in membership.go.
var planted = []struct{ name, why, find, replace string }{
	{"acts-before-the-group-is-formed", "G-1: nobody is added to a group that has not begun",
		"!v.formed || ", ""},
	{"acts-without-a-leader", "G-4: where nobody leads, anything could only take more away",
		" || v.leader == 0 || ", " || "},
	{"second-change-before-the-first-commits", "G-3: one thing at a time",
		" || v.busy {", " {"},
	{"learner-taken-in-before-it-runs", "G-3: a member that does not run is not taken in",
		"s.number != 0 && s.alive && v.inForce", "s.number != 0 && v.inForce"},
	{"promoted-below-quorum", "G-4: a vote more may need a healthy voter more",
		"if healthy+1 >= quorum(voters+1) {", "if healthy+voters >= 0 {"},
	{"promoted-before-it-caught-up", "R-350: a voter that holds little stops the group",
		"p.lag < 0 || p.lag > caughtUp || ", ""},
	{"promoted-when-it-is-ill", "G-4: a vote that nobody casts",
		"if p.voter || !p.healthy || p.lag", "if p.voter || p.lag"},
	{"promoted-though-it-is-to-go", "G-3: who is to go gets no vote",
		"p.lag > caughtUp || !v.wants(p.number) {", "p.lag > caughtUp {"},
	{"removed-below-quorum", "G-4: of those that stay a quorum is healthy",
		"if p.voter && healthy-truth(p.healthy) < quorum(voters-1) {", "if p.voter && healthy < -voters {"},
	{"removed-as-if-it-stayed-healthy", "G-4: the one that goes is not counted",
		"healthy-truth(p.healthy) < quorum(voters-1)", "healthy < quorum(voters-1)"},
	{"healthy-removed-first", "G-3: who is not well goes first",
		"\t\t\ttruth(a.healthy)-truth(b.healthy), b.ordinal-a.ordinal)\n\t})\n\tvoters, healthy := v.voters()\n\tfor _, p := range leaving {", "\t\t\tb.ordinal-a.ordinal)\n\t})\n\tvoters, healthy := v.voters()\n\tfor _, p := range leaving {"},
	{"leader-removed-as-it-leads", "R-351: a leader hands over before it goes",
		"if p.number == v.leader {\n\t\t\treturn v.handOver()\n\t\t}\n\t\treturn step{kind: stepRemove", "if false {\n\t\t\treturn v.handOver()\n\t\t}\n\t\treturn step{kind: stepRemove"},
	{"lost-disk-removed-before-its-successor-votes", "G-3: a group does not get smaller for a while without need",
		"len(leaving) == 0 || v.successorComes(leaving)", "len(leaving) == 0"},
	{"leader-restarted-as-it-leads", "G-5: a leader hands over before its pod goes",
		"if s.number == v.leader {\n\t\t\treturn v.handOver()", "if false {\n\t\t\treturn v.handOver()"},
	{"leader-restarted-first", "G-5: the leader's pod goes last",
		"truth(well(a))-truth(well(b)), truth(a.number == v.leader)-truth(b.number == v.leader), b", "truth(well(a))-truth(well(b)), b"},
	{"restarted-while-another-is-ill", "G-5: a healthy one goes only while all others are",
		"!v.settled() || healthy != voters || healthy-1 < quorum(voters)", "!v.settled() || healthy-1 < quorum(voters)-1"},
	{"restarted-while-members-change", "G-5: not while members change",
		"if !v.settled() || healthy != voters", "if healthy != voters"},
	{"ill-one-restarted-below-quorum", "G-5: where too few are seen to be well, none is taken away",
		"\t\t\tif healthy >= quorum(voters) {\n\t\t\t\treturn step{kind: stepEvict", "\t\t\tif healthy >= 0 {\n\t\t\t\treturn step{kind: stepEvict"},
	{"hands-over-to-one-that-is-ill", "R-351: the next leader is healthy",
		"!p.voter || !p.healthy || !v.wants", "!p.voter || !v.wants"},
	{"hands-over-to-a-learner", "R-351: the next leader has a vote",
		"p.number == v.leader || !p.voter || !p.healthy || !v", "p.number == v.leader || !p.healthy || !v"},
}

// alone are the files that a bug is planted in and caught by: they need nothing but the standard library.
var alone = []string{"membership.go", "membership_test.go"}

// G-3, G-4, G-5: each guard of the membership is needed: without it a test fails. A short run plants a third of them.
func TestPlantedBugsAreCaught(t *testing.T) {
	clean, err := os.ReadFile(alone[0])
	if err != nil {
		t.Fatal(err)
	}
	if out, passed := played(t, string(clean)); !passed {
		t.Fatalf("the unchanged copy fails:\n%s", out)
	}
	for i, bug := range planted {
		if n := strings.Count(string(clean), bug.find); n != 1 {
			t.Errorf("%s: its text occurs %d times in %s", bug.name, n, alone[0])
			continue
		}
		if testing.Short() && i%3 != 0 {
			continue
		}
		t.Run(bug.name, func(t *testing.T) {
			out, passed := played(t, strings.Replace(string(clean), bug.find, bug.replace, 1))
			switch {
			case passed:
				t.Errorf("NOT CAUGHT: %s", bug.why)
			case !failure.MatchString(out):
				t.Errorf("no test says what is wrong:\n%s", out)
			default:
				t.Logf("caught: %s", failure.FindString(out))
			}
		})
	}
}

var failure = regexp.MustCompile(`(?m)^ *membership_test\.go:\d+: .*`)

// played runs the tests of the membership on another text of it.
func played(t *testing.T, text string) (out string, passed bool) {
	t.Helper()
	dir := t.TempDir()
	tests, err := os.ReadFile(alone[1])
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{alone[0]: text, alone[1]: string(tests), "go.mod": "module planted\n\ngo 1.26\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "test", "-vet=off", "-failfast", "-run=TestDecideStep|TestModel", ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=", "GOTOOLCHAIN=local")
	raw, err := cmd.CombinedOutput()
	return string(raw), err == nil
}
