// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"net"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/hack/test/netns"
)

// probed is what `probe` prints, or its error.
func probed(args ...string) (string, error) {
	var out bytes.Buffer
	c := New()
	c.SetArgs(append([]string{"probe"}, args...))
	c.SetOut(&out)
	err := c.Execute()
	return strings.TrimSpace(out.String()), err
}

func TestProbeNamesTheFlag(t *testing.T) {
	for want, args := range map[string][]string{
		"--from": {"--from=x", "--to=10.0.0.1:80"}, "--to": {"--from=10.0.0.1", "--to=10.0.0.1"}, "--mark": {"--from=10.0.0.1", "--to=10.0.0.1:80", "--mark=x"},
		`"to"`: {"--from=10.0.0.1"}, `"from"`: {"--to=10.0.0.1:80"},
	} {
		if _, err := probed(args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v does not name %s", args, err, want)
		}
	}
}

// A server that answers without the option is up, and plain; nobody there is down.
func TestProbeAsksOnce(t *testing.T) {
	if !netns.Inside(t) {
		return
	}
	netns.Uplink(t)
	server, err := net.Listen("tcp", "10.0.0.1:80")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for to, want := range map[string]string{"10.0.0.1:80": "UpPlain", "10.0.0.1:81": "Down"} {
		for _, mark := range []string{"", "--mark=10.0.0.7"} {
			args := []string{"--from=10.0.0.1", "--to=" + to, "--timeout=1m"}
			if mark != "" {
				args = append(args, mark)
			}
			if got, err := probed(args...); err != nil || got != want {
				t.Errorf("%v: %q, %v, want %s", args, got, err, want)
			}
		}
	}
}
