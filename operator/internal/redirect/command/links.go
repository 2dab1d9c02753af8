// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/bobtail-dev/bobtail/operator/internal/agent/devices"
	"github.com/bobtail-dev/bobtail/operator/internal/redirect/desired"
)

// The counters of devices that come and go (dataplane/bpf/crab_reasons.h).
const (
	deviceGone  = "device_gone"
	deviceAgain = "device_attached_again"
)

// follows tells what became of the file's devices since the last time, and counts it: a device is another one when its
// index is, whatever it is called.
func (h *host) follows(found []desired.Device, r desired.Result) error {
	var errs []error
	now := map[string]int{}
	for _, d := range found {
		now[d.Name] = d.Index
	}
	maps.DeleteFunc(h.links, func(name string, _ int) bool {
		return !slices.ContainsFunc(h.config.Devices, func(d Device) bool { return d.Name == name })
	})
	for _, d := range h.config.Devices {
		before, known := h.links[d.Name]
		index := now[d.Name]
		lost := known && index == before && r.Lost[index]
		if known && before != 0 && index != before || lost {
			errs = append(errs, h.say(deviceGone, "device %s is gone\n", d.Name))
			h.links[d.Name], before = 0, 0
		}
		switch {
		case !known:
			h.links[d.Name] = index
		case index != 0 && before == 0 && r.Devices[d.Name] == nil:
			errs = append(errs, h.say(deviceAgain, "device %s is there again: attached\n", d.Name))
			h.links[d.Name] = index
		}
	}
	return errors.Join(errs...)
}

// newDevices refuses a file for a device that is not there, unless the former one had it: that one is waited for.
func (c Config) newDevices(former Config) error {
	fresh := Config{Devices: slices.DeleteFunc(slices.Clone(c.Devices), func(d Device) bool {
		return slices.ContainsFunc(former.Devices, func(f Device) bool { return f.Name == d.Name })
	})}
	_, missing := fresh.state()
	return missing
}

func (h *host) say(reason, format, device string) error {
	fmt.Fprintf(h.out, format, device)
	return h.plane.Count(reason, 1)
}

// shareAnew is for a device to announce by that was made anew: the sockets of the share are on the one that is gone.
func (h *host) shareAnew(ctx context.Context) error {
	if h.share == nil {
		return nil
	}
	device, err := devices.Uplink(h.share.config.Device)
	if err != nil {
		return fmt.Errorf("announce.device: %w", err)
	}
	if device.Index == h.share.uplink {
		return nil
	}
	h.leave()
	next, err := newShare(h.share.config, h.plane, h.out)
	if err != nil {
		return err // what has been left owns nothing, until this works
	}
	h.share, h.leave = next, next.start(ctx)
	return nil
}
