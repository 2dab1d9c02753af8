// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
)

// Config is the file of `bobtail-redirect run`.
type Config struct {
	Devices   []Device       `json:"devices"`
	VIPs      []redirect.VIP `json:"vips,omitempty"`
	AllowEcho []netip.Addr   `json:"allowEcho,omitempty"`
	Wire      redirect.Wire  `json:"wire,omitzero"`
	Sizes     redirect.Sizes `json:"sizes,omitzero"`
	Lives     redirect.Lives `json:"lives,omitzero"`
}

// Device says which parts run on a device.
type Device struct {
	Name      string             `json:"name"`
	Placement redirect.Placement `json:"placement"`
	Duties    []redirect.Duty    `json:"duties"`
	XDP       redirect.XDPMode   `json:"xdp,omitempty"` // of a balancer; Auto when empty
}

func readConfig(path string) (Config, error) {
	var c Config
	raw, err := os.ReadFile(path)
	if err != nil {
		return c, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// apply makes the node hold what the file says, and nothing else.
func apply(p redirect.Plane, c Config) error {
	wanted := map[redirect.VIPKey]bool{}
	for _, v := range c.VIPs {
		wanted[v.VIPKey] = true
		if err := p.SetVIP(v); err != nil {
			return fmt.Errorf("VIP %s:%d: %w", v.Addr, v.Port, err)
		}
	}
	if err := p.AllowEcho(c.AllowEcho); err != nil {
		return err
	}
	if err := attach(p, c.Devices); err != nil {
		return err
	}
	have, err := p.VIPs()
	if err != nil {
		return err
	}
	for _, v := range have {
		if !wanted[v.VIPKey] {
			if err := p.DeleteVIP(v.VIPKey); err != nil {
				return err
			}
		}
	}
	return nil
}

// attach puts the wanted parts in place and takes away all others.
func attach(p redirect.Plane, devices []Device) error {
	type part struct {
		index int
		duty  redirect.Duty
	}
	wanted := map[part]bool{}
	for _, d := range devices {
		device, err := net.InterfaceByName(d.Name)
		if err != nil {
			return fmt.Errorf("device %s: %w", d.Name, err)
		}
		for _, duty := range d.Duties {
			wanted[part{device.Index, duty}] = true
			if err := attachOne(p, device.Index, d, duty); err != nil {
				return fmt.Errorf("device %s: %w", d.Name, err)
			}
		}
	}
	have, err := p.Attachments()
	if err != nil {
		return err
	}
	for _, a := range have {
		if !wanted[part{a.Index, a.Duty}] {
			if err := p.Detach(a.Index, a.Duty); err != nil {
				return err
			}
		}
	}
	return nil
}

func attachOne(p redirect.Plane, index int, d Device, duty redirect.Duty) error {
	switch duty {
	case redirect.DutyClient:
		return p.AttachClient(index, d.Placement)
	case redirect.DutyServer:
		return p.AttachServer(index, d.Placement)
	case redirect.DutyBalancer:
		mode := d.XDP
		if mode == "" {
			mode = redirect.XDPAuto
		}
		a, err := p.AttachBalancer(index, mode)
		if err == nil {
			fmt.Printf("balancer on %s: XDP %s %s\n", d.Name, a.XDP, a.XDPReason)
		}
		return err
	}
	return &redirect.FieldError{Field: "duties", Reason: fmt.Sprintf("%q is none of client, server, balancer", duty)}
}

// modified is when the file was last written; zero when it is not there.
func modified(path string) time.Time {
	st, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return st.ModTime()
}
