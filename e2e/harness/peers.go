// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"path/filepath"

	"github.com/bobtail-dev/bobtail/e2e/cluster/ociimage"
)

// LoadPeer brings a program of the tests, build/bin/<peer>, as an image into all nodes,
// and the images of components beside it.
func (e *Env) LoadPeer(ctx context.Context, peer, image string, components ...string) error {
	archive := filepath.Join(e.Root, "build", peer+".tar")
	made := ociimage.Image{Name: image, Entrypoint: []string{"/" + peer}, Files: map[string]string{"/" + peer: filepath.Join(e.Root, "build", "bin", peer)}}
	if err := made.Write(archive); err != nil {
		return err
	}
	args := []string{"load-image", archive}
	for _, c := range components {
		args = append(args, filepath.Join(e.Root, "build", "images", c+".tar"))
	}
	_, err := e.Cluster(ctx, args...)
	return err
}
