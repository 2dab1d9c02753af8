// SPDX-License-Identifier: Apache-2.0

package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/plot"
)

func us(v float64) *float64 { return &v }

// measured is a document of one percentile a point; no value is beyond every latency.
func measured(changing bool, values ...*float64) Document {
	d := Document{Percentile: 99, Latency: "Response", Changing: changing}
	for i, v := range values {
		q := Quantile{Percentile: 99, Value: v, Defined: true}
		if v != nil {
			q.Low, q.High = us(*v-1), us(*v+3)
		}
		d.Points = append(d.Points, Point{StartSeconds: float64(i), Achieved: float64(1000 * (i + 1)), Conclusive: i%2 == 0, Percentiles: []Quantile{q}})
	}
	return d
}

// The axes reach from 0 to a little beyond the last point and its interval; what is
// beyond every latency is left out and counted.
func TestCurve(t *testing.T) {
	for _, changing := range []bool{false, true} {
		p := plot.New()
		p.X.Min, p.Y.Min = 0, 0
		left, err := curve(p, measured(changing, us(10), nil, us(30)))
		wantX := 3000.0
		if changing {
			wantX = 2
		}
		if err != nil || left != 1 || p.X.Max != wantX || p.Y.Max != 33 {
			t.Errorf("changing %v: %d left out, up to %v and %v, %v", changing, left, p.X.Max, p.Y.Max, err)
		}
	}
	if left, err := curve(plot.New(), measured(false, nil, nil)); err == nil || left != 2 {
		t.Errorf("%d left out, %v", left, err)
	}
	q := measured(false, us(10)).Points[0].Percentiles[0]
	var to points
	add(&to, 7, q)
	if to.XYs[0].X != 7 || to.XYs[0].Y != 10 || to.YErrors[0].Low != 1 || to.YErrors[0].High != 3 {
		t.Errorf("%+v", to)
	}
}

func TestPlot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.svg")
	d := measured(false, us(10), us(20), nil)
	if err := Plot(file, d); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"achieved requests per second", "p99 response latency", "1 point(s) beyond every latency", `width="453.54pt" height="283.46pt"`} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("%q is missing", want)
		}
	}
	d = measured(true, us(10), us(20))
	if err := Plot(file, d); err != nil {
		t.Fatal(err)
	}
	if raw, _ = os.ReadFile(file); strings.Contains(string(raw), "beyond") || !strings.Contains(string(raw), ">seconds<") {
		t.Error("a changing load is drawn over seconds, and nothing of it is left out")
	}
	if err := Plot(filepath.Join(t.TempDir(), "none", "p.png"), d); err == nil {
		t.Error("a folder that is not there")
	}
}
