// SPDX-License-Identifier: Apache-2.0

package networks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
)

// Attachment is one further interface as it was made, so that it can be removed
// when pod and definition are gone.
type Attachment struct {
	Request Request         `json:"request"`
	Type    string          `json:"type"`             // of the plugin
	Config  json.RawMessage `json:"config"`           // with name and version
	Device  string          `json:"device,omitempty"` // of the definition's resource, by its ID
}

// attach completes a definition's configuration by what CNI wants and definitions may leave
// out, and by the device that its plugin is to take; empty: none.
func attach(r Request, definition, device string) (Attachment, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(definition), &fields); err != nil {
		return Attachment{}, fmt.Errorf("NetworkAttachmentDefinition %s/%s: spec.config is no JSON object: %w", r.Namespace, r.Name, err)
	}
	var kind string
	if err := json.Unmarshal(fields["type"], &kind); err != nil || kind == "" || kind != filepath.Base(kind) {
		return Attachment{}, fmt.Errorf("NetworkAttachmentDefinition %s/%s: spec.config needs the type of one CNI plugin", r.Namespace, r.Name)
	}
	for key, value := range map[string]string{"name": r.Name, "cniVersion": cniVersion} {
		if _, ok := fields[key]; !ok {
			fields[key], _ = json.Marshal(value)
		}
	}
	if device != "" {
		fields["deviceID"], _ = json.Marshal(device)
	}
	config, err := json.Marshal(fields)
	return Attachment{Request: r, Type: kind, Config: config, Device: device}, err
}

// make has the attachment's plugin, the first of its name in CNI's folders, make the interface.
func (a Attachment) make(ctx context.Context, args *skel.CmdArgs) (types.Result, error) {
	plugin, err := invoke.FindInPath(a.Type, filepath.SplitList(args.Path))
	if err != nil {
		return nil, a.told(err)
	}
	result, err := invoke.ExecPluginWithResult(ctx, plugin, a.Config, a.arguments(args, "ADD"), nil)
	return result, a.told(err)
}

// remove is right for an interface that was never made, too, as CNI wants of every plugin.
func (a Attachment) remove(ctx context.Context, args *skel.CmdArgs) error {
	plugin, err := invoke.FindInPath(a.Type, filepath.SplitList(args.Path))
	if err == nil {
		err = invoke.ExecPluginWithoutResult(ctx, plugin, a.Config, a.arguments(args, "DEL"), nil)
	}
	return a.told(err)
}

func (a Attachment) told(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("network %s/%s: %w", a.Request.Namespace, a.Request.Name, err)
}

func (a Attachment) arguments(args *skel.CmdArgs, command string) *invoke.Args {
	return &invoke.Args{
		Command: command, ContainerID: args.ContainerID, NetNS: args.Netns, PluginArgsStr: args.Args,
		IfName: a.Request.Interface, Path: args.Path,
	}
}

// memory is where a node notes what it made, one file per sandbox.
var memory = "/var/lib/cni/" + Type

func remember(container string, attachments []Attachment) error {
	if err := os.MkdirAll(memory, 0o700); err != nil {
		return err
	}
	b, err := json.Marshal(attachments)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(memory, container+".json"), b, 0o600)
}

func remembered(container string) ([]Attachment, error) {
	b, err := os.ReadFile(filepath.Join(memory, container+".json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var attachments []Attachment
	return attachments, json.Unmarshal(b, &attachments)
}

func forget(container string) error {
	err := os.Remove(filepath.Join(memory, container+".json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
