// SPDX-License-Identifier: Apache-2.0

package networks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/bobtail-dev/bobtail/e2e/cluster/apiclient"
)

// Type is the plugin's name in CNI configurations, and its file's.
const Type = "bobtail-networks"

// timeout of one call: the API server may be gone, a machine may be emulated, and a kubelet tries again after two minutes.
const timeout = 100 * time.Second

// cniVersion of a definition that says none.
const cniVersion = "1.0.0"

// Config is the plugin's part of the node's CNI configuration.
type Config struct {
	types.PluginConf
	Server string `json:"server"` // URL of the API server
	CA     string `json:"ca"`     // files
	Cert   string `json:"cert"`
	Key    string `json:"key"`
}

// Main is the plugin's program: CNI gives it everything in environment and input.
func Main() {
	skel.PluginMainFuncs(skel.CNIFuncs{Add: add, Del: del}, version.PluginSupports("0.4.0", "1.0.0"),
		Type+": further interfaces of pods in the embedded cluster, by the annotation "+Annotation)
}

// add makes the pod's further interfaces. Its own result is that of the plugins
// before it: to Kubernetes a pod has the addresses of its first network.
func add(args *skel.CmdArgs) error {
	conf, err := read(args)
	if err != nil {
		return err
	}
	if conf.PrevResult == nil {
		return errors.New(Type + " makes further interfaces only: it must come after another plugin")
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	p, err := podOf(args)
	if err != nil {
		return err
	}
	attachments, err := wanted(ctx, conf, p)
	if err != nil {
		return err
	}
	if len(attachments) > 0 { // noted first: what fails half way is removed, too
		if err := remember(args.ContainerID, attachments); err != nil {
			return err
		}
	}
	status := []Status{ofFirst(conf, args.IfName)}
	for _, a := range attachments {
		result, err := a.make(ctx, args)
		if err != nil {
			return err
		}
		one, err := statusOf(a, result)
		if err != nil {
			return err
		}
		status = append(status, one)
	}
	if len(attachments) > 0 {
		if err := tell(ctx, conf, p, status); err != nil {
			return err
		}
	}
	return types.PrintResult(conf.PrevResult, conf.CNIVersion)
}

// del removes them, the last first. It must succeed when there is nothing.
func del(args *skel.CmdArgs) error {
	attachments, err := remembered(args.ContainerID)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var failed error
	for _, a := range slices.Backward(attachments) {
		failed = errors.Join(failed, a.remove(ctx, args))
	}
	if failed != nil {
		return failed
	}
	return forget(args.ContainerID)
}

func read(args *skel.CmdArgs) (*Config, error) {
	var conf Config
	if err := json.Unmarshal(args.StdinData, &conf); err != nil {
		return nil, fmt.Errorf("configuration of %s: %w", Type, err)
	}
	return &conf, version.ParsePrevResult(&conf.PluginConf)
}

// pod is whose sandbox this is, from CNI_ARGS, whose names its fields have to have.
type pod struct {
	types.CommonArgs
	K8S_POD_NAMESPACE types.UnmarshallableString
	K8S_POD_NAME      types.UnmarshallableString
	K8S_POD_UID       types.UnmarshallableString
}

func podOf(args *skel.CmdArgs) (pod, error) {
	p := pod{CommonArgs: types.CommonArgs{IgnoreUnknown: true}}
	return p, types.LoadArgs(args.Args, &p)
}

// wanted asks the API server what the pod's annotation says and what the definitions it
// names are, and the kubelet's notes which devices the pod got.
func wanted(ctx context.Context, conf *Config, p pod) ([]Attachment, error) {
	if p.K8S_POD_NAME == "" {
		return nil, nil // not a pod
	}
	api, err := client(conf)
	if err != nil {
		return nil, err
	}
	annotations, err := api.PodAnnotations(ctx, string(p.K8S_POD_NAMESPACE), string(p.K8S_POD_NAME))
	if err != nil {
		return nil, err
	}
	requests, err := Parse(annotations[Annotation], string(p.K8S_POD_NAMESPACE))
	if err != nil {
		return nil, err
	}
	given := devices{uid: string(p.K8S_POD_UID), claimed: func() (map[string][]string, error) {
		return api.ClaimedDevices(ctx, string(p.K8S_POD_NAMESPACE), string(p.K8S_POD_NAME))
	}}
	var attachments []Attachment
	for _, r := range requests {
		text, resource, err := api.NetworkConfig(ctx, r.Namespace, r.Name)
		if err != nil {
			return nil, err
		}
		device, err := given.next(resource)
		if err != nil {
			return nil, fmt.Errorf("network %s/%s: %w", r.Namespace, r.Name, err)
		}
		a, err := attach(r, text, device)
		if err != nil {
			return nil, err
		}
		attachments = append(attachments, a)
	}
	return attachments, nil
}

func client(conf *Config) (*apiclient.Client, error) {
	var pem [3][]byte
	for i, path := range []string{conf.CA, conf.Cert, conf.Key} {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		pem[i] = b
	}
	return apiclient.New(strings.TrimSuffix(conf.Server, "/"), pem[0], pem[1], pem[2])
}
