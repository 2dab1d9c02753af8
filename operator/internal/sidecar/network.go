// SPDX-License-Identifier: Apache-2.0

// The address of a pod on its service's network. Multus tells it by an annotation, which
// reaches a pod by a downward-API volume a moment after its first container has been
// started. The sidecar is that container: it waits, judges, and leaves the address
// beside the control socket, where the program finds it.
package sidecar

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/netstatus"
)

// NetworkOptions say where the pod's address is found and put. The zero value is a pod
// on the pod network, whose program knows its address.
type NetworkOptions struct {
	Network     string // namespace/name of the NetworkAttachmentDefinition
	StatusFile  string // the annotation
	AddressFile string // the address
	PCIFile     string // the PCI address of the device; "" is not asked for
	PCIOptional bool   // somebody else tells it, too: it may be missing
}

func (o NetworkOptions) check() error {
	given := 0
	for _, s := range []string{o.Network, o.StatusFile, o.AddressFile} {
		if s != "" {
			given++
		}
	}
	if given != 0 && given != 3 || given == 0 && o.PCIFile != "" {
		return fmt.Errorf("%w: --network, --network-status and --address-file go together, and --pci-file goes with them", ErrUsage)
	}
	return nil
}

// placer puts the address where the program finds it. It is safe for concurrent use.
type placer struct {
	o    NetworkOptions
	log  *slog.Logger
	poll time.Duration

	mu     sync.Mutex
	placed bool
	why    string // not yet
}

func newPlacer(o NetworkOptions, log *slog.Logger) *placer {
	return &placer{o: o, log: log, poll: 200 * time.Millisecond, placed: o.AddressFile == "", why: "not read yet"}
}

// run waits until the annotation is believed. What a program was told once stays: it is
// what peers know, and what the program takes when it is started again.
func (p *placer) run(ctx context.Context) {
	for said := ""; ; {
		why := p.try()
		p.mu.Lock()
		p.why, p.placed = why, why == ""
		p.mu.Unlock()
		if why == "" {
			return
		}
		if why != said {
			p.log.Warn("the address of the pod is not known", "why", why)
			said = why
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(p.poll):
		}
	}
}

// try says why the address cannot be placed; empty: it is.
func (p *placer) try() string {
	if p.o.AddressFile == "" || kept(p.o.AddressFile) {
		return ""
	}
	text, err := readBounded(p.o.StatusFile)
	if err != nil {
		return err.Error()
	}
	given, refusal := netstatus.Judge(text, netstatus.Wanted{Network: p.o.Network, Interface: netstatus.Interface})
	if !refusal.None() {
		return refusal.Reason + ": " + refusal.Message
	}
	if p.o.PCIFile != "" {
		if given.PCI == "" && !p.o.PCIOptional {
			return "annotation " + netstatus.AnnotationStatus + ": device-info.pci.pci-address is missing, and a claimed device is known by nothing else"
		}
		if given.PCI != "" {
			if err := place(p.o.PCIFile, given.PCI); err != nil {
				return err.Error()
			}
		}
	}
	if err := place(p.o.AddressFile, given.Address().String()); err != nil {
		return err.Error()
	}
	p.log.Info("the address of the pod", "network", p.o.Network, "address", given.Address().String(), "pci", given.PCI)
	return ""
}

// kept says that an earlier life of this sidecar has placed an address.
func kept(file string) bool {
	text, err := readBounded(file)
	if err != nil {
		return false
	}
	_, err = netip.ParseAddr(strings.TrimSpace(text))
	return err == nil
}

// readBounded reads a byte more than any annotation has, so that one that is too long is
// refused for that.
func readBounded(file string) (string, error) {
	const most = 256<<10 + 1
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	buf := make([]byte, most)
	n := 0
	for n < most {
		k, err := f.Read(buf[n:])
		n += k
		if err != nil {
			break
		}
	}
	return string(buf[:n]), nil
}

// place writes a file whole or not at all.
func place(file, line string) error {
	f, err := os.CreateTemp(filepath.Dir(file), ".placing-*")
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	if err == nil {
		err = f.Chmod(0o644)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// serveAddress is what the kubelet asks before it starts the program.
func (p *placer) serveAddress(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.placed {
		http.Error(w, "the address of the pod is not known: "+p.why, http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}
