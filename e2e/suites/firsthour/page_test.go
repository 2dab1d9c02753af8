// SPDX-License-Identifier: Apache-2.0

package firsthour

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// K-39: one page leads from a program of one's own to an objective, in twelve commands
// that anybody could type.
func TestK39OnePageFromAProgramToAnObjective(t *testing.T) {
	blocks, err := ReadPage("../../../" + ownPage)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, b := range blocks {
		if f := b.File(); f != "" {
			files = append(files, f)
		}
	}
	if want := []string{"build/shop/main.go", "build/shop/Dockerfile", "build/shop/shop.yaml"}; !slices.Equal(files, want) {
		t.Errorf("the reader saves %q, want %q", files, want)
	}
	commands := Commands(blocks)
	if len(commands) == 0 || len(commands) > 12 {
		t.Errorf("%d commands: %q", len(commands), commands)
	}
	for i, want := range []string{"go -C build/shop", "buildah bud", "load-image", "kubectl apply", "kubectl bobtail bench", "kubectl get slo"} {
		if !slices.ContainsFunc(commands, func(c string) bool { return strings.Contains(c, want) }) {
			t.Errorf("step %d, %s, is not there: %q", i, want, commands)
		}
	}
}

// The pages that are played hold one command a line, and the folder is made by the first.
func TestPagesArePlayable(t *testing.T) {
	for _, page := range []string{ownPage, cPage, slowPage, bearsPage} {
		blocks, err := ReadPage("../../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		if err := Judge(Commands(blocks)); err != nil || len(Commands(blocks)) == 0 {
			t.Errorf("%s: %v", page, err)
		}
	}
}

func TestWhatIsNoSingleCommand(t *testing.T) {
	for _, bad := range []string{"a; b", "a && b", "a | b", "a &", "for i in 1 2", "a $(b)", "a `b`", "a \\", "hack/x", "./images/build", "bash x.sh", "python3 measure/a.py", "x --file=e2e/run"} {
		if err := Judge([]string{"true", bad}); err == nil || !strings.Contains(err.Error(), bad[:1]) {
			t.Errorf("%q passes: %v", bad, err)
		}
	}
	for _, good := range []string{"make images", "kubectl patch x -p '{\"a\": {}; && }'", "build/bin/bobtail-cluster load-image build/shop/shop.tar", "CGO_ENABLED=0 go -C build/shop build -o shop ."} {
		if err := Judge([]string{good}); err != nil {
			t.Error(err)
		}
	}
}

// A page is played in its order: files are written where it says, commands run at the
// top of the tree, and the first that fails ends it with its words and its line.
func TestAPageIsPlayedInItsOrder(t *testing.T) {
	root := t.TempDir()
	page := "# A page\n\n```sh nightly\nexit 7\n```\n\n```text file=new/a.txt\nhello\n```\n\n```sh first-hour\ncp new/a.txt new/b.txt\n\nprintenv GREETING\n```\n\n```sh first-hour\nls nowhere\ntouch new/never\n```\n"
	if err := os.WriteFile(filepath.Join(root, "page.md"), []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	steps, err := harness.NewSteps(root, "test", &strings.Builder{})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GREETING", "hi")
	var log strings.Builder
	s := &Suite{Env: harness.Local(root, &log), Steps: steps}
	err = s.playPage(t.Context(), "page.md")
	if err == nil || !strings.Contains(err.Error(), "ls nowhere") || !strings.Contains(err.Error(), "page.md:18") {
		t.Errorf("%v", err)
	}
	if text, err := os.ReadFile(filepath.Join(root, "new/b.txt")); err != nil || string(text) != "hello\n" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(root, "new/never")); err == nil {
		t.Error("it went on after a failure")
	}
	if !strings.Contains(log.String(), "\nhi\n") {
		t.Errorf("log: %s", log.String())
	}
}

func TestPathsAreCounted(t *testing.T) {
	tried, failed, err := count(`{"verdicts": [{"subject": "ipv6", "outcome": "OK", "says": "not tried"}, {"subject": "r2p2-ipv4", "outcome": "OK", "says": "a to b: 8 of 8 answered"},
		{"subject": "r2p2", "outcome": "FAILED", "says": "a to the routers: 0 of 16 answered"}, {"subject": "crab", "outcome": "FAILED", "says": "the Service got no address"}]}`)
	if err != nil || tried != 2 || !slices.Equal(failed, []string{"r2p2: a to the routers: 0 of 16 answered", "crab: the Service got no address"}) {
		t.Errorf("%d, %q, %v", tried, failed, err)
	}
	if _, _, err := count("no JSON"); err == nil {
		t.Error("taken")
	}
}
