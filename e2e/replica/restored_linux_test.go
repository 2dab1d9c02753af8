// SPDX-License-Identifier: Apache-2.0

//go:build replica

package replica

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/replica"
	"github.com/bobtail-dev/bobtail/e2e/replica/history"
)

// alone is a group of one member on the loopback of this machine.
type alone struct {
	t       *testing.T
	dir     string
	address string
}

const document = `{"apiVersion": "dataplane.bobtail.dev/v1", "kind": "ReplicationGroup", "sources": [],
 "group": {"name": "one", "namespace": "test", "cluster": %q, "number": 7, "storage": "Always", "deviceProfile": "Kernel",
  "electionMilliseconds": 150, "heartbeatMilliseconds": 30, "logEntries": 1024, "snapshotEntries": 128, "maxSnapshotBytes": 1048576, "inFlightLimit": 100},
 "initialMembers": ["one"], "members": [{"name": "one", "id": 1, "address": %q, "memberPort": 8100, "clientPort": 8000}], "keyIds": [1]}`

func (a *alone) program(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join("..", "..", "build", "dataplane", "apps", "bobtail-replica", "bobtail-replica"), append([]string{"--name=one"}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// run starts a member of a cluster on a disk, and a client of it.
func (a *alone) run(cluster, disk string) (*replica.Client, func()) {
	a.t.Helper()
	file := filepath.Join(a.dir, cluster[:4]+".json")
	if err := os.WriteFile(file, fmt.Appendf(nil, document, cluster, a.address), 0o600); err != nil {
		a.t.Fatal(err)
	}
	cmd := a.program("--data="+disk, "--config="+file, "--key-dir="+a.dir, "--ctl="+filepath.Join(a.dir, "ctl"))
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	c, err := replica.Dial(context.Background(), replica.Config{Members: []string{a.address + ":8000"}, Timeout: 30 * time.Second, Attempt: 200 * time.Millisecond})
	if err != nil {
		a.t.Fatal(err)
	}
	return c, func() {
		_ = c.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if a.t.Failed() {
			a.t.Logf("%s:\n%s", cluster[:4], log.String())
		}
	}
}

func (a *alone) ask(c *replica.Client, o history.Op) string {
	a.t.Helper()
	ask := c.Write
	if o.Kind == 'G' {
		ask = c.Read
	}
	reply, err := ask(context.Background(), o.Body())
	if err != nil || len(reply) == 0 {
		a.t.Errorf("%c of %s: %q %v", o.Kind, o.Key, reply, err)
		return ""
	}
	return string(reply[1:])
}

// a copy of a member that runs begins another group, which has all that was written before the copy, and
// goes on from there; what was written afterwards is not in it.
func TestACopyBeginsAnotherGroup(t *testing.T) {
	a := &alone{t: t, dir: t.TempDir(), address: "127.77.3.1"}
	if err := os.WriteFile(filepath.Join(a.dir, "1"), []byte("000102030405060708090a0b0c0d0e0f"), 0o600); err != nil {
		t.Fatal(err)
	}
	first, second := "11111111111111111111111111111111", "22222222222222222222222222222222"
	disk, copied, other := filepath.Join(a.dir, "disk"), filepath.Join(a.dir, "copy"), filepath.Join(a.dir, "other")
	c, stop := a.run(first, disk)
	defer func() { stop() }()
	for i := range 500 { // snapshots are written meanwhile
		a.ask(c, history.Op{Kind: 'P', Key: fmt.Sprint("k", i%50), Value: fmt.Sprint(i)})
	}
	if out, err := a.program("--data="+disk, "--backup-to="+copied).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	a.ask(c, history.Op{Kind: 'P', Key: "k0", Value: "late"})
	stop()
	for range 2 { // a pod may start again: what was made stays
		if out, err := a.program("--data="+other, "--restore-from="+copied, "--cluster="+second).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	c, stop = a.run(second, other)
	for i := range 50 {
		if got := a.ask(c, history.Op{Kind: 'G', Key: fmt.Sprint("k", i)}); got != fmt.Sprint(450+i) {
			t.Errorf("k%d is %q, want %d", i, got, 450+i)
		}
	}
	a.ask(c, history.Op{Kind: 'P', Key: "k0", Value: "goes on"})
	if got := a.ask(c, history.Op{Kind: 'G', Key: "k0"}); got != "goes on" {
		t.Errorf("k0 is %q", got)
	}
	stop()
	// What is no cluster is refused before anything is done.
	if out, err := a.program("--data="+other, "--restore-from="+filepath.Join(a.dir, "nothing"), "--cluster=22").CombinedOutput(); err == nil {
		t.Errorf("a cluster of two digits was taken: %s", out)
	}
	stop = func() {}
}
