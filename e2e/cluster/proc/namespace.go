// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// Namespaces that a command can enter.
const (
	Net   = "-n"
	Mount = "-m"
	UTS   = "-u"
)

// Enter returns the arguments that run args inside r's namespaces. nsenter
// replaces itself by the program, so the pid stays that of the caller's child.
func (r Ref) Enter(namespaces []string, args ...string) []string {
	out := append([]string{"nsenter", "-t", strconv.Itoa(r.Pid)}, namespaces...)
	return append(append(out, "--"), args...)
}

// Run executes a short command to its end; an error carries what it printed.
func Run(env []string, stdin string, args ...string) (string, error) {
	cmd := exec.Command(args[0], args[1:]...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Env = &out, &errOut, env
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(errOut.String()+" "+out.String()))
	}
	return out.String(), nil
}
