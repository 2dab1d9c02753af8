// SPDX-License-Identifier: Apache-2.0

package agentlink

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/lancet"
)

// encoded is a record: when it was due, was sent and was answered, the stamp of the reply and the gap before it.
func encoded(times [5]uint64, outcome, stamps byte) []byte {
	var b []byte
	for _, v := range times {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return append(b, 0, 0, outcome, stamps, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0)
}

// L-53, L-56, L-66: records with and without a reply, a stamp and a gap.
func TestDecodeSamples(t *testing.T) {
	raw := encoded([5]uint64{1000, 1500, 4000, absent, absent}, 0, 0)
	raw = append(raw, encoded([5]uint64{2000, 2100, 9000, 6000, 1000}, 0, 1)...)
	raw = append(raw, encoded([5]uint64{3000, 3100, absent, absent, 1000}, 1, 0)...)
	raw = append(raw, encoded([5]uint64{3200, absent, absent, absent, absent}, 6, 0)...) // never sent: it stands where it was due, not behind all others
	samples, gaps, err := decodeSamples(raw, lancet.Service)
	if err != nil || len(samples) != 4 || len(gaps) != 2 {
		t.Fatalf("%v, %v, %v", samples, gaps, err)
	}
	want := []lancet.Sample{
		{Sent: 1500, Latency: 2500, Other: 3000}, {Sent: 2100, Latency: 6000, Other: 7000}, {Sent: 3100, Failed: true}, {Sent: 3200, Failed: true},
	}
	for i := range want {
		if samples[i] != want[i] {
			t.Errorf("sample %d: %+v, want %+v", i, samples[i], want[i])
		}
	}
	if late := lateness(raw); !slices.Equal(late, []time.Duration{500, 100, 100}) {
		t.Errorf("late by %v", late)
	}
	if _, _, err := decodeSamples(raw[:60], lancet.Service); err == nil {
		t.Error("60 bytes are no samples")
	}
	if _, _, err := decodeSamples(encoded([5]uint64{10, 20, 15, 0, 0}, 0, 0), lancet.Service); err == nil {
		t.Error("an answer before the request was sent")
	}
}

// A request belongs to the phase it was due in, however late it left.
func TestDivide(t *testing.T) {
	marks := []mark{{100, 0}, {200, 10}, {300, 20}}
	var raw []byte
	for _, due := range []uint64{90, 100, 199, 200, 299, 300, 305} {
		raw = append(raw, encoded([5]uint64{due, due + 150, due + 200, absent, absent}, 0, 1)...)
	}
	raw = append(raw, encoded([5]uint64{150, absent, absent, absent, absent}, 6, 0)...)
	raw = append(raw, encoded([5]uint64{160, 170, 180, absent, absent}, 0, 0)...)
	got := divide(raw, marks)
	if len(got) != 2 || len(got[0]) != 5*recordBytes || len(got[1]) != 4*recordBytes {
		t.Fatalf("%d phases: %d and %d bytes", len(got), len(got[0]), len(got[1]))
	}
	if f := failures(got[0], 0.25); len(f) != 1 || f["notSent"] != 4 || len(failures(got[1], 0.25)) != 0 {
		t.Errorf("one of four sampled was never sent: %v, %v", f, failures(got[1], 0.25))
	}
	if unstamped(got[0]) != 1 || unstamped(got[1]) != 0 {
		t.Errorf("%d and %d without a stamp; one that failed has none to lack", unstamped(got[0]), unstamped(got[1]))
	}
}

// traced requests on the wall's clock; those without an answer say why, those
// that never left say when they should have.
func TestDecodeTraced(t *testing.T) {
	zero := time.Unix(1000, 0)
	raw := encoded([5]uint64{1000, 1500, 4000, absent, absent}, 0, 0)
	raw = append(raw, encoded([5]uint64{2000, 2100, absent, absent, 0}, 1, 0)...)
	raw = append(raw, encoded([5]uint64{3000, absent, absent, absent, absent}, 6, 0)...)
	raw = append(raw, make([]byte, recordBytes)...) // without an id
	want := []Traced{
		{7, zero.Add(1500), zero.Add(4000), ""}, {7, zero.Add(2100), zero.Add(2100), "timeout"}, {7, zero.Add(3000), zero.Add(3000), "notSent"},
	}
	got := decodeTraced(raw, zero)
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%d: %+v, want %+v", i, got[i], want[i])
		}
	}
}

func FuzzDecodeSamples(f *testing.F) {
	f.Add(encoded([5]uint64{1, 2, 3, 4, 5}, 0, 1))
	f.Add(encoded([5]uint64{0, 0, math.MaxUint64, math.MaxUint64, math.MaxUint64}, 6, 0))
	f.Fuzz(func(t *testing.T, raw []byte) {
		samples, gaps, err := decodeSamples(raw, lancet.Response)
		if err == nil && len(samples) != len(raw)/recordBytes || len(gaps) > len(raw)/recordBytes {
			t.Fatalf("%d bytes: %d samples, %d gaps, %v", len(raw), len(samples), len(gaps), err)
		}
		for _, s := range samples {
			if s.Latency < 0 || s.Other < 0 || s.Sent < 0 {
				t.Fatalf("negative time: %+v", s)
			}
		}
		for _, gap := range gaps {
			if gap < time.Duration(0) {
				t.Fatalf("negative gap %v", gap)
			}
		}
	})
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"ok":true,"window":{"complete":true,"failed":{"timeout":1}}}` + "\n"))
	f.Add([]byte(`{"ok":false,"error":{"code":"Busy","message":"x"}}` + "\n"))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		line, err := readLine(bufio.NewReaderSize(bytes.NewReader(raw), 16))
		if err != nil {
			return
		}
		var poll struct {
			Window *window `json:"window"`
		}
		if err := decodeAnswer(line, &poll); err != nil && err.Error() == "" {
			t.Fatal("an error without a word")
		}
	})
}
