// SPDX-License-Identifier: Apache-2.0

// Package draplugin is a DRA kubelet plugin for the embedded cluster and for tests, on
// Kubernetes' own helper. To the kubelet it is a real one, by its API v1: it publishes a
// ResourceSlice, prepares claims by CDI files, and writes the metadata files that containers
// read. Its devices have the attributes by which Multus finds them. No upstream driver runs there.
package draplugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	resource "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/api/metadata/v1alpha1"
	"k8s.io/dynamic-resource-allocation/api/metadata/v1beta1"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

// Attributes of a device by which Multus hands it to a network's plugin.
const (
	AttributeDeviceID = "k8s.cni.cncf.io/deviceID"
	AttributeResource = "k8s.cni.cncf.io/resourceName"
)

// Device is one that claims can get.
type Device struct {
	Name string // in the ResourceSlice
	ID   string // PCI address
	Told string // PCI address in the metadata; the ID, unless a test wants sources that disagree
}

// Plugin hands devices out to claims.
type Plugin struct {
	Driver   string // its name, a DNS name
	Node     string
	Resource string // as definitions of networks name it
	Devices  []Device
	CDI      string // folder of CDI files
	Data     string // the driver's folder below the kubelet's
	Groups   string // folder that shows the IOMMU group of each device

	mu   sync.Mutex
	held map[string]types.UID // device to claim
}

// Folders that a kubelet and a container runtime know.
const (
	CDIFolder  = "/var/run/cdi"
	PCIDevices = "/sys/bus/pci/devices"
)

// Serve hands devices out until ctx ends.
func (p *Plugin) Serve(ctx context.Context, client kubernetes.Interface) error {
	for _, dir := range []string{p.CDI, p.Data} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	helper, err := kubeletplugin.Start(ctx, p, kubeletplugin.DriverName(p.Driver), kubeletplugin.NodeName(p.Node), kubeletplugin.KubeClient(client),
		kubeletplugin.PluginDataDirectoryPath(p.Data), kubeletplugin.CDIDirectory(p.CDI), kubeletplugin.HealthService(false),
		kubeletplugin.EnableDeviceMetadata(true, []schema.GroupVersion{v1beta1.SchemeGroupVersion, v1alpha1.SchemeGroupVersion}))
	if err != nil {
		return err
	}
	defer helper.Stop()
	if err := helper.PublishResources(ctx, p.Slice()); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// Slice is what the scheduler may allocate.
func (p *Plugin) Slice() resourceslice.DriverResources {
	var all []resource.Device
	for _, d := range p.Devices {
		attributes := map[resource.QualifiedName]resource.DeviceAttribute{
			AttributeDeviceID: text(d.ID), AttributeResource: text(p.Resource), deviceattribute.StandardDeviceAttributePCIBusID: text(d.ID),
		}
		all = append(all, resource.Device{Name: d.Name, Attributes: attributes})
	}
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{p.Node: {Slices: []resourceslice.Slice{{Devices: all}}}}}
}

func text(s string) resource.DeviceAttribute { return resource.DeviceAttribute{StringValue: &s} }

// PrepareResourceClaims lets the containers of each claim have its devices. It may be asked
// again for a claim that it has prepared.
func (p *Plugin) PrepareResourceClaims(_ context.Context, claims []*resource.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	out := map[types.UID]kubeletplugin.PrepareResult{}
	for _, c := range claims {
		devices, err := p.prepare(c)
		out[c.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
	}
	return out, nil
}

func (p *Plugin) prepare(c *resource.ResourceClaim) ([]kubeletplugin.Device, error) {
	if c.Status.Allocation == nil {
		return nil, errors.New("the claim is not allocated")
	}
	var devices []kubeletplugin.Device
	for _, r := range c.Status.Allocation.Devices.Results {
		if r.Driver != p.Driver {
			continue
		}
		d, err := p.take(r.Device, c.UID)
		if err != nil {
			return nil, err
		}
		id, err := p.writeCDI(c.UID, d)
		if err != nil {
			return nil, err
		}
		devices = append(devices, kubeletplugin.Device{
			Requests: []string{r.Request}, PoolName: r.Pool, DeviceName: r.Device, CDIDeviceIDs: []string{id},
			Metadata: &kubeletplugin.DeviceMetadata{Attributes: map[string]resource.DeviceAttribute{
				string(deviceattribute.StandardDeviceAttributePCIBusID): text(d.Told),
			}},
		})
	}
	return devices, nil
}

// take gives a device to a claim; the scheduler should have seen to it that no other has it.
func (p *Plugin) take(name string, claim types.UID) (Device, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.Devices {
		if d.Name != name {
			continue
		}
		if holder, taken := p.held[name]; taken && holder != claim {
			return d, fmt.Errorf("device %s is held by claim %s", name, holder)
		}
		if p.held == nil {
			p.held = map[string]types.UID{}
		}
		p.held[name] = claim
		return d, nil
	}
	return Device{}, fmt.Errorf("there is no device %s", name)
}

// UnprepareResourceClaims takes everything back; of a claim that it does not know there is nothing.
func (p *Plugin) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[types.UID]error{}
	for _, c := range claims {
		out[c.UID] = p.removeCDI(c.UID)
		for name, holder := range p.held {
			if holder == c.UID && out[c.UID] == nil {
				delete(p.held, name)
			}
		}
	}
	return out, nil
}

// HandleError tells of what failed in the background; the helper tries again.
func (p *Plugin) HandleError(_ context.Context, err error, what string) {
	slog.Error(what, "driver", p.Driver, "error", err)
}

// WatchHealthStatus has nothing to tell.
func (p *Plugin) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}

// cdiFile is one file of CDI 0.6: what a container of the device gets.
type cdiFile struct {
	Version string      `json:"cdiVersion"`
	Kind    string      `json:"kind"`
	Devices []cdiDevice `json:"devices"`
}

type cdiDevice struct {
	Name  string   `json:"name"`
	Edits cdiEdits `json:"containerEdits"`
}

type cdiEdits struct {
	Env   []string  `json:"env,omitempty"`
	Nodes []cdiNode `json:"deviceNodes,omitempty"`
}

type cdiNode struct {
	Path string `json:"path"`
}

// writeCDI writes the file of a claim's device, and returns the name by which runtimes know it.
// The name has the claim in it, so that no runtime takes an older one for it.
func (p *Plugin) writeCDI(claim types.UID, d Device) (string, error) {
	name, kind := string(claim)+"-"+d.Name, p.Driver+"/device"
	edits := cdiEdits{Env: []string{"BOBTAIL_DRA_DEVICE=" + d.Name}} // edits may not be empty
	if to, err := os.Readlink(filepath.Join(p.Groups, filepath.Base(d.ID), "iommu_group")); err == nil {
		edits.Nodes = []cdiNode{{"/dev/vfio/vfio"}, {"/dev/vfio/" + filepath.Base(to)}}
	}
	content, err := json.MarshalIndent(cdiFile{"0.6.0", kind, []cdiDevice{{name, edits}}}, "", " ")
	if err != nil {
		return "", err
	}
	file := p.cdiPath(name)
	if err := os.WriteFile(file+".new", content, 0o644); err != nil {
		return "", err
	}
	return kind + "=" + name, os.Rename(file+".new", file)
}

func (p *Plugin) cdiPath(name string) string {
	return filepath.Join(p.CDI, p.Driver+"-device-"+name+".json")
}

func (p *Plugin) removeCDI(claim types.UID) error {
	files, err := filepath.Glob(p.cdiPath(string(claim) + "-*"))
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
