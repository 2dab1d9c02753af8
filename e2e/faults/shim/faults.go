// SPDX-License-Identifier: Apache-2.0

package shim

import "time"

// Kind is one way in which the network may treat a packet badly.
type Kind int

// Kinds of faults.
const (
	Lost        Kind = iota // thrown away
	Partitioned             // thrown away because the two hosts are cut off
	Corrupted               // a bit flipped, checksum left as it was: the receiving kernel discards it
	Mangled                 // a bit of the R2P2 packet flipped, checksum made right again
	Duplicated              // delivered twice, the duplicate later
	Delayed                 // delivered up to DelayMax later
	Reordered               // held until packets that came later have passed
	kinds
)

var kindNames = [kinds]string{"lost", "partitioned", "corrupted", "mangled", "duplicated", "delayed", "reordered"}

func (k Kind) String() string { return kindNames[k] }

// Kinds lists all of them.
func Kinds() []Kind {
	return []Kind{Lost, Partitioned, Corrupted, Mangled, Duplicated, Delayed, Reordered}
}

// Any stands for every host in a Rule.
const Any = -1

// Rule gives the chances of faults for one kind of packet on one way. The
// first rule that matches a packet decides; without one it passes unharmed.
type Rule struct {
	From, To int     // host numbers, or Any
	Classes  []Class // none: every R2P2 class
	Chance   [kinds]float64
	DelayMax time.Duration // bounds delays; 0 means none
	CopyMax  time.Duration // bounds how much later a duplicate comes
}

func (r *Rule) matches(p *packet) bool {
	if r.From != Any && r.From != p.from || r.To != Any && r.To != p.to {
		return false
	}
	if len(r.Classes) == 0 {
		return p.class.R2P2()
	}
	for _, c := range r.Classes {
		if c == p.class {
			return true
		}
	}
	return false
}

// With sets one chance, 0 to 1, and returns the rule.
func (r Rule) With(k Kind, chance float64) Rule {
	r.Chance[k] = chance
	return r
}

// fate is what is done with one packet.
type fate struct {
	hit   [kinds]bool
	bit   uint64        // which bit to flip
	delay time.Duration // of the packet itself
	after time.Duration // of its duplicate
	pass  int           // reordered: packets that pass first
}

// mix is the finalizer of splitmix64 (Steele et al., OOPSLA'14).
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// draw is a number that depends on the seed, the stream (from, to, class), the
// packet's number in that stream and what it is drawn for, on nothing else: so
// a stream meets the same faults in every run of a seed, whatever the timing
// between streams.
func draw(seed uint64, p *packet, number, purpose uint64) uint64 {
	stream := uint64(p.from)<<24 | uint64(p.to)<<8 | uint64(p.class)
	return mix(mix(mix(seed^mix(stream))^number) ^ purpose)
}

func unit(x uint64) float64 { return float64(x>>11) / (1 << 53) }

func decide(seed uint64, r *Rule, p *packet, number uint64) fate {
	var f fate
	for _, k := range Kinds() {
		f.hit[k] = r.Chance[k] > 0 && unit(draw(seed, p, number, uint64(k))) < r.Chance[k]
	}
	f.bit = draw(seed, p, number, 100)
	f.pass = 1 + int(draw(seed, p, number, 101)%4)
	f.delay = time.Duration(unit(draw(seed, p, number, 102)) * float64(r.DelayMax))
	f.after = time.Duration(unit(draw(seed, p, number, 103)) * float64(r.CopyMax))
	return f
}

// flip changes one bit of the packet. Mangling leaves the magic byte alone, so
// that the packet is still taken for R2P2 and meets the parsers.
func flip(p *packet, bit uint64, mangle bool) {
	body := p.payload()
	if mangle {
		body = body[1:]
	}
	if len(body) == 0 {
		return
	}
	at := bit % uint64(8*len(body))
	body[at/8] ^= 1 << (at % 8)
	if mangle {
		fixChecksum(p)
	}
}
