// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// rights are the agent's capabilities in the chart, all of them (charts/agent_test.go).
var rights = []string{"bpf", "net_admin", "net_raw", "perfmon"}

func limited(rights []string) []string {
	only := "-all,+" + strings.Join(rights, ",+")
	return []string{"setpriv", "--bounding-set=" + only, "--inh-caps=" + only, "--no-new-privs", "--"}
}

// With these rights an agent balances, announces, changes its pool and is
// replaced; without any one of them it does not start.
func TestRights(t *testing.T) {
	t.Parallel()
	b := New(t, 2)
	lb := balancers(t, b)[0]
	lb.config.Announce["peers"] = nil
	for _, missing := range rights {
		lb.under = limited(slices.DeleteFunc(slices.Clone(rights), func(r string) bool { return r == missing }))
		lb.writeConfig()
		c := lb.agentCommand()
		out, err := within(c, 20*time.Second)
		if err == nil {
			t.Errorf("an agent without %s works: it should not be given that right: %s", missing, out)
		}
		_ = b.quiet(b.tool, "remove", "--root", lb.root())
	}
	lb.under = limited(rights)
	lb.Start()
	for _, s := range b.Servers() {
		s.config = Config{Devices: uplink("server"), AllowEcho: []string{VIP}}
		s.under = limited(rights)
		s.Start()
		s.Echo(port)
	}
	client := b.Host("client")
	client.config = Config{Devices: uplink("client"), VIPs: []map[string]any{
		{"addr": VIP, "port": port, "roles": "Client", "policy": "RoundRobin", "prefixes": []string{network + "0/24"}}}}
	client.under = limited(rights)
	client.Start()
	client.untilServed(t)
	for _, pool := range [][]map[string]any{b.Backends("UpCRAB")[:1], b.Backends("UpCRAB")} {
		lb.Apply(func(c *Config) { c.VIPs[0]["backends"] = pool })
		if seen := client.mustTalk(t, 4); len(seen) != len(pool) {
			t.Errorf("a pool of %d, and connections to %v", len(pool), seen)
		}
	}
	lb.Kill()
	lb.Restart()
	lb.Apply(func(c *Config) { c.VIPs[0]["backends"] = b.Backends("UpCRAB")[1:] })
	if seen := client.mustTalk(t, 2); len(seen) != 1 {
		t.Errorf("after a restart, with one server: %v", seen)
	}
}

// within runs a command that ends; one that does not is stopped and counts as working.
func within(c *exec.Cmd, limit time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var out strings.Builder
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	select {
	case err := <-ended:
		return out.String(), err
	case <-ctx.Done():
		_ = c.Process.Kill()
		<-ended
		return "it did not end", nil
	}
}
