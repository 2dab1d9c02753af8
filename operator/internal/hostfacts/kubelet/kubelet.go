// SPDX-License-Identifier: Apache-2.0

// Package kubelet asks a node's kubelet which devices it has and whom it gave them to, by
// its documented API for that (podresources v1).
package kubelet

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/bobtail-dev/bobtail/operator/internal/hostfacts"
)

// patience with one kubelet, which may be starting again.
const patience = 5 * time.Second

// mostBytes of one answer: a node has some hundred pods.
const mostBytes = 16 << 20

// Ask connects anew each time: a kubelet that started again has another socket.
func Ask(socket string) func() (hostfacts.Given, error) {
	return func() (hostfacts.Given, error) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(mostBytes)))
		if err != nil {
			return hostfacts.Given{}, fmt.Errorf("kubelet's socket %s: %w", socket, err)
		}
		defer func() { _ = connection.Close() }()
		return ask(ctx, podresources.NewPodResourcesListerClient(connection))
	}
}

func ask(ctx context.Context, client podresources.PodResourcesListerClient) (hostfacts.Given, error) {
	given := hostfacts.Given{Resources: map[string]string{}, Pods: map[string]string{}}
	all, err := client.GetAllocatableResources(ctx, &podresources.AllocatableResourcesRequest{})
	if err != nil {
		return given, fmt.Errorf("ask the kubelet what it has: %w", err)
	}
	given.CPUs = all.GetCpuIds()
	for _, d := range all.GetDevices() {
		for _, id := range d.GetDeviceIds() {
			given.Resources[id] = d.GetResourceName()
		}
	}
	pods, err := client.List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return given, fmt.Errorf("ask the kubelet what it gave: %w", err)
	}
	for _, p := range pods.GetPodResources() {
		for _, c := range p.GetContainers() {
			for _, d := range c.GetDevices() {
				for _, id := range d.GetDeviceIds() {
					given.Resources[id], given.Pods[id] = d.GetResourceName(), p.GetNamespace()+"/"+p.GetName()
				}
			}
		}
	}
	return given, nil
}
