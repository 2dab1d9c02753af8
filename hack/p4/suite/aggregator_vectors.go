// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"

	"github.com/bobtail-dev/bobtail/hack/p4/bed"
	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// AggregatorVectors sends the shared vectors to a switch that aggregates. No message of a group is among them: each is
// discarded for a reason, and changes nothing (R-345, W-13).
func AggregatorVectors(file string, p *model.Program) (run int, failed []string, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, nil, err
	}
	var all vectorFile
	if err := json.Unmarshal(text, &all); err != nil {
		return 0, nil, fmt.Errorf("%s: %w", file, err)
	}
	a, err := bed.NewAggregator(p, bed.Group{ID: 1, Cluster: 2, Epoch: 3, Members: []bed.GroupMember{{ID: 1, Votes: true}, {ID: 2, Votes: true}}})
	if err != nil {
		return 0, nil, err
	}
	for _, v := range append(all.Packets, all.Feedback...) {
		data, err := hex.DecodeString(v.Hex)
		if err != nil {
			return run, nil, fmt.Errorf("%s: %s: %w", file, v.Name, err)
		}
		before, changes := discardedBy(a), a.Changes
		out := a.Pass(bed.DatagramOf(1, data))
		run++
		if len(out) != 0 || a.Changes != changes || discardedBy(a) != before+1 {
			failed = append(failed, fmt.Sprintf("aggregator: %s (%s): %d frames, %d words changed, %d reasons counted", v.Name, v.Role, len(out),
				a.Changes-changes, discardedBy(a)-before))
		}
	}
	if odd := a.Odd(); odd != 0 {
		failed = append(failed, fmt.Sprintf("aggregator: %d odd accesses, last of %s", odd, a.LastOdd))
	}
	return run, failed, nil
}

// discardedBy counts what was discarded, whatever the reason.
func discardedBy(a *bed.Aggregator) (n uint64) {
	for r := 1; r < bed.AggReasons; r++ {
		if r < bed.AggregatorReason["probes"] || r == bed.AggMany {
			n += a.Reason(r)
		}
	}
	return n
}
