// SPDX-License-Identifier: Apache-2.0

// Package ociimage packs static binaries into an OCI image archive. It serves
// the images that a cluster needs before any image build could run: the pod
// sandbox and the cluster DNS. The product's own images come from the
// Dockerfile.
package ociimage

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Image is what an archive is made of.
type Image struct {
	Name       string // full reference with tag
	Entrypoint []string
	Files      map[string]string // path in the image to path here
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func describe(mediaType string, b []byte) descriptor {
	return descriptor{MediaType: mediaType, Digest: digest(b), Size: len(b)}
}

// Write creates the archive; the same input gives the same bytes.
func (im Image) Write(path string) error {
	layer, err := im.layer()
	if err != nil {
		return fmt.Errorf("image %s: %w", im.Name, err)
	}
	var packed bytes.Buffer
	z, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed) // the level is a valid constant
	if _, err := z.Write(layer); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	config, err := im.config(digest(layer))
	if err != nil {
		return err
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": describe("application/vnd.oci.image.config.v1+json", config),
		"layers": []descriptor{describe("application/vnd.oci.image.layer.v1.tar+gzip", packed.Bytes())},
	})
	if err != nil {
		return err
	}
	return im.archive(path, manifest, config, packed.Bytes())
}

func (im Image) config(diffID string) ([]byte, error) {
	return json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": im.Entrypoint, "Env": []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin:/"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{diffID}},
	})
}

func (im Image) archive(path string, manifest, config, layer []byte) error {
	m := describe("application/vnd.oci.image.manifest.v1+json", manifest)
	m.Annotations = map[string]string{"io.containerd.image.name": im.Name, "org.opencontainers.image.ref.name": im.Name}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []descriptor{m}})
	if err != nil {
		return err
	}
	var out bytes.Buffer
	t := tar.NewWriter(&out)
	put(t, "oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`))
	put(t, "index.json", 0o644, index)
	for _, b := range [][]byte{manifest, config, layer} {
		put(t, "blobs/sha256/"+strings.TrimPrefix(digest(b), "sha256:"), 0o644, b)
	}
	if err := t.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}

// put cannot fail on a memory buffer but by a bug, which Close reports.
func put(t *tar.Writer, name string, mode int64, b []byte) {
	_ = t.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(b)), Typeflag: tar.TypeReg})
	_, _ = t.Write(b)
}

func (im Image) layer() ([]byte, error) {
	var out bytes.Buffer
	t := tar.NewWriter(&out)
	_ = t.WriteHeader(&tar.Header{Name: "tmp/", Mode: 0o1777, Typeflag: tar.TypeDir})
	for _, dst := range slices.Sorted(maps.Keys(im.Files)) {
		b, err := os.ReadFile(im.Files[dst])
		if err != nil {
			return nil, err
		}
		put(t, strings.TrimPrefix(filepath.Clean(dst), "/"), 0o755, b)
	}
	return out.Bytes(), t.Close()
}
