// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// volumeClass is the cluster's default class while a Volumes runs.
const volumeClass = "bobtail-e2e-folders"

// Volumes gives claims folders of this machine, which every node sees, as a network's disks are seen by every node of a
// cloud. They belong to root and are given to pods by their fsGroup, as real disks are. The embedded cluster has no
// provisioner of its own.
type Volumes struct {
	env  *Env
	dir  string
	stop context.CancelFunc
	over sync.WaitGroup
}

// StartVolumes makes the class, and from now on a volume for each claim of it. A volume whose claim is gone goes with
// its folder.
func (e *Env) StartVolumes(ctx context.Context) (*Volumes, error) {
	dir, err := os.MkdirTemp(filepath.Join(e.Root, "build"), "volumes-")
	if err != nil {
		return nil, err
	}
	v := &Volumes{env: e, dir: dir}
	err = e.Apply(ctx, `{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: `+volumeClass+
		`, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}, provisioner: e2e.bobtail.dev/folders, reclaimPolicy: Retain, volumeBindingMode: Immediate}`)
	if err != nil {
		return nil, err
	}
	ctx, v.stop = context.WithCancel(ctx)
	v.over.Go(func() { v.run(ctx) })
	return v, nil
}

// Left are the folders that are still there.
func (v *Volumes) Left() ([]string, error) {
	return filepath.Glob(filepath.Join(v.dir, "*"))
}

// Close ends it and takes the class and all folders away.
func (v *Volumes) Close(ctx context.Context) error {
	v.stop()
	v.over.Wait()
	_, err := v.env.Kubectl(ctx, "delete", "storageclass", volumeClass, "--ignore-not-found")
	return errors.Join(err, os.RemoveAll(v.dir))
}

func (v *Volumes) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := errors.Join(v.provide(ctx), v.reclaim(ctx)); err != nil && ctx.Err() == nil {
			fmt.Fprintf(v.env.Log, "volumes: %v\n", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(250 * time.Millisecond):
		}
	}
}

type volumeItem struct {
	Metadata struct{ Name, Namespace, UID, DeletionTimestamp string }
	Spec     struct {
		StorageClassName, VolumeName string
		Resources                    struct{ Requests map[string]string }
	}
	Status struct{ Phase string }
}

func (v *Volumes) list(ctx context.Context, path string) ([]volumeItem, error) {
	raw, err := v.env.ask(ctx, path)
	if err != nil {
		return nil, err
	}
	var list struct{ Items []volumeItem }
	return list.Items, json.Unmarshal(raw, &list)
}

// provide makes a volume for each claim that waits for one.
func (v *Volumes) provide(ctx context.Context) error {
	claims, err := v.list(ctx, "/api/v1/persistentvolumeclaims")
	for _, c := range claims {
		name := "folder-" + c.Metadata.UID
		folder := filepath.Join(v.dir, name)
		if _, there := os.Stat(folder); there == nil || c.Spec.StorageClassName != volumeClass || c.Status.Phase != "Pending" || c.Metadata.DeletionTimestamp != "" {
			continue
		}
		if err := os.Mkdir(folder, 0o755); err != nil {
			return err
		}
		err = errors.Join(err, v.env.Apply(ctx, fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolume, metadata: {name: %s},
  spec: {capacity: {storage: %s}, accessModes: [ReadWriteOnce, ReadWriteMany], persistentVolumeReclaimPolicy: Retain, storageClassName: %s,
    claimRef: {apiVersion: v1, kind: PersistentVolumeClaim, namespace: %s, name: %s, uid: %s}, local: {path: %q},
    nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/os, operator: In, values: [linux]}]}]}}}}`,
			name, c.Spec.Resources.Requests["storage"], volumeClass, c.Metadata.Namespace, c.Metadata.Name, c.Metadata.UID, folder)))
	}
	return err
}

// reclaim removes volumes whose claims are gone.
func (v *Volumes) reclaim(ctx context.Context) error {
	volumes, err := v.list(ctx, "/api/v1/persistentvolumes")
	for _, o := range volumes {
		if o.Spec.StorageClassName != volumeClass || o.Status.Phase != "Released" || !strings.HasPrefix(o.Metadata.Name, "folder-") {
			continue
		}
		_, gone := v.env.Kubectl(ctx, "delete", "pv", o.Metadata.Name, "--ignore-not-found", "--wait=false")
		err = errors.Join(err, gone, os.RemoveAll(filepath.Join(v.dir, o.Metadata.Name)))
	}
	return err
}
