// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/replica"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

func TestCommandsAreWritten(t *testing.T) {
	got := string(AppendCommand(AppendCommand(nil, "SET", "a", ""), "GET", "å"))
	want := "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$0\r\n\r\n*2\r\n$3\r\nGET\r\n$2\r\nå\r\n"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAnswersAreRead(t *testing.T) {
	got, err := Parse([]byte("+OK\r\n-ERR no\r\n:-12\r\n$2\r\n\r\n\r\n$-1\r\n*2\r\n:1\r\n*1\r\n$1\r\na\r\n*0\r\n*-1\r\n"))
	want := []Value{
		{Kind: Status, Text: "OK"}, {Kind: Failed, Text: "ERR no"}, {Kind: Integer, Int: -12}, {Kind: Bulk, Text: "\r\n"}, {Kind: Bulk, Null: true},
		{Kind: Array, Items: []Value{{Kind: Integer, Int: 1}, {Kind: Array, Items: []Value{{Kind: Bulk, Text: "a"}}}}}, {Kind: Array}, {Kind: Array, Null: true},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v %v", got, err)
	}
	for _, good := range []string{"+a\nb\rc\r\n", ":-9223372036854775808\r\n", strings.Repeat("*1\r\n", deepest) + ":1\r\n"} {
		if v, err := Parse([]byte(good)); err != nil || len(v) != 1 {
			t.Errorf("%q: %+v %v", good, v, err)
		}
	}
	for _, bad := range []string{"+OK\r", "$2\r\n", "$2\r\nab", "$2\r\nab\r", "$2\r\nab\rc", "$2\r\nabc\n", "*x\r\n", "*-2\r\n", strings.Repeat("*1\r\n", deepest+1) + ":1\r\n", "x", "+OK", "$3\r\nab\r\n", "$2\r\nabc\r\n", "$-2\r\n", "*2\r\n:1\r\n", ":1x\r\n", "*99\r\n", ":123456789012345678901\r\n", strings.Repeat("*1\r\n", 20) + ":1\r\n"} {
		if v, err := Parse([]byte(bad)); !errors.Is(err, errAnswer) {
			t.Errorf("%q: %+v %v", bad, v, err)
		}
	}
}

// member answers every request as it is told.
func member(t *testing.T, say func(policy wire.Policy, body string) string) *Client {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 2048)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			var h wire.Header
			if h.Decode(buf[:n], wire.RoleServer) != wire.OK {
				continue
			}
			answer := wire.Header{Type: wire.Reply, First: true, Last: true, Ext: true, ReqID: h.ReqID, Count: 1}
			p, _ := answer.Append(nil)
			if h.Options.Session != 0 {
				p = append(p, 0) // done
			}
			if h.Options.Session != 0 && h.Options.Sequence == 0 { // a session is opened
				_, _ = conn.WriteToUDPAddrPort(binary.BigEndian.AppendUint64(p, 1), from)
				continue
			}
			_, _ = conn.WriteToUDPAddrPort(append(p, say(h.Policy, string(h.Payload))...), from)
		}
	}()
	c, err := Dial(t.Context(), replica.Config{Members: []string{conn.LocalAddr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); conn.Close(); <-done })
	return c
}

func TestAClientSaysWhatIsAWrite(t *testing.T) {
	c := member(t, func(policy wire.Policy, body string) string {
		if want := map[wire.Policy]string{wire.ReplicatedWrite: "SET", wire.ReplicatedRead: "GET"}[policy]; !strings.Contains(body, want) {
			return "-ERR policy\r\n"
		}
		return "$" + "1\r\n" + "v" + "\r\n"
	})
	for _, ask := range []func() (Value, error){
		func() (Value, error) { return c.Write(t.Context(), "SET", "a", "v") },
		func() (Value, error) { return c.Read(t.Context(), "GET", "a") },
	} {
		if v, err := ask(); err != nil || v.Text != "v" {
			t.Errorf("%+v %v", v, err)
		}
	}
	var e Error
	if _, err := c.Read(t.Context(), "SET", "a", "v"); !errors.As(err, &e) || string(e) != "ERR policy" {
		t.Errorf("%v", err)
	}
}

func TestSeveralCommandsHaveAsManyAnswers(t *testing.T) {
	var reply atomic.Value
	c := member(t, func(wire.Policy, string) string { return reply.Load().(string) })
	ask := func() ([]Value, error) {
		return c.WriteAll(context.Background(), Command{"INCR", "a"}, Command{"LPUSH", "a", "x"})
	}
	reply.Store(":1\r\n-WRONGTYPE\r\n")
	if all, err := ask(); err != nil || all[0].Int != 1 || all[1].Err() == nil {
		t.Errorf("%+v %v", all, err)
	}
	reply.Store("-ERR refused\r\n") // all of them
	var e Error
	if _, err := ask(); !errors.As(err, &e) {
		t.Errorf("%v", err)
	}
	for _, short := range []string{":1\r\n", ":1\r\n:2\r\n:3\r\n", ""} {
		reply.Store(short)
		if _, err := ask(); !errors.Is(err, errAnswer) {
			t.Errorf("%q: %v", short, err)
		}
	}
}

// Whatever a server says, it is read or refused, and what is read is within the answer.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"+OK\r\n", "*2\r\n$1\r\na\r\n:1\r\n", "$-1\r\n", "*1000000\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		all, err := Parse(p)
		if err != nil {
			return
		}
		var size func(v Value) int
		size = func(v Value) int {
			n := 1 + len(v.Text)
			for _, item := range v.Items {
				n += size(item)
			}
			return n
		}
		total := 0
		for _, v := range all {
			total += size(v)
		}
		if total > len(p) {
			t.Errorf("%d bytes are read as %d", len(p), total)
		}
	})
}
