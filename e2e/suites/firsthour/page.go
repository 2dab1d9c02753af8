// SPDX-License-Identifier: Apache-2.0

package firsthour

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Block is a fenced block of a page.
type Block struct {
	Line     int
	Language string
	Tags     []string
	Body     string
}

var fence = regexp.MustCompile("(?ms)^```([a-z]+)([^\n]*)\n(.*?)^```")

// ReadPage gives a page's blocks in their order.
func ReadPage(path string) ([]Block, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	text := string(raw)
	var out []Block
	for _, m := range fence.FindAllStringSubmatchIndex(text, -1) {
		part := func(i int) string { return text[m[2*i]:m[2*i+1]] }
		out = append(out, Block{1 + strings.Count(text[:m[0]], "\n"), part(1), strings.Fields(part(2)), part(3)})
	}
	return out, nil
}

// File is the path that the block is saved as; empty: none.
func (b Block) File() string {
	for _, tag := range b.Tags {
		if name, ok := strings.CutPrefix(tag, "file="); ok {
			return name
		}
	}
	return ""
}

// tag of the shell blocks that are played here (hack/verify/docs.py).
const tag = "first-hour"

// Commands are the lines of a shell block that the reader types.
func (b Block) Commands() (out []string) {
	if b.Language != "sh" || !slices.Contains(b.Tags, tag) {
		return nil
	}
	for line := range strings.Lines(b.Body) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

// Commands of all blocks.
func Commands(blocks []Block) (out []string) {
	for _, b := range blocks {
		out = append(out, b.Commands()...)
	}
	return out
}

var (
	// several commands in a line, a loop, a line that goes on, or the output of one in another
	several = regexp.MustCompile("[;&|\\\\`]|\\$\\(|^(for|while|until|if) ")
	// a script of this tree; its programs in build/bin and its make targets are what users have, too
	script = regexp.MustCompile(`(^|[ =])(\./)?(hack|images|e2e|measure|dataplane|\.ci)/|\.(sh|py)\b`)
)

// Judge refuses what would make the number of commands a lie: several of them in a line,
// and scripts of ours. What stands between single quotes is an argument.
func Judge(commands []string) error {
	for _, c := range commands {
		bare := regexp.MustCompile(`'[^']*'`).ReplaceAllString(c, "''")
		if found := several.FindString(bare); found != "" {
			return fmt.Errorf("%q holds %q: one command a line", c, found)
		}
		if found := script.FindString(bare); found != "" {
			return fmt.Errorf("%q uses %q, a script of the tree", c, strings.TrimSpace(found))
		}
	}
	return nil
}
