// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"fmt"
	"strings"
)

// Counts is what really happened, by class.
type Counts struct {
	In      [classes]uint64         // packets taken from hosts
	Out     [classes]uint64         // packets handed to hosts, duplicates included
	Faults  [kinds][classes]uint64  // packets that met each kind
	ToHost  map[int][classes]uint64 // Out, by receiving host
	Of      map[int][classes]uint64 // In, by sending host
	Passed  map[int][classes]uint64 // those of Of that tell of a hop: fewer are left than hosts begin with
	NoHost  uint64                  // frames to an address nobody has, broadcasts
	Waiting int                     // packets delayed or held at this moment
	// Overrun counts packets the kernel did not queue for the shim or for the
	// host's link. They are nobody's plan: a run in which there are any proves
	// nothing about counts.
	Overrun uint64
}

// Total of one kind over all classes.
func (c *Counts) Total(k Kind) uint64 { return sum(c.Faults[k]) }

func sum(v [classes]uint64) (n uint64) {
	for _, x := range v {
		n += x
	}
	return n
}

// Unbalanced names the first class whose packets do not add up: what came in,
// and duplicates, must have gone out, been thrown away or still wait.
func (c *Counts) Unbalanced() string {
	var in, out uint64
	for k := Class(0); k < classes; k++ {
		in += c.In[k] + c.Faults[Duplicated][k]
		out += c.Out[k] + c.Faults[Lost][k] + c.Faults[Partitioned][k]
		if c.Waiting == 0 && c.In[k]+c.Faults[Duplicated][k] != c.Out[k]+c.Faults[Lost][k]+c.Faults[Partitioned][k] {
			return fmt.Sprintf("%s: %d in, %d out, faults %v", k, c.In[k], c.Out[k], c.String())
		}
	}
	if in != out+uint64(c.Waiting) {
		return fmt.Sprintf("%d in and doubled, %d out or thrown away, %d waiting", in, out, c.Waiting)
	}
	return ""
}

// String lists the kinds that happened.
func (c *Counts) String() string {
	var b strings.Builder
	for _, k := range Kinds() {
		if n := c.Total(k); n > 0 {
			fmt.Fprintf(&b, "%s %d, ", k, n)
		}
	}
	return strings.TrimSuffix(b.String(), ", ")
}
