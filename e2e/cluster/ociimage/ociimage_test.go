// SPDX-License-Identifier: Apache-2.0

package ociimage

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func sample(t *testing.T, content string) (Image, string) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
	im := Image{Name: "localhost/x/y:1", Entrypoint: []string{"/p"}, Files: map[string]string{"/p": program, "/bin/q": program}}
	out := filepath.Join(dir, "out.tar")
	if err := im.Write(out); err != nil {
		t.Fatal(err)
	}
	return im, out
}

func TestEveryBlobIsNamedByItsDigest(t *testing.T) {
	_, out := sample(t, "x")
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	blobs := 0
	for r := tar.NewReader(bytes.NewReader(b)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name, isBlob := strings.CutPrefix(h.Name, "blobs/sha256/")
		content, _ := io.ReadAll(r)
		if isBlob {
			blobs++
			if digest(content) != "sha256:"+name {
				t.Errorf("blob %s holds content of %s", name, digest(content))
			}
		}
	}
	if blobs != 3 {
		t.Errorf("%d blobs, want manifest, configuration and one layer", blobs)
	}
}

func TestDigestsNameTheContent(t *testing.T) {
	_, a := sample(t, "one")
	_, same := sample(t, "one")
	_, other := sample(t, "two")
	da, err := Digests(a)
	if err != nil || !strings.HasPrefix(da, "localhost/x/y:1=sha256:") {
		t.Fatalf("%q, %v", da, err)
	}
	if d, _ := Digests(same); d != da {
		t.Errorf("same content, other digest: %s and %s", da, d)
	}
	if d, _ := Digests(other); d == da {
		t.Error("other content, same digest")
	}
	if d, err := Digests(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Errorf("a missing file gave %q", d)
	}
}

func TestMissingFileIsNamed(t *testing.T) {
	im := Image{Name: "n:1", Files: map[string]string{"/p": "/does/not/exist"}}
	err := im.Write(filepath.Join(t.TempDir(), "o.tar"))
	if err == nil || !strings.Contains(err.Error(), "/does/not/exist") {
		t.Errorf("got %v", err)
	}
}
