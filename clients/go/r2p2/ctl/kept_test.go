// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ctl

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/config"
)

// keyFile is key 1 of a folder.
func keyFile(t *testing.T, dir, digits string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "1"), []byte(strings.Repeat(digits, 16)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// What comes into force is kept once; what is refused, or in force already, is not. Another key under the same number is a
// change, although the text is the same.
func TestConfigurationIsKeptWhenItChanges(t *testing.T) {
	dir := t.TempDir()
	f := start(t, dir)
	d := &service{server: f.server, options: f.options}
	doc, err := config.Parse([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, key               string
		refused, unchanged, was bool
	}{
		{"without its key", "", true, false, false}, {"with it", "ab", false, false, true},
		{"again", "ab", false, true, false}, {"with another key", "cd", false, false, true},
	} {
		if c.key != "" {
			keyFile(t, dir, c.key)
		}
		unchanged, err := d.Apply(doc, []byte(document), config.Hash([]byte(document)))
		if (err != nil) != c.refused || unchanged != c.unchanged {
			t.Errorf("%s: unchanged %v, %v", c.name, unchanged, err)
		}
		text, err := os.ReadFile(d.options.Cache)
		if was := err == nil; was != c.was || was && string(text) != document {
			t.Errorf("%s: kept %v (%q)", c.name, was, text)
		}
		if err := os.Remove(d.options.Cache); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	changed := strings.Replace(document, `"workerQueueDepth":3`, `"workerQueueDepth":4`, 1)
	if doc, err = config.Parse([]byte(changed)); err != nil {
		t.Fatal(err)
	}
	if unchanged, err := d.Apply(doc, []byte(changed), config.Hash([]byte(changed))); err != nil || unchanged {
		t.Errorf("another document with the same key: unchanged %v, %v", unchanged, err)
	}
}

// Where nothing can be kept, or what was kept cannot be read, somebody is told, and the server works.
func TestConfigurationThatCannotBeKept(t *testing.T) {
	dir := t.TempDir()
	keyFile(t, dir, "ab")
	f := start(t, dir)
	doc, _ := config.Parse([]byte(document))
	for cache, warns := range map[string]bool{"": false, filepath.Join(dir, "none", "cache"): true, filepath.Join(dir, "cache"): false} {
		var log bytes.Buffer
		d := &service{server: f.server, options: f.options}
		d.options.Cache, d.options.Log = cache, slog.New(slog.NewTextHandler(&log, nil))
		if unchanged, err := d.Apply(doc, []byte(document), cache); err != nil || unchanged {
			t.Errorf("%q: unchanged %v, %v", cache, unchanged, err)
		}
		if (log.Len() > 0) != warns {
			t.Errorf("%q: said %q", cache, log.String())
		}
	}
	for text, warns := range map[string]bool{"{": true, document: false} {
		var log bytes.Buffer
		o := f.options
		o.Socket, o.Cache, o.Log = filepath.Join(t.TempDir(), "ctl.sock"), filepath.Join(t.TempDir(), "cache"), slog.New(slog.NewTextHandler(&log, nil))
		if err := os.WriteFile(o.Cache, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := Serve(f.server, o)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if (log.Len() > 0) != warns {
			t.Errorf("%.10q was kept: said %q", text, log.String())
		}
	}
}

// A pod of an RpcService names its places in its environment; what a program says goes before.
func TestOptionsOfAPod(t *testing.T) {
	if o := (Options{}).withDefaults(); o.Socket != DefaultSocket || o.KeyDir != DefaultKeyDir || o.Cache != "" || o.Version != "devel" || o.Log != slog.Default() {
		t.Errorf("%+v", o)
	}
	t.Setenv("BOBTAIL_CTL", "/a")
	t.Setenv("BOBTAIL_KEY_DIR", "/b")
	t.Setenv("BOBTAIL_CONFIG_CACHE", "/c")
	if o := (Options{}).withDefaults(); o.Socket != "/a" || o.KeyDir != "/b" || o.Cache != "/c" {
		t.Errorf("%+v", o)
	}
	own := Options{Socket: "1", KeyDir: "2", Cache: "3", Version: "4", Log: slog.New(slog.DiscardHandler)}
	if o := own.withDefaults(); o != own {
		t.Errorf("%+v", o)
	}
}
