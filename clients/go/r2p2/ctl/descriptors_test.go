// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ctl

import (
	"encoding/json"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// K-19: who sends more descriptors than are received is told so, not that the
// message was too long.
func TestDescriptorsThatCome(t *testing.T) {
	f := start(t, t.TempDir())
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	request := []byte(`{"v":1,"op":"apply","hash":"","memfd":true,"size":1}`)
	for n, want := range map[int]string{0: "got 0", 2: "got 2", 4: "got 4", 5: "got more than 4", 8: "got more than 4"} {
		var oob []byte
		if n > 0 {
			oob = syscall.UnixRights(slices.Repeat([]int{int(file.Fd())}, n)...)
		}
		if _, _, err := f.conn.(*net.UnixConn).WriteMsgUnix(request, oob, nil); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 4096)
		got, err := f.conn.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		var r Reply
		if err := json.Unmarshal(buf[:got], &r); err != nil {
			t.Fatal(err)
		}
		if r.OK || r.Error == nil || r.Error.Field != "memfd" || !strings.HasSuffix(r.Error.Message, want) {
			t.Errorf("%d descriptors: %+v, want %q", n, r.Error, want)
		}
	}
}
