// SPDX-License-Identifier: Apache-2.0

package draplugin

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	resource "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
)

func newPlugin(t *testing.T) *Plugin {
	groups := t.TempDir()
	if err := os.MkdirAll(filepath.Join(groups, "0000:01:10.2"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../kernel/iommu_groups/7", filepath.Join(groups, "0000:01:10.2", "iommu_group")); err != nil {
		t.Fatal(err)
	}
	return &Plugin{Driver: "d.example.com", Node: "n", Resource: "example.com/vf", CDI: t.TempDir(), Groups: groups,
		Devices: []Device{{"function-0", "0000:01:10.0", "0000:01:10.0"}, {"function-1", "0000:01:10.2", "0000:01:10.4"}}}
}

func claimOf(uid, device string) *resource.ResourceClaim {
	c := &resource.ResourceClaim{}
	c.UID, c.Name, c.Namespace = types.UID(uid), "c-"+uid, "ns"
	c.Status.Allocation = &resource.AllocationResult{Devices: resource.DeviceAllocationResult{Results: []resource.DeviceRequestAllocationResult{
		{Request: "vf", Driver: "other.example.com", Pool: "x", Device: "y"},
		{Request: "vf", Driver: "d.example.com", Pool: "n", Device: device},
	}}}
	return c
}

func prepared(t *testing.T, p *Plugin, c *resource.ResourceClaim) kubeletplugin.PrepareResult {
	t.Helper()
	all, err := p.PrepareResourceClaims(context.Background(), []*resource.ResourceClaim{c})
	if err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	return all[c.UID]
}

// A prepared claim has a CDI file with the device's files, and metadata; asked again it has the same.
func TestAClaimIsPreparedAndTakenBack(t *testing.T) {
	p := newPlugin(t)
	for range 2 {
		got := prepared(t, p, claimOf("u", "function-1"))
		if got.Err != nil || len(got.Devices) != 1 {
			t.Fatalf("%+v", got)
		}
		d := got.Devices[0]
		if d.PoolName != "n" || d.CDIDeviceIDs[0] != "d.example.com/device=u-function-1" || *d.Metadata.Attributes["resource.kubernetes.io/pciBusID"].StringValue != "0000:01:10.4" {
			t.Errorf("%+v", d)
		}
	}
	files, err := os.ReadDir(p.CDI)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v %v", files, err)
	}
	text, err := os.ReadFile(filepath.Join(p.CDI, files[0].Name()))
	if err != nil || !json.Valid(text) {
		t.Fatalf("%s %v", text, err)
	}
	for _, want := range []string{`"cdiVersion": "0.6.0"`, `"kind": "d.example.com/device"`, `"name": "u-function-1"`, `"path": "/dev/vfio/vfio"`, `"path": "/dev/vfio/7"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %s", text, want)
		}
	}
	if other := prepared(t, p, claimOf("v", "function-1")); other.Err == nil || !strings.Contains(other.Err.Error(), "held by claim u") {
		t.Errorf("two claims have one device: %v", other.Err)
	}
	for range 2 { // nothing is left of it, and taking back nothing is right
		gone, err := p.UnprepareResourceClaims(context.Background(), []kubeletplugin.NamespacedObject{{UID: "u"}})
		if err != nil || len(gone) != 1 || gone["u"] != nil {
			t.Fatalf("%v %v", gone, err)
		}
	}
	if files, err := os.ReadDir(p.CDI); err != nil || len(files) != 0 {
		t.Errorf("%v %v", files, err)
	}
	if other := prepared(t, p, claimOf("v", "function-1")); other.Err != nil {
		t.Error(other.Err)
	}
}

func TestClaimsThatCannotBePrepared(t *testing.T) {
	p := newPlugin(t)
	if got := prepared(t, p, claimOf("u", "function-9")); got.Err == nil || !strings.Contains(got.Err.Error(), "no device function-9") {
		t.Error(got.Err)
	}
	bare := claimOf("w", "function-0")
	bare.Status.Allocation = nil
	if got := prepared(t, p, bare); got.Err == nil || !strings.Contains(got.Err.Error(), "not allocated") {
		t.Error(got.Err)
	}
}

// The slice has what Multus looks for.
func TestTheSliceNamesResourceAndDevice(t *testing.T) {
	devices := newPlugin(t).Slice().Pools["n"].Slices[0].Devices
	if len(devices) != 2 {
		t.Fatal(devices)
	}
	for name, want := range map[resource.QualifiedName]string{AttributeDeviceID: "0000:01:10.2", AttributeResource: "example.com/vf", "resource.kubernetes.io/pciBusID": "0000:01:10.2"} {
		if got := devices[1].Attributes[name].StringValue; got == nil || *got != want {
			t.Errorf("%s is %v, want %s", name, got, want)
		}
	}
}
