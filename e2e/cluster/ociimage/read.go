// SPDX-License-Identifier: Apache-2.0

package ociimage

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Digests returns the manifest digests of an OCI archive, which name its whole
// content, without reading the layers' bytes. A Docker archive has none.
func Digests(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	for t := tar.NewReader(f); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return "", nil
		}
		if err != nil {
			return "", fmt.Errorf("%s is not a tar archive: %w", path, err)
		}
		if strings.TrimPrefix(h.Name, "./") != "index.json" {
			continue
		}
		var index struct {
			Manifests []descriptor `json:"manifests"`
		}
		if err := json.NewDecoder(t).Decode(&index); err != nil {
			return "", fmt.Errorf("%s: index.json: %w", path, err)
		}
		var all []string
		for _, m := range index.Manifests {
			all = append(all, m.Annotations["org.opencontainers.image.ref.name"]+"="+m.Digest)
		}
		return strings.Join(all, " "), nil
	}
}
