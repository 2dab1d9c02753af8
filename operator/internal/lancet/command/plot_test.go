// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/xml"
	"errors"
	"image"
	"image/color"
	"image/png"
	"io"
	"os"
	"strings"
	"testing"
)

// drawn reads a PNG back: 16 by 10 cm at 96 points to the inch, with axes and
// points in more than one colour on a ground that is mostly white.
func drawn(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	picture, err := png.Decode(f)
	if err != nil {
		t.Fatalf("%s is no PNG: %v", path, err)
	}
	size := picture.Bounds().Size()
	if size.X < 604 || size.X > 606 || size.Y < 377 || size.Y > 379 {
		t.Errorf("%v, want 605 by 378", size)
	}
	white := 0
	seen := map[color.RGBA]bool{}
	for y := range size.Y {
		for x := range size.X {
			c := at(picture, x, y)
			if c == (color.RGBA{255, 255, 255, 255}) {
				white++
			}
			seen[c] = true
		}
	}
	if colours := len(seen); colours < 3 || white < size.X*size.Y/2 || white > size.X*size.Y*99/100 {
		t.Errorf("%d colours, %d of %d points are white", colours, white, size.X*size.Y)
	}
}

func at(picture image.Image, x, y int) color.RGBA {
	return color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA)
}

// wellFormed reads an SVG back: one svg element that is closed, with a size and with
// paths and texts.
func wellFormed(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	elements, root := map[string]int{}, ""
	for decoder := xml.NewDecoder(f); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s is not well-formed: %v", path, err)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		elements[start.Name.Local]++
		if root == "" {
			root = start.Name.Local
			for _, a := range start.Attr {
				if a.Name.Local == "width" && !strings.HasPrefix(a.Value, "453.5") { // 16 cm in points
					t.Errorf("width %s", a.Value)
				}
			}
		}
	}
	if root != "svg" || elements["svg"] != 1 || elements["path"] < 3 || elements["text"] < 3 {
		t.Errorf("%s holds %v", root, elements)
	}
}
