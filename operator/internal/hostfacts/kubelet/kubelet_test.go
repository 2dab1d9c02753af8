// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"net"
	"path/filepath"
	"reflect"
	"testing"

	"google.golang.org/grpc"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/bobtail-dev/bobtail/operator/internal/hostfacts"
)

// server is a kubelet that has two functions, gave one away, and lets containers have CPUs.
type server struct {
	podresources.UnimplementedPodResourcesListerServer
}

func (server) GetAllocatableResources(context.Context, *podresources.AllocatableResourcesRequest) (*podresources.AllocatableResourcesResponse, error) {
	return &podresources.AllocatableResourcesResponse{CpuIds: []int64{2, 3}, Devices: []*podresources.ContainerDevices{
		{ResourceName: "intel.com/vfs", DeviceIds: []string{"0000:01:10.0", "0000:01:10.2"}},
	}}, nil
}

func (server) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	return &podresources.ListPodResourcesResponse{PodResources: []*podresources.PodResources{
		{Name: "idle", Namespace: "shop", Containers: []*podresources.ContainerResources{{Name: "c"}}},
		{Name: "server-1", Namespace: "shop", Containers: []*podresources.ContainerResources{
			{Name: "c", Devices: []*podresources.ContainerDevices{{ResourceName: "intel.com/vfs", DeviceIds: []string{"0000:01:10.2"}}}},
		}},
	}}, nil
}

// What the kubelet tells is by device; one that is not there is an error, and is asked
// anew once it is.
func TestAsk(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	ask := Ask(socket)
	if _, err := ask(); err == nil {
		t.Error("a kubelet that is not there answers")
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(s, server{})
	go func() { _ = s.Serve(listener) }()
	t.Cleanup(s.Stop)
	got, err := ask()
	want := hostfacts.Given{
		Resources: map[string]string{"0000:01:10.0": "intel.com/vfs", "0000:01:10.2": "intel.com/vfs"},
		Pods:      map[string]string{"0000:01:10.2": "shop/server-1"}, CPUs: []int64{2, 3},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}
