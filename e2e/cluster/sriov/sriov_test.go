// SPDX-License-Identifier: Apache-2.0

package sriov

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/skel"
)

// bed is a machine with one card of two functions and an IPAM plugin that writes down how it was called.
type bed struct {
	t     *testing.T
	dir   string
	world world
	calls []string
	mac   net.HardwareAddr // what the card has for the function
	fails bool
}

func newBed(t *testing.T) *bed {
	b := &bed{t: t, dir: t.TempDir()}
	devices := filepath.Join(b.dir, "devices")
	for _, folder := range []string{"pf/net/ens5", "0000:01:10.0", "0000:01:10.2"} {
		if err := os.MkdirAll(filepath.Join(devices, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"pf/virtfn0": "../0000:01:10.0", "pf/virtfn1": "../0000:01:10.2", "0000:01:10.0/physfn": "../pf", "0000:01:10.2/physfn": "../pf",
		"0000:01:10.0/driver": "../../drivers/igbvf", "0000:01:10.2/driver": "../../drivers/vfio-pci",
	} {
		if err := os.Symlink(to, filepath.Join(devices, link)); err != nil {
			t.Fatal(err)
		}
	}
	ipam := "#!/bin/sh\ncat >/dev/null; echo $CNI_COMMAND >>" + b.dir + "/ipam\n" +
		`[ $CNI_COMMAND = DEL ] || echo '{"cniVersion":"1.0.0","ips":[{"address":"10.77.0.10/24"}]}'` + "\n"
	if err := os.WriteFile(filepath.Join(b.dir, "lends"), []byte(ipam), 0o700); err != nil { // #nosec G306 -- a program
		t.Fatal(err)
	}
	b.world = world{
		devices: devices,
		mac:     func(function) (net.HardwareAddr, error) { return b.mac, b.called("mac?") },
		setMAC:  func(f function, mac net.HardwareAddr) error { return b.called("%s %d mac %s", f.card, f.number, mac) },
		setVLAN: func(f function, vlan int) error { return b.called("%s %d vlan %d", f.card, f.number, vlan) },
	}
	for key, value := range map[string]string{"CNI_PATH": b.dir, "CNI_CONTAINERID": "c", "CNI_NETNS": "/ns", "CNI_IFNAME": "net1", "CNI_COMMAND": "ADD"} {
		t.Setenv(key, value)
	}
	return b
}

func (b *bed) called(format string, args ...any) error {
	b.calls = append(b.calls, fmt.Sprintf(format, args...))
	if b.fails {
		return errors.New("the card refuses")
	}
	return nil
}

func (b *bed) args(more string) *skel.CmdArgs {
	return &skel.CmdArgs{ContainerID: "c", Netns: "/ns", IfName: "net1", Path: b.dir,
		StdinData: []byte(`{"cniVersion":"1.0.0","name":"vfs","type":"bobtail-sriov","ipam":{"type":"lends"}` + more + `}`)}
}

// lent is how often the IPAM plugin was called for what.
func (b *bed) lent() string {
	text, err := os.ReadFile(filepath.Join(b.dir, "ipam"))
	if err != nil {
		return ""
	}
	return strings.Join(strings.Fields(string(text)), " ")
}

// printed is what a call writes for the runtime.
func printed(t *testing.T, do func() error) (string, error) {
	t.Helper()
	old := os.Stdout
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout = w
	failed := do()
	os.Stdout = old
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), failed
}

// The address is in the result alone, with the function's own PCI address; what belongs to
// the card is set there, and the VLAN is taken back.
func TestAFunctionComesAndGoes(t *testing.T) {
	b := newBed(t)
	args := b.args(`,"deviceID":"0000:01:10.2","mac":"02:00:00:00:00:07","vlan":5`)
	out, err := printed(t, func() error { return b.world.add(args) })
	if err != nil {
		t.Fatal(err)
	}
	compact := strings.Join(strings.Fields(out), "")
	for _, want := range []string{`"address":"10.77.0.10/24"`, `"interface":0`, `"name":"net1"`, `"mac":"02:00:00:00:00:07"`, `"sandbox":"/ns"`, `"pciID":"0000:01:10.2"`} {
		if !strings.Contains(compact, want) {
			t.Errorf("%s is not in %s", want, compact)
		}
	}
	t.Setenv("CNI_COMMAND", "DEL")
	for range 2 { // a runtime may ask twice
		if err := b.world.del(args); err != nil {
			t.Error(err)
		}
	}
	if got := strings.Join(b.calls, ", "); got != "ens5 1 mac 02:00:00:00:00:07, ens5 1 vlan 5, ens5 1 vlan 0, ens5 1 vlan 0" {
		t.Errorf("the card was told: %s", got)
	}
	if got := b.lent(); got != "ADD DEL DEL" {
		t.Errorf("IPAM was asked: %s", got)
	}
	if err := os.RemoveAll(filepath.Join(b.world.devices, "0000:01:10.2")); err != nil {
		t.Fatal(err)
	}
	if err := b.world.del(args); err != nil {
		t.Errorf("a function that is lost cannot be removed: %v", err)
	}
}

// A definition without a MAC leaves the function's own, and the result tells which it is. One
// that has none, or zeros, gets one from its program, of which the network knows nothing.
func TestTheFunctionsOwnMACIsTold(t *testing.T) {
	for own, want := range map[string]string{"02:00:00:00:00:09": `"mac":"02:00:00:00:00:09"`, "00:00:00:00:00:00": "", "": ""} {
		b := newBed(t)
		if own != "" {
			b.mac, _ = net.ParseMAC(own)
		}
		out, err := printed(t, func() error { return b.world.add(b.args(`,"deviceID":"0000:01:10.2"`)) })
		if err != nil {
			t.Fatal(err)
		}
		compact := strings.Join(strings.Fields(out), "")
		if !strings.Contains(compact, want) || want == "" && strings.Contains(compact, `"mac"`) {
			t.Errorf("own MAC %q: %s", own, compact)
		}
	}
}

// What a function cannot be is refused before an address is taken.
func TestFunctionsThatAreNone(t *testing.T) {
	for more, want := range map[string]string{
		``: "deviceID is missing", `,"deviceID":"../../etc"`: "must be a PCI address", `,"deviceID":"0000:01:10.6"`: "is not there",
		`,"deviceID":"0000:01:10.0"`:                                 `on driver "igbvf"`,
		`,"deviceID":"0000:01:10.2","vlan":4095`:                     "vlan 4095",
		`,"deviceID":"0000:01:10.2","mac":"01:00:5e:00:00:01"`:       "unicast",
		`,"deviceID":"0000:01:10.2","mac":"02:00:00:00:00:00:00:00"`: "unicast",
		`,"deviceID":"0000:01:10.2","mac":"nobody"`:                  "unicast",
		`,"deviceID":7`: "configuration",
	} {
		b := newBed(t)
		if _, err := printed(t, func() error { return b.world.add(b.args(more)) }); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", more, err, want)
		}
		if b.lent() != "" || len(b.calls) != 0 {
			t.Errorf("%s: IPAM %s, the card %v", more, b.lent(), b.calls)
		}
	}
}

// A card that refuses leaves no address taken.
func TestACardThatRefuses(t *testing.T) {
	b := newBed(t)
	b.fails = true
	_, err := printed(t, func() error { return b.world.add(b.args(`,"deviceID":"0000:01:10.2","mac":"02:00:00:00:00:07"`)) })
	if err == nil || !strings.Contains(err.Error(), "number 1 of ens5") || !strings.HasPrefix(b.lent(), "ADD ") {
		t.Errorf("%v; IPAM %s", err, b.lent())
	}
	_, err = printed(t, func() error { return b.world.add(b.args(`,"deviceID":"0000:01:10.2"`)) })
	if err == nil || !strings.Contains(err.Error(), "number 1 of ens5") || b.lent() != "ADD DEL ADD DEL" {
		t.Errorf("a card that does not tell the MAC: %v; IPAM %s", err, b.lent())
	}
}
