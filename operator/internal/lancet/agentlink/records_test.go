// SPDX-License-Identifier: Apache-2.0

package agentlink

import (
	"bufio"
	"context"
	"io"
	"maps"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/lancet"
)

// Times of a request may be one and the same, and never go back; without a stamp, or with one that is not there, the time
// from its sending counts.
func TestTimesOfARecord(t *testing.T) {
	for name, c := range map[string]struct {
		r    record
		want lancet.Sample
		bad  bool
	}{
		"all at once":          {record{intended: 5, actual: 5, received: 5, stamped: absent}, lancet.Sample{Sent: 5}, false},
		"answered too early":   {record{intended: 5, actual: 6, received: 5, stamped: absent}, lancet.Sample{}, true},
		"sent too early":       {record{intended: 6, actual: 5, received: 9, stamped: absent}, lancet.Sample{}, true},
		"never answered":       {record{intended: 5, actual: 6, received: absent}, lancet.Sample{}, true},
		"stamped":              {record{intended: 1, actual: 2, received: 9, stamped: 4, stamps: 1}, lancet.Sample{Sent: 2, Latency: 8, Other: 4}, false},
		"a stamp of nobody":    {record{intended: 1, actual: 2, received: 9, stamped: 4}, lancet.Sample{Sent: 2, Latency: 8, Other: 7}, false},
		"stamps that are none": {record{intended: 1, actual: 2, received: 9, stamped: absent, stamps: 1}, lancet.Sample{Sent: 2, Latency: 8, Other: 7}, false},
		"failed":               {record{intended: 6, actual: 5, received: absent, outcome: 1}, lancet.Sample{Sent: 5, Failed: true}, false},
	} {
		if got, err := c.r.sample(lancet.Response); (err != nil) != c.bad || err == nil && got != c.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	raw := append(encoded([5]uint64{5, 5, 9, absent, absent}, 0, 0), encoded([5]uint64{6, 5, 9, absent, absent}, 0, 0)...)
	if late := lateness(append(raw, 1, 2, 3)); len(late) != 1 || late[0] != 0 {
		t.Errorf("late by %v: on time is not late, and before it is not known", late)
	}
	if _, _, err := decodeSamples(raw, lancet.Response); err == nil || !strings.HasPrefix(err.Error(), "sample 1: answered at 9 ns, sent at 5 ns, due at 6 ns") {
		t.Errorf("%v", err)
	}
}

// A cause that is not known to this program is counted as the last one that is; of a traced request it is left open. What is
// no whole record is none.
func TestCausesOfFailures(t *testing.T) {
	raw, untraced := []byte(nil), encoded([5]uint64{1, 2, absent, absent, absent}, 1, 0)
	for i := recordBytes - 8; i < recordBytes; i++ {
		untraced[i] = 0
	}
	raw = append(raw, untraced...)
	last := byte(len(outcomes) - 1)
	for _, outcome := range []byte{last, last + 1, 200, 1} {
		raw = append(raw, encoded([5]uint64{1, 2, absent, absent, absent}, outcome, 0)...)
	}
	raw = append(raw, encoded([5]uint64{1, 2, 3, absent, absent}, 2, 0)[:recordBytes-1]...)
	want := map[string]uint64{"refused": 6, "timeout": 4}
	if got := failures(raw, 0.5); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	got := ""
	for _, one := range decodeTraced(raw, time.Unix(0, 0)) {
		got += one.Failure + ";"
		if !one.Start.Equal(one.End) {
			t.Errorf("%+v ends later than it began", one)
		}
	}
	if got != "refused;;;timeout;" {
		t.Errorf("%q", got)
	}
	answered := decodeTraced(encoded([5]uint64{1, 2, 9, absent, absent}, 3, 0), time.Unix(0, 0))
	if len(answered) != 1 || answered[0].Failure != outcomes[3] || !answered[0].End.Equal(answered[0].Start) {
		t.Errorf("an answer that was an error is told as %+v", answered)
	}
}

// Samples without a stamp are doubted by their share, where stamps are to be expected.
func TestDoubtOfMissingStamps(t *testing.T) {
	l := &Link{Name: "a"}
	l.ready.Timestamps = "kernel"
	var m lancet.Measurement
	if err := l.decode(nil, &m, 6, 100); err != nil || len(m.Warnings) != 1 || !strings.HasPrefix(m.Warnings[0], "agent a: 6.0 % of the samples have no kernel stamp") {
		t.Errorf("%v, %v", m.Warnings, err)
	}
	l.tellTraced(encoded([5]uint64{1, 2, 3, absent, absent}, 0, 0), window{}) // nobody listens
	told := 0
	l.OnTraced = func(Traced) { told++ }
	if l.tellTraced(encoded([5]uint64{1, 2, 3, absent, absent}, 0, 0), window{}); told != 1 {
		t.Errorf("%d are told", told)
	}
}

// A line may be as long as it may be; an answer says whether all is well, and else why not.
func TestLinesAndAnswers(t *testing.T) {
	for over, ok := range map[int]bool{0: true, 1: false} {
		line, err := readLine(bufio.NewReader(strings.NewReader(strings.Repeat("x", maxLine-1+over) + "\n")))
		if (err == nil) != ok || ok && len(line) != maxLine {
			t.Errorf("%d bytes beyond the longest: %d bytes, %v", over, len(line), err)
		}
	}
	for text, want := range map[string]string{
		`{"ok":true}`: "", `{}`: "is this a Lancet agent?", `x`: "is this a Lancet agent?", `{"ok":1}`: "is this a Lancet agent?", `{"ok":false}`: "refused without a reason",
		`{"ok":false,"error":{"code":"Busy","message":"why"}}`: "why", `{"ok":true,"complete":3}`: "answer: ",
	} {
		if err := decodeAnswer([]byte(text), &window{}); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	last := &tail{}
	for _, text := range []string{strings.Repeat("a", tailBytes), "bc", strings.Repeat("d", tailBytes-2)} {
		if n, err := last.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("%d of %d bytes, %v", n, len(text), err)
		}
	}
	if got := last.String(); got != "bc"+strings.Repeat("d", tailBytes-2) {
		t.Errorf("%d bytes are kept, from %.4q on", len(got), got)
	}
}

// An agent that is reached and is none is not asked again, however long one would wait for it; so is one whose lease is none.
func TestDialledOnce(t *testing.T) {
	for greets, says := range map[string]string{
		"HTTP/1.1 400 Bad Request\n": "is this a Lancet agent?",
		`{"ok":true,"contract":2,"authentication":"none","leaseSeconds":0}` + "\n":     "leaseSeconds: 0: must be between 1 and 86,400",
		`{"ok":true,"contract":2,"authentication":"none","leaseSeconds":86401}` + "\n": "leaseSeconds: 86401: must be",
		`{"ok":true,"contract":3,"agent":"x","version":"9"}` + "\n":                    "x 9 speaks contract 3, this program 2",
		`{"ok":true,"contract":2,"authentication":"none","leaseSeconds":86400}` + "\n": "",
	} {
		path := filepath.Join(t.TempDir(), "s")
		listener, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		var dialled atomic.Int32
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for {
				c, err := listener.Accept()
				if err != nil {
					return
				}
				dialled.Add(1)
				_, _ = io.WriteString(c, greets)
				_, _ = io.Copy(io.Discard, c)
				c.Close()
			}
		}()
		l, err := DialWithin(context.Background(), "unix:"+path, nil, time.Hour)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) || dialled.Load() != 1 {
			t.Errorf("%q: %v after %d times", greets, err, dialled.Load())
		}
		if l != nil {
			l.quit()
			_ = l.conn.Close()
			l.beating.Wait()
		}
		_ = listener.Close()
		<-ended
	}
}
