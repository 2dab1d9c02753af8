// SPDX-License-Identifier: Apache-2.0

package frequency

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// policy is a domain as the kernel shows it: a folder policyN.
type policy struct {
	folder string
	cpus   []int
	found  int64 // the limit that was there, and is put back
	domain Domain
	ladder Ladder
}

// open reads every domain below a folder. floorPercent of the highest frequency is the
// least that is set.
func open(folder string, floorPercent int64) ([]*policy, error) {
	folders, err := filepath.Glob(filepath.Join(folder, "policy[0-9]*"))
	if err != nil {
		return nil, err
	}
	var all []*policy
	for _, f := range folders {
		p := &policy{folder: f}
		least, e1 := p.number("cpuinfo_min_freq")
		most, e2 := p.number("cpuinfo_max_freq")
		now, e3 := p.number("scaling_max_freq")
		cpus, e4 := os.ReadFile(filepath.Join(f, "affected_cpus"))
		if err := errors.Join(e1, e2, e3, e4); err != nil {
			return nil, err
		}
		for _, word := range strings.Fields(string(cpus)) {
			n, err := strconv.Atoi(word)
			if err != nil {
				return nil, fmt.Errorf("%s: affected_cpus: %w", f, err)
			}
			p.cpus = append(p.cpus, n)
		}
		p.found, p.domain = now, Domain{Floor: max(least, most*floorPercent/100), Ceiling: most, Limit: now}
		all = append(all, p)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no policyN: this kernel sets no frequencies; leave nodes.frequency.enabled off, or let its nodeSelector choose others", folder)
	}
	return all, nil
}

func (p *policy) number(file string) (int64, error) {
	text, err := os.ReadFile(filepath.Join(p.folder, file))
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s/%s: %w", p.folder, file, err)
	}
	return n, nil
}

// set a limit; it writes nothing that stands already.
func (p *policy) set(limit int64) error {
	if limit == p.domain.Limit {
		return nil
	}
	// Its file is the kernel's: it is there, and is not made.
	f, err := os.OpenFile(filepath.Join(p.folder, "scaling_max_freq"), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strconv.FormatInt(limit, 10))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("set %s to %d kHz: %w", p.folder, limit, err)
	}
	p.domain.Limit = limit
	return nil
}

// times are what processors have done so far, in ticks of the kernel.
type times struct{ busy, all uint64 }

// readTimes reads /proc/stat, by processor.
func readTimes(file string) (map[int]times, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	out := map[int]times{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) < 6 || !strings.HasPrefix(words[0], "cpu") || words[0] == "cpu" {
			continue
		}
		n, err := strconv.Atoi(words[0][len("cpu"):])
		if err != nil {
			return nil, fmt.Errorf("%s: %q is no processor: %w", file, words[0], err)
		}
		var t times
		for i, w := range words[1:min(len(words), 9)] { // without guests, whose time is in user's
			v, err := strconv.ParseUint(w, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", file, words[0], err)
			}
			t.all += v
			if i != 3 && i != 4 { // idle, and waiting for a disk
				t.busy += v
			}
		}
		out[n] = t
	}
	return out, nil
}

// busiest is the share of the busiest of some processors between two readings; known: time
// has passed for one of them at least.
func busiest(cpus []int, before, now map[int]times) (share float64, known bool) {
	for _, c := range cpus {
		b, a := before[c], now[c]
		if a.all > b.all && a.busy >= b.busy {
			share, known = max(share, float64(a.busy-b.busy)/float64(a.all-b.all)), true
		}
	}
	return share, known
}
