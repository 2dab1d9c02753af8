// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// kubelet takes registrations as the real one does: at its start it removes all sockets of
// its folder, and makes its own.
type kubelet struct {
	api.UnimplementedRegistrationServer
	heard chan *api.RegisterRequest
	stop  func()
}

func (k *kubelet) Register(_ context.Context, r *api.RegisterRequest) (*api.Empty, error) {
	k.heard <- r
	return &api.Empty{}, nil
}

func start(t *testing.T, folder string) *kubelet {
	t.Helper()
	old, err := filepath.Glob(filepath.Join(folder, "*.sock"))
	if err != nil {
		t.Fatal(err)
	}
	for _, socket := range old {
		if err := os.Remove(socket); err != nil {
			t.Fatal(err)
		}
	}
	listener, err := net.Listen("unix", filepath.Join(folder, kubeletSocket))
	if err != nil {
		t.Fatal(err)
	}
	k := &kubelet{heard: make(chan *api.RegisterRequest, 8)}
	server := grpc.NewServer()
	api.RegisterRegistrationServer(server, k)
	go func() { _ = server.Serve(listener) }()
	k.stop = server.Stop
	t.Cleanup(server.Stop)
	return k
}

func (k *kubelet) registered(t *testing.T) *api.RegisterRequest {
	t.Helper()
	select {
	case r := <-k.heard:
		return r
	case <-time.After(time.Minute):
		t.Fatal("the plugin does not register")
		return nil
	}
}

func listed(ctx context.Context, client api.DevicePluginClient) (*api.ListAndWatchResponse, error) {
	stream, err := client.ListAndWatch(ctx, &api.Empty{}, grpc.WaitForReady(true))
	if err != nil {
		return nil, err
	}
	return stream.Recv()
}

// devices are what the plugin lists at the endpoint that it gave.
func devices(t *testing.T, folder string, r *api.RegisterRequest) (api.DevicePluginClient, []string) {
	t.Helper()
	connection, err := grpc.NewClient("unix://"+filepath.Join(folder, r.GetEndpoint()), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	client := api.NewDevicePluginClient(connection)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	answer, err := listed(ctx, client)
	for err != nil && ctx.Err() == nil { // a kubelet that stops amid the word leaves the plugin to begin once more
		time.Sleep(10 * time.Millisecond)
		answer, err = listed(ctx, client)
	}
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, d := range answer.GetDevices() {
		if d.GetHealth() == api.Healthy {
			ids = append(ids, d.GetID())
		}
	}
	return client, ids
}

// The plugin registers, lists and allocates as documented, and does so again for a kubelet
// that starts again, whose folder is empty then.
func TestAKubeletThatStartsAgain(t *testing.T) {
	folder, groups := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(groups, "0000:01:10.0"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../../kernel/iommu_groups/17", filepath.Join(groups, "0000:01:10.0", "iommu_group")); err != nil {
		t.Fatal(err)
	}
	p := &Plugin{Resource: "test.example/vf-1", IDs: []string{"0000:01:10.0", "line-1"}, Folder: folder, Groups: groups}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	first := start(t, folder)
	go func() { done <- p.Serve(ctx) }()
	r := first.registered(t)
	if r.GetVersion() != "v1beta1" || r.GetResourceName() != "test.example/vf-1" {
		t.Errorf("registered %+v", r)
	}
	if _, ids := devices(t, folder, r); !slices.Equal(ids, p.IDs) {
		t.Errorf("devices %v", ids)
	}
	first.stop()
	second := start(t, folder)
	r = second.registered(t)
	client, ids := devices(t, folder, r)
	if !slices.Equal(ids, p.IDs) {
		t.Errorf("devices for the second kubelet: %v", ids)
	}
	got, err := client.Allocate(t.Context(), &api.AllocateRequest{ContainerRequests: []*api.ContainerAllocateRequest{{DevicesIds: []string{"0000:01:10.0"}}, {DevicesIds: []string{"line-1"}}}})
	if err != nil {
		t.Fatal(err)
	}
	c := got.GetContainerResponses()
	const name = "PCIDEVICE_TEST_EXAMPLE_VF_1"
	if c[0].GetEnvs()[name] != "0000:01:10.0" || c[1].GetEnvs()[name] != "line-1" ||
		c[0].GetEnvs()[name+"_INFO"] != `{"0000:01:10.0":{"generic":{"deviceID":"0000:01:10.0"},"vfio":{"dev-mount":"/dev/vfio/17","mount":"/dev/vfio/vfio"}}}` {
		t.Errorf("variables %v", c)
	}
	if d := c[0].GetDevices(); len(d) != 2 || d[1].GetHostPath() != "/dev/vfio/17" || len(c[1].GetDevices()) != 0 {
		t.Errorf("files %v", d)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
