// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/balancers"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect/desired"
)

// Config is the file of `bobtail-redirect run`.
type Config struct {
	Devices   []Device       `json:"devices"`
	VIPs      []redirect.VIP `json:"vips,omitempty"`
	AllowEcho []netip.Addr   `json:"allowEcho,omitempty"`
	// Tunnels are for networks that check sources (C-80).
	Tunnels redirect.Tunnels `json:"tunnels,omitzero"`
	Wire    redirect.Wire    `json:"wire,omitzero"`
	Sizes   redirect.Sizes   `json:"sizes,omitzero"`
	Lives   redirect.Lives   `json:"lives,omitzero"`
	// Announce shares the VIPs with other hosts: one of them owns each.
	Announce *Announce `json:"announce,omitempty"`
	// Watch are servers of this host whose connections are counted, on the devices
	// with the duty watch, and told to the peers of Announce (C-62) and to Balancers.
	Watch []netip.AddrPort `json:"watch,omitempty"`
	// Balancers are bobtail-crab-lb's of the same servers (C-64).
	Balancers *Balancers `json:"balancers,omitempty"`
}

// Balancers says whom to tell the loads of Watch. It cannot change while the program runs.
type Balancers struct {
	Addresses []netip.AddrPort `json:"addresses"` // report ports
	KeyDir    string           `json:"keyDir"`    // holds the files key and, while it is exchanged, previous
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
	if len(c.Watch) > 0 && c.Announce == nil && c.Balancers == nil {
		return c, &redirect.FieldError{Field: "watch", Reason: "loads are told to the peers of announce, or to balancers, and both are missing"}
	}
	return c, errors.Join(c.Balancers.check(), checkLives(c.Lives))
}

// checkLives refuses what would forget everything at once.
func checkLives(l redirect.Lives) error {
	for field, life := range map[string]time.Duration{"idle": l.Idle, "ended": l.Ended, "pending": l.Pending, "echo": l.Echo, "crowded": l.Crowded} {
		if life < 0 {
			return &redirect.FieldError{Field: "lives." + field, Reason: fmt.Sprintf("%d is less than nothing: name nanoseconds, or 0 for the default", int64(life))}
		}
	}
	return nil
}

func (b *Balancers) check() error {
	switch {
	case b == nil:
		return nil
	case len(b.Addresses) == 0:
		return &redirect.FieldError{Field: "balancers.addresses", Reason: "name at least one balancer's address and report port"}
	case b.KeyDir == "":
		return &redirect.FieldError{Field: "balancers.keyDir", Reason: "name the folder with the key of reports"}
	}
	if err := balancers.Check(b.Addresses); err != nil {
		return &redirect.FieldError{Field: "balancers.addresses", Reason: err.Error()}
	}
	return nil
}

// state is what the plane should hold, but for devices that are not there: missing names them.
func (c Config) state() (s desired.State, missing error) {
	s = desired.State{VIPs: c.VIPs, AllowEcho: c.AllowEcho, Tunnels: c.Tunnels, Watch: inOrder(c.Watch)}
	s.IPv6 = slices.ContainsFunc(c.VIPs, func(v redirect.VIP) bool { return v.Addr.Is6() })
	for _, d := range c.Devices {
		device, err := net.InterfaceByName(d.Name)
		if err != nil {
			missing = errors.Join(missing, fmt.Errorf("device %s: %w", d.Name, err))
			continue
		}
		s.Devices = append(s.Devices, desired.Device{Name: d.Name, Index: device.Index, Address: device.HardwareAddr.String(), Placement: d.Placement, Duties: d.Duties, XDP: d.XDP})
	}
	return s, missing
}

// modified is when the file was last written; zero when it is not there.
func modified(path string) time.Time {
	st, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return st.ModTime()
}
