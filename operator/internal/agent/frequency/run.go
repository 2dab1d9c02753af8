// SPDX-License-Identifier: Apache-2.0

package frequency

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"time"
)

// ErrUsage marks a wrong command line.
var ErrUsage = errors.New("wrong usage")

// Options are the command line.
type Options struct {
	Folder       string        // with the kernel's policyN
	Stat         string        // what processors did
	FloorPercent int64         // of the highest frequency that is set at least
	Every        time.Duration // how often is decided
	LogLevel     slog.Level
}

// ParseOptions reads the command line of `agent frequency`.
func ParseOptions(args []string) (Options, error) {
	var o Options
	f := flag.NewFlagSet("agent frequency", flag.ContinueOnError)
	f.StringVar(&o.Folder, "folder", "/sys/devices/system/cpu/cpufreq", "folder with the kernel's policies")
	f.StringVar(&o.Stat, "stat", "/proc/stat", "file with what processors did")
	f.Int64Var(&o.FloorPercent, "floor-percent", 50, "of the highest frequency, 10 to 100: what is set at least")
	f.DurationVar(&o.Every, "every", time.Second, "how often is decided")
	f.TextVar(&o.LogLevel, "log-level", slog.LevelInfo, "`debug|info|warn|error`: the least that is written")
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return o, err
	} else if err != nil {
		return o, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("%w: unexpected argument %q", ErrUsage, f.Arg(0))
	case o.FloorPercent < 10 || o.FloorPercent > 100:
		return o, fmt.Errorf("%w: --floor-percent=%d must be 10..100", ErrUsage, o.FloorPercent)
	case o.Every < 100*time.Millisecond:
		return o, fmt.Errorf("%w: --every=%s must be at least 100ms", ErrUsage, o.Every)
	}
	return o, nil
}

// Run sets frequencies until ctx ends, and then puts back what it found.
func Run(ctx context.Context, o Options) error {
	all, err := open(o.Folder, o.FloorPercent)
	if err != nil {
		return err
	}
	before, err := readTimes(o.Stat)
	if err != nil {
		return err
	}
	tick := time.NewTicker(o.Every)
	defer tick.Stop()
	for err == nil {
		select {
		case <-ctx.Done():
			return restore(all)
		case <-tick.C:
			before, err = decide(all, o.Stat, before)
		}
	}
	return errors.Join(err, restore(all))
}

// decide once for every domain. Who cannot be judged keeps what it has.
func decide(all []*policy, stat string, before map[int]times) (map[int]times, error) {
	now, err := readTimes(stat)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		busy, known := busiest(p.cpus, before, now)
		if !known {
			continue
		}
		was := p.domain.Limit
		if err := p.set(p.ladder.Next(p.domain, busy)); err != nil {
			return nil, err
		}
		if p.domain.Limit != was {
			slog.Debug("frequency", "policy", p.folder, "kHz", p.domain.Limit, "busy", busy)
		}
	}
	return now, nil
}

func restore(all []*policy) (err error) {
	for _, p := range all {
		err = errors.Join(err, p.set(p.found))
	}
	return err
}
