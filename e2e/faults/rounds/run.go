// SPDX-License-Identifier: Apache-2.0

package rounds

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/faults/bed"
)

// Options of a run.
type Options struct {
	Root     string // of the repository
	Variants []Variant
	Themes   []string // none: all of them
	Seed     uint64
	Repeat   int // rounds of each theme
	Out      io.Writer
	Patience time.Duration // before something that should become true is given up; 0: a minute
}

// Run runs every theme in every variant and tells whether all rounds were
// clean. When ctx ends, it cleans up and returns early.
func Run(ctx context.Context, o Options) (*Result, error) {
	res := &Result{total: totals{faults: map[string]int64{}}}
	for _, theme := range o.Themes {
		if !slices.Contains(Themes, theme) {
			return res, fmt.Errorf("no theme %q; there are: %s", theme, strings.Join(Themes, ", "))
		}
	}
	if o.Patience > 0 {
		patience = o.Patience
	}
	for _, v := range o.Variants {
		if err := o.variant(ctx, v, res); err != nil {
			return res, err
		}
	}
	for _, ns := range bed.Leftovers() {
		res.failed++
		fmt.Fprintf(o.Out, "FAILED namespace %s was left over\n", ns)
	}
	return res, ctx.Err()
}

// Seed of a round: the same whatever other rounds run.
func seedOf(base uint64, repeat int) uint64 { return base + uint64(repeat) }

func (o *Options) variant(ctx context.Context, v Variant, res *Result) error {
	dir, err := os.MkdirTemp("", "bobtail-faults-")
	if err != nil {
		return err
	}
	start := time.Now()
	w, err := newWorld(v, o.Root, dir)
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", v, err, logTails(dir))
	}
	defer w.close()
	r := &runner{w: w, total: &res.total, offset: map[string]int64{}, files: map[*bed.Process]int{}, rss: map[*bed.Process]int{}}
	bad := o.rounds(ctx, r, res)
	end := &verdict{}
	end.fail(w.stop())
	reports, err := w.reports()
	end.fail(err)
	for _, line := range reports {
		end.hold(false, "sanitizer", "%s", line)
	}
	res.total.sanitizers = append(res.total.sanitizers, reports...)
	if len(end.failures) > 0 {
		bad = true
		o.show(res, v, "end of "+v.String(), o.Seed, end)
	}
	fmt.Fprintf(o.Out, "%s: %d rounds so far, %d clean, %.0f s\n", v, res.total.rounds, res.total.clean, time.Since(start).Seconds())
	if bad {
		fmt.Fprintf(o.Out, "logs are kept in %s\n", dir)
		return nil
	}
	return os.RemoveAll(dir)
}

func (o *Options) rounds(ctx context.Context, r *runner, res *Result) (bad bool) {
	themes := o.Themes
	if len(themes) == 0 {
		themes = Themes
	}
	first := &verdict{}
	r.checkCalm(first, o.Seed)
	r.checkProcesses(first)
	if len(first.failures) > 0 {
		o.show(res, r.w.v, "calm before any fault", o.Seed, first)
		return true
	}
	for i := range o.Repeat {
		for _, theme := range themes {
			if ctx.Err() != nil {
				return bad
			}
			seed := seedOf(o.Seed, i)
			v := r.round(theme, seed)
			r.total.rounds++
			r.total.checks += v.checks
			if len(v.failures) == 0 {
				r.total.clean++
				p := draw(r.w.v, theme, seed)
				fmt.Fprintf(o.Out, "ok     %s: %s, seed %d, %d checks\n", r.w.v, p.String(), seed, v.checks)
				continue
			}
			bad = true
			p := draw(r.w.v, theme, seed)
			fmt.Fprintf(o.Out, "       plan: %s\n", p.String())
			o.show(res, r.w.v, theme, seed, v)
			if !r.alive() {
				return bad
			}
		}
	}
	return bad
}

// alive tells whether the bed can be used for another round.
func (r *runner) alive() bool { return r.w.waitWhole() == nil }

func (o *Options) show(res *Result, v Variant, what string, seed uint64, bad *verdict) {
	res.failed++
	fmt.Fprintf(o.Out, "FAILED %s: %s, seed %d\n", v, what, seed)
	for i, f := range bad.failures {
		if i == 12 {
			fmt.Fprintf(o.Out, "         and %d more\n", len(bad.failures)-i)
			break
		}
		fmt.Fprintf(o.Out, "       - %s\n", f)
	}
	if slices.Contains(Themes, what) {
		fmt.Fprintf(o.Out, "       replay: build/bin/bobtail-faults --variants=%s --themes=%s --seed=%d\n", v, what, seed)
	}
}

func logTails(dir string) (text string) {
	logs, _ := filepath.Glob(filepath.Join(dir, "*.log"))
	for _, l := range logs {
		text += fmt.Sprintf("--- %s\n%s\n", filepath.Base(l), bed.Tail(l, 8))
	}
	return text
}
