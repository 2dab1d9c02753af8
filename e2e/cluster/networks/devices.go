// SPDX-License-Identifier: Apache-2.0

package networks

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
)

// checkpoint is where a kubelet notes which devices it gave to whom.
var checkpoint = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"

// devices are those a pod got from device plugins or by claims. Each is handed to one network.
type devices struct {
	uid     string
	claimed func() (map[string][]string, error)
	all     map[string][]string // by resource; nil: not read yet
	used    map[string]int
}

// next is the device for the next network of a resource; empty for a definition without one.
func (d *devices) next(resource string) (string, error) {
	if resource == "" {
		return "", nil
	}
	if d.all == nil {
		var err error
		if d.all, err = devicesOf(d.uid); err != nil {
			return "", err
		}
		if len(d.all[resource]) == 0 {
			claimed, err := d.claimed()
			if err != nil {
				return "", err
			}
			maps.Copy(d.all, claimed)
		}
		d.used = map[string]int{}
	}
	i := d.used[resource]
	if i >= len(d.all[resource]) {
		return "", fmt.Errorf("the pod got %d devices of resource %s, and this network wants one more: does a container request it, or a claim?", i, resource)
	}
	d.used[resource]++
	return d.all[resource][i], nil
}

// devicesOf reads the kubelet's notes.
func devicesOf(uid string) (map[string][]string, error) {
	var notes struct {
		Data struct {
			PodDeviceEntries []struct {
				PodUID       string
				ResourceName string
				DeviceIDs    map[string][]string // by NUMA node
			}
		}
	}
	text, err := os.ReadFile(checkpoint)
	if errors.Is(err, os.ErrNotExist) {
		return map[string][]string{}, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &notes)
	}
	if err != nil {
		return nil, fmt.Errorf("read the kubelet's notes of devices: %w", err)
	}
	out := map[string][]string{}
	for _, e := range notes.Data.PodDeviceEntries {
		if e.PodUID != uid {
			continue
		}
		for _, ids := range e.DeviceIDs {
			out[e.ResourceName] = append(out[e.ResourceName], ids...)
		}
	}
	for _, ids := range out {
		slices.Sort(ids)
	}
	return out, nil
}
