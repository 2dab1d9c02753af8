// SPDX-License-Identifier: Apache-2.0

// Package deviceplugin is a device plugin for the embedded cluster and for tests. To the
// kubelet it is a real one, by its API v1beta1; to pods it tells what the SR-IOV network
// device plugin documents: PCIDEVICE_RESOURCE and PCIDEVICE_RESOURCE_INFO. Upstream's
// plugin itself does not run there.
package deviceplugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	// Folder is where a kubelet and its plugins meet.
	Folder = "/var/lib/kubelet/device-plugins"

	kubeletSocket = "kubelet.sock"
	// lookEvery is how soon a kubelet that started again is found: it has a new socket then.
	lookEvery = 200 * time.Millisecond
	patience  = 10 * time.Second
)

// Plugin hands out devices of one resource.
type Plugin struct {
	api.UnimplementedDevicePluginServer
	Resource string   // domain/name
	IDs      []string // of devices; PCI addresses where they have some
	Folder   string   // empty: the usual one
	Groups   string   // folder that shows the IOMMU group of each; empty: /sys/bus/pci/devices
}

// Serve hands devices out until ctx ends, and registers again with each kubelet that starts.
func (p *Plugin) Serve(ctx context.Context) error {
	folder := p.folder()
	name := strings.ReplaceAll(p.Resource, "/", "_") + ".sock"
	for ctx.Err() == nil {
		if err := p.serveOne(ctx, folder, name); err != nil {
			return err
		}
	}
	return nil
}

func (p *Plugin) folder() string {
	if p.Folder == "" {
		return Folder
	}
	return p.Folder
}

// serveOne is the plugin of one life of the kubelet. A kubelet that starts removes all
// sockets of its folder, this one too.
func (p *Plugin) serveOne(ctx context.Context, folder, name string) error {
	path := filepath.Join(folder, name)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, p)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer server.Stop()
	kubelet, err := p.register(ctx, folder, name)
	if err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-served:
			return err
		case <-time.After(lookEvery):
		}
		now, err := os.Stat(filepath.Join(folder, kubeletSocket))
		if err == nil && !os.SameFile(kubelet, now) {
			slog.Info("the kubelet started again", "resource", p.Resource)
			return nil
		}
		if _, err := os.Stat(path); err != nil {
			return nil
		}
	}
}

// register tells the kubelet of the plugin, and returns by which socket.
func (p *Plugin) register(ctx context.Context, folder, name string) (os.FileInfo, error) {
	socket := filepath.Join(folder, kubeletSocket)
	for {
		kubelet, err := os.Stat(socket)
		if err == nil {
			err = p.registerAt(ctx, socket, name)
		}
		if err == nil {
			return kubelet, nil
		}
		slog.Info("the kubelet does not take it yet", "resource", p.Resource, "error", err)
		select {
		case <-ctx.Done():
			return kubelet, nil
		case <-time.After(lookEvery):
		}
	}
}

func (p *Plugin) registerAt(ctx context.Context, socket, name string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	_, err = api.NewRegistrationClient(connection).Register(ctx, &api.RegisterRequest{Version: api.Version, Endpoint: name, ResourceName: p.Resource})
	return err
}

// GetDevicePluginOptions asks for nothing.
func (p *Plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

// ListAndWatch tells of all devices, which stay as they are.
func (p *Plugin) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	var all []*api.Device
	for _, id := range p.IDs {
		all = append(all, &api.Device{ID: id, Health: api.Healthy})
	}
	if err := stream.Send(&api.ListAndWatchResponse{Devices: all}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// Allocate tells each container its devices.
func (p *Plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	out := &api.AllocateResponse{}
	for _, c := range request.GetContainerRequests() {
		one, err := p.container(c.GetDevicesIds())
		if err != nil {
			return nil, err
		}
		out.ContainerResponses = append(out.ContainerResponses, one)
	}
	return out, nil
}

// container gets the variables, and the files of vfio for devices that have an IOMMU group.
func (p *Plugin) container(ids []string) (*api.ContainerAllocateResponse, error) {
	type generic struct {
		DeviceID string `json:"deviceID"`
	}
	info := map[string]map[string]any{}
	out := &api.ContainerAllocateResponse{}
	for _, id := range ids {
		info[id] = map[string]any{"generic": generic{id}}
		if group := p.group(id); group != "" {
			files := map[string]string{"mount": "/dev/vfio/vfio", "dev-mount": "/dev/vfio/" + group}
			info[id]["vfio"] = files
			for _, path := range []string{files["mount"], files["dev-mount"]} {
				out.Devices = append(out.Devices, &api.DeviceSpec{HostPath: path, ContainerPath: path, Permissions: "rw"})
			}
		}
	}
	text, err := json.Marshal(info)
	if err != nil {
		return nil, fmt.Errorf("tell of %v: %w", ids, err)
	}
	name := Variable(p.Resource)
	out.Envs = map[string]string{name: strings.Join(ids, ","), name + "_INFO": string(text)}
	return out, nil
}

// group is the IOMMU group of a device; empty: it has none.
func (p *Plugin) group(id string) string {
	devices := p.Groups
	if devices == "" {
		devices = "/sys/bus/pci/devices"
	}
	to, err := os.Readlink(filepath.Join(devices, filepath.Base(id), "iommu_group"))
	if err != nil {
		return ""
	}
	return filepath.Base(to)
}

// Variable is the name under which a container finds the devices of a resource.
func Variable(resource string) string {
	return "PCIDEVICE_" + strings.NewReplacer(".", "_", "/", "_", "-", "_").Replace(strings.ToUpper(resource))
}
