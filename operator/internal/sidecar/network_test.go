// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sidecar

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	statusOf  = `[{"name":"cluster","interface":"eth0","ips":["10.244.0.7"]},{"name":"demo/vfs","interface":"net1","ips":["10.77.0.7"]PCI}]`
	deviceOf  = `,"device-info":{"type":"pci","version":"1.1.0","pci":{"pci-address":"0000:01:10.2"}}`
	addressOf = "10.77.0.7\n"
)

func statusText(pci string) []byte { return []byte(strings.Replace(statusOf, "PCI", pci, 1)) }

func fileText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The program is held back while the annotation is absent or is not believed, is told
// the address when it is, and keeps it when the annotation is edited afterwards.
func TestTheProgramIsToldItsAddress(t *testing.T) {
	dir := t.TempDir()
	n := NetworkOptions{Network: "demo/vfs", StatusFile: filepath.Join(dir, "status"), AddressFile: filepath.Join(dir, "address"), PCIFile: filepath.Join(dir, "pci")}
	socket := filepath.Join(dir, "ctl.sock")
	r := startWith(t, socket, func(o *Options) { o.Network = n })
	why := func() string {
		reply, err := http.Get(r.metrics + "/addressz")
		if err != nil {
			t.Fatal(err)
		}
		defer reply.Body.Close()
		text, _ := io.ReadAll(reply.Body)
		if (reply.StatusCode == http.StatusOK) != (string(text) == "ok\n") {
			t.Fatalf("%d %s", reply.StatusCode, text)
		}
		return string(text)
	}
	told := func(part string) { eventually(t, part, func() bool { return strings.Contains(why(), part) }) }
	told("no such file")
	for _, c := range []struct{ text, part string }{
		{"", "NetworkStatusMissing"},
		{"{", "NetworkStatusMalformed"},
		{strings.Repeat(" ", 300<<10) + "x", "NetworkStatusMalformed"},
		{`[{"name":"demo/vfs","interface":"net1"}]`, "AddressMissing"},
		{string(statusText("")), "pci-address is missing"},
	} {
		write(t, n.StatusFile, []byte(c.text))
		told(c.part)
		if _, err := os.Stat(n.AddressFile); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: an address was placed: %v", c.part, err)
		}
	}
	write(t, n.StatusFile, statusText(deviceOf))
	told("ok\n")
	if a, pci := fileText(t, n.AddressFile), fileText(t, n.PCIFile); a != addressOf || pci != "0000:01:10.2\n" {
		t.Errorf("address %q, device %q", a, pci)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	write(t, n.StatusFile, []byte(strings.Replace(string(statusText(deviceOf)), "10.77.0.7", "10.77.0.8", 1)))
	r = startWith(t, socket, func(o *Options) { o.Network = n })
	told("ok\n")
	if a := fileText(t, n.AddressFile); a != addressOf {
		t.Errorf("edited afterwards: %q", a)
	}
	if entries, _ := filepath.Glob(filepath.Join(dir, ".placing-*")); len(entries) != 0 {
		t.Errorf("left behind: %v", entries)
	}
}

// A pod on the pod network is not held back.
func TestNoNetworkOfItsOwn(t *testing.T) {
	r := start(t)
	eventually(t, "addressz", func() bool { return status(t, r.metrics+"/addressz") == http.StatusOK })
}

func TestNetworkFlagsGoTogether(t *testing.T) {
	base := []string{"--configmap=a/b-dataplane"}
	whole := []string{"--network=a/n", "--network-status=/s", "--address-file=/a"}
	if _, err := ParseFlags(append(base, whole...), io.Discard); err != nil {
		t.Error(err)
	}
	for _, args := range [][]string{whole[:1], whole[:2], whole[1:], {"--pci-file=/p"}} {
		if _, err := ParseFlags(append(base, args...), io.Discard); !errors.Is(err, ErrUsage) {
			t.Errorf("%v: %v", args, err)
		}
	}
}
