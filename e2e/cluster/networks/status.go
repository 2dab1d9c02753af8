// SPDX-License-Identifier: Apache-2.0

package networks

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
)

// AnnotationStatus of a pod tells what its networks gave it, the first one included.
const AnnotationStatus = "k8s.v1.cni.cncf.io/network-status"

// Status is one entry of it, as the Network Plumbing Working Group describes it.
type Status struct {
	Name      string      `json:"name"`
	Interface string      `json:"interface,omitempty"`
	IPs       []string    `json:"ips,omitempty"`
	MAC       string      `json:"mac,omitempty"`
	MTU       int         `json:"mtu,omitempty"`
	Default   bool        `json:"default,omitempty"`
	DNS       struct{}    `json:"dns"`
	Device    *DeviceInfo `json:"device-info,omitempty"`
}

// DeviceInfo is a device that the network's plugin took.
type DeviceInfo struct {
	Type    string `json:"type"`
	Version string `json:"version"`
	PCI     struct {
		Address string `json:"pci-address"`
	} `json:"pci"`
}

// pciAddress is how Linux writes one.
var pciAddress = regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// ofFirst is the entry of the network that pods have anyhow.
func ofFirst(conf *Config, name string) Status {
	s, err := statusFrom(conf.Name, name, conf.PrevResult)
	if err != nil {
		s = Status{Name: conf.Name, Interface: name}
	}
	s.Default = true
	return s
}

// statusOf is the entry of one further network.
func statusOf(a Attachment, result types.Result) (Status, error) {
	s, err := statusFrom(a.Request.Namespace+"/"+a.Request.Name, a.Request.Interface, result)
	if err != nil {
		return s, a.told(err)
	}
	if pciAddress.MatchString(a.Device) {
		s.Device = &DeviceInfo{Type: "pci", Version: "1.1.0"}
		s.Device.PCI.Address = a.Device
	}
	return s, nil
}

// statusFrom takes from a plugin's result what it says of the interface in the pod.
func statusFrom(network, name string, result types.Result) (Status, error) {
	s := Status{Name: network, Interface: name}
	r, err := current.NewResultFromResult(result)
	if err != nil {
		return s, fmt.Errorf("read what the plugin made: %w", err)
	}
	for _, i := range r.Interfaces {
		if i.Sandbox != "" && i.Name == name {
			s.MAC = i.Mac
		}
	}
	for _, ip := range r.IPs {
		if ip.Interface == nil || *ip.Interface >= 0 && *ip.Interface < len(r.Interfaces) && r.Interfaces[*ip.Interface].Name == name {
			s.IPs = append(s.IPs, ip.Address.IP.String())
		}
	}
	return s, nil
}

// tell writes the annotation.
func tell(ctx context.Context, conf *Config, p pod, status []Status) error {
	text, err := json.Marshal(status)
	if err != nil {
		return err
	}
	api, err := client(conf)
	if err != nil {
		return err
	}
	return api.AnnotatePod(ctx, string(p.K8S_POD_NAMESPACE), string(p.K8S_POD_NAME), string(p.K8S_POD_UID), AnnotationStatus, string(text))
}
