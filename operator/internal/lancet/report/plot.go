// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"fmt"
	"image/color"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Size of a plot.
const (
	plotWidth  = 16 * vg.Centimeter
	plotHeight = 10 * vg.Centimeter
	margin     = 1.05 // beyond the last point
)

// Plot draws the wanted percentile with its interval over the achieved throughput
// (over time for a changing load) into a PNG or SVG file. Inconclusive points are
// hollow; points at +∞ are left out and counted in the title.
func Plot(file string, d Document) error {
	if kind := filepath.Ext(file); !slices.Contains([]string{".png", ".svg"}, kind) {
		return fmt.Errorf("plot %s: a plot is a .png or a .svg file", file)
	}
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = "achieved requests per second", fmt.Sprintf("p%s %s latency, µs", number(d.Percentile), strings.ToLower(d.Latency))
	if d.Changing {
		p.X.Label.Text = "seconds"
	}
	p.Y.Min, p.X.Min = 0, 0
	p.Add(plotter.NewGrid())
	if left, err := curve(p, d); err != nil {
		return fmt.Errorf("plot %s: %w", file, err)
	} else if left > 0 {
		p.Title.Text = fmt.Sprintf("%d point(s) beyond every latency are not shown", left)
	}
	p.X.Max, p.Y.Max = margin*p.X.Max, margin*p.Y.Max
	if err := p.Save(plotWidth, plotHeight, file); err != nil {
		return fmt.Errorf("plot %s: %w", file, err)
	}
	return nil
}

// points is what plotter needs of a series with error bars.
type points struct {
	plotter.XYs
	plotter.YErrors
}

func curve(p *plot.Plot, d Document) (left int, err error) {
	var all, sure, unsure points
	for _, point := range d.Points {
		q, _ := d.Wanted(point)
		if q.Value == nil || q.Low == nil || q.High == nil {
			left++
			continue
		}
		x := point.Achieved
		if d.Changing {
			x = point.StartSeconds
		}
		add(&all, x, q)
		if point.Conclusive || d.Changing {
			add(&sure, x, q)
		} else {
			add(&unsure, x, q)
		}
	}
	if len(all.XYs) == 0 {
		return left, errors.New("no point has a finite latency")
	}
	line, err1 := plotter.NewLine(all.XYs)
	bars, err2 := plotter.NewYErrorBars(all)
	if err := errors.Join(err1, err2); err != nil {
		return left, err
	}
	line.Color = color.Gray{Y: 128}
	p.Add(line, bars)
	return left, errors.Join(dots(p, sure, draw.CircleGlyph{}), dots(p, unsure, draw.RingGlyph{}))
}

func add(to *points, x float64, q Quantile) {
	to.XYs = append(to.XYs, plotter.XY{X: x, Y: *q.Value})
	to.YErrors = append(to.YErrors, struct{ Low, High float64 }{*q.Value - *q.Low, *q.High - *q.Value})
}

func dots(p *plot.Plot, at points, shape draw.GlyphDrawer) error {
	if len(at.XYs) == 0 {
		return nil
	}
	scatter, err := plotter.NewScatter(at.XYs)
	if err != nil {
		return err
	}
	scatter.Shape, scatter.Radius = shape, vg.Points(3)
	p.Add(scatter)
	return nil
}
