// SPDX-License-Identifier: Apache-2.0

// Command bobtail-dra is the embedded cluster's DRA kubelet plugin, a test part: it runs on a
// node, as the node's user, and hands out the devices of its command line.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/bobtail-dev/bobtail/e2e/cluster/draplugin"
)

func main() {
	p := draplugin.Plugin{CDI: draplugin.CDIFolder, Groups: draplugin.PCIDevices}
	kubeconfig := flag.String("kubeconfig", "", "the node's kubeconfig")
	flag.StringVar(&p.Driver, "driver", "", "name of the driver, a DNS name")
	flag.StringVar(&p.Node, "node", "", "name of the node")
	flag.StringVar(&p.Resource, "resource", "", "resource, as definitions of networks name it")
	flag.Parse()
	p.Data = filepath.Join(kubeletplugin.KubeletPluginsDir, p.Driver)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, &p, *kubeconfig, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "bobtail-dra:", err)
		os.Exit(1)
	}
}

// run takes devices as PCI addresses, or as ADDRESS=TOLD where the metadata are to tell another one.
func run(ctx context.Context, p *draplugin.Plugin, kubeconfig string, ids []string) error {
	for i, id := range ids {
		id, told, differs := strings.Cut(id, "=")
		if !differs {
			told = id
		}
		p.Devices = append(p.Devices, draplugin.Device{Name: fmt.Sprintf("function-%d", i), ID: id, Told: told})
	}
	if p.Driver == "" || p.Node == "" || len(p.Devices) == 0 {
		return fmt.Errorf("needs --driver, --node and at least one PCI address")
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return p.Serve(ctx, client)
}
