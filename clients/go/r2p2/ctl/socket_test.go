// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ctl

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/config"
)

// Whatever is wrong with a request, the answer says which field and how.
func TestRefusals(t *testing.T) {
	f := start(t, t.TempDir())
	for _, c := range []struct{ request, code, field string }{
		{`{"v":1,`, CodeInvalidRequest, ""},
		{`{"v":2,"op":"hello"}`, CodeUnsupportedVersion, "v"},
		{`{"v":1,"op":"dance"}`, CodeUnknownOperation, "op"},
		{`{"v":1,"op":"` + strings.Repeat("x", MaxInline-len(`{"v":1,"op":""}`)) + `"}`, CodeUnknownOperation, "op"},
		{`{"v":1,"op":"apply"}`, CodeInvalidRequest, "config"},
		{`{"v":1,"op":"apply","hash":"0","config":{}}`, CodeHashMismatch, "hash"},
		{apply(`{}`), CodeInvalidConfig, "apiVersion"},
		{`{"v":1,"op":"apply","memfd":true,"size":5}`, CodeInvalidRequest, "memfd"},
		{`{"v":1,"op":"histogram","name":"latency","windowSeconds":0}`, CodeInvalidRequest, "windowSeconds"},
		{fmt.Sprintf(`{"v":1,"op":"histogram","name":"latency","windowSeconds":%d}`, MaxWindowSeconds+1), CodeInvalidRequest, "windowSeconds"},
		{`{"v":1,"op":"histogram","name":"latency","windowSeconds":1,"parts":-1}`, CodeInvalidRequest, "parts"},
		{fmt.Sprintf(`{"v":1,"op":"histogram","name":"latency","windowSeconds":1,"parts":%d}`, MaxParts+1), CodeInvalidRequest, "parts"},
		{`{"v":1,"op":"histogram","name":"none","windowSeconds":1}`, CodeUnknownHistogram, "name"},
		{`{"v":1,"op":"` + strings.Repeat("x", MaxInline+4096) + `"}`, CodeInvalidRequest, ""},
	} {
		var r Reply
		f.ask(t, c.request, &r)
		if r.OK || r.Error == nil || r.V != Version || r.Error.Code != c.code || r.Error.Field != c.field {
			t.Errorf("%.60s: %+v %+v, want %s of %q", c.request, r, r.Error, c.code, c.field)
		}
	}
	for _, seconds := range []int{1, MaxWindowSeconds} {
		var h Histogram
		f.ask(t, fmt.Sprintf(`{"v":1,"op":"histogram","name":"latency","windowSeconds":%d}`, seconds), &h)
		if !h.OK {
			t.Errorf("%d seconds: %+v", seconds, h.Error)
		}
	}
}

func TestErrorText(t *testing.T) {
	for want, e := range map[string]*Error{
		"InvalidRequest: v: is old": {CodeInvalidRequest, "v", "is old"}, "Internal: is full": {CodeInternal, "", "is full"},
	} {
		if e.Error() != want {
			t.Errorf("%q, want %q", e.Error(), want)
		}
	}
	if e := asError(errors.New("is full")); e.Code != CodeInternal || e.Message != "is full" {
		t.Errorf("%+v", e)
	}
}

// memfd makes a file in memory that holds a text and has seals.
func memfd(t *testing.T, text string, seals uintptr) *os.File {
	t.Helper()
	number, ok := map[string]uintptr{"amd64": 319, "arm64": 279}[runtime.GOARCH]
	if !ok {
		t.Skip("memfd_create has another number here")
	}
	name := [...]byte{'c', 0}
	fd, _, errno := syscall.Syscall(number, uintptr(unsafe.Pointer(&name[0])), 2 /* MFD_ALLOW_SEALING */, 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	f := os.NewFile(fd, "memfd")
	t.Cleanup(func() { f.Close() })
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, 1033 /* F_ADD_SEALS */, seals); errno != 0 {
		t.Fatal(errno)
	}
	return f
}

// A configuration by memfd is taken when nobody can change it any more, and
// when it is as long as was said.
func TestConfigurationByMemfd(t *testing.T) {
	f := start(t, t.TempDir())
	send := func(file *os.File, size int) Applied {
		t.Helper()
		request := fmt.Sprintf(`{"v":1,"op":"apply","memfd":true,"size":%d,"hash":"%s"}`, size, config.Hash([]byte(document)))
		if _, _, err := f.conn.(*net.UnixConn).WriteMsgUnix([]byte(request), syscall.UnixRights(int(file.Fd())), nil); err != nil {
			t.Fatal(err)
		}
		var a Applied
		f.ask(t, `{"v":1,"op":"hello"}`, &a) // the answer to the first comes first
		var hello Hello
		f.read(t, &hello)
		return a
	}
	whole := memfd(t, document, sealsNeeded)
	for _, missing := range []uintptr{sealShrink, sealGrow, sealWrite} {
		if a := send(memfd(t, document, sealsNeeded&^missing), len(document)); a.Error == nil || a.Error.Field != "memfd" {
			t.Errorf("without seal %d: %+v", missing, a)
		}
	}
	for _, size := range []int{0, -1, len(document) + 1, MaxConfig + 1} {
		if a := send(whole, size); a.Error == nil || a.Error.Field != "size" || a.Error.Code != CodeInvalidRequest {
			t.Errorf("size %d: %+v", size, a)
		}
	}
	for _, size := range []int{1, MaxConfig} { // which are read, and are none of that hash
		if a := send(memfd(t, strings.Repeat(" ", size), sealsNeeded), size); a.Error == nil || a.Error.Code != CodeHashMismatch {
			t.Errorf("size %d: %+v %+v", size, a, a.Error)
		}
	}
	if a := send(whole, len(document)); a.Error == nil || a.Error.Field != "keyIds[0]" {
		t.Errorf("%+v %+v, want the document to be judged", a, a.Error)
	}
}

// A socket belongs to one process; what a dead one left is replaced.
func TestSocketFile(t *testing.T) {
	f := start(t, t.TempDir())
	if info, err := os.Stat(f.options.Socket); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := Listen(f.options.Socket, nil); err == nil || !strings.Contains(err.Error(), "another process listens") {
		t.Errorf("%v", err)
	}
	stale := filepath.Join(t.TempDir(), "ctl.sock")
	dead, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: stale, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	l, err := Listen(stale, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(stale); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after Close: %v", err)
	}
}
