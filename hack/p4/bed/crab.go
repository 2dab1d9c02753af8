// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"encoding/binary"

	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// Where a balancer of connections and its servers are, as dataplane/sim/switch_crab.c has them.
const (
	VIP         = 0x0a090909
	VIPPort     = 80
	FirstServer = 0x0a010000
	VIPNumber   = 3
	ServerPort  = 10 // of the switch: of the first server
	OtherPort   = 9
	Places      = 4096 // of the hash
)

// What the program counts of a VIP, as headers.p4 of crab numbers it.
const (
	CrabRedirected = 1
	CrabInserted   = 2
	CrabFirstHash  = 3 // the first of the fall-backs by the hash
	CrabUnread     = 6
	CrabLastHash   = 7
	CrabNoFallback = 15 // the VIP has none
	CrabReasons    = 18
)

// Balancer is a program that balances connections.
type Balancer struct {
	*model.Machine
}

const balance = "Ingress.balance."

// NewBalancer has so many servers; hash: what cannot be redirected goes by the hash, else nowhere; capable: clients are
// taken to be redirectable (C-22).
func NewBalancer(p *model.Program, servers int, hash, capable bool) (*Balancer, error) {
	b := &Balancer{model.NewMachine(p)}
	add := func(table, action string, key []uint64, args ...uint64) error {
		e := model.Entry{Action: action, Args: args}
		for _, k := range key {
			e.Match = append(e.Match, model.Match{Value: k})
		}
		return b.Insert(balance+table, e)
	}
	flag := map[bool]uint64{true: 1}
	err := add("own", "is_own", []uint64{VIP})
	for i := range uint64(servers) {
		err = first(err, add("ring", "to_server", []uint64{VIPNumber, i}, i, ServerPort+i, RouterMAC, 0x020000020000+i, FirstServer+i))
	}
	for k := uint64(0); k < Places && servers > 0; k++ {
		i := k % uint64(servers)
		err = first(err, add("spread", "to_neighbour", []uint64{VIPNumber, k}, ServerPort+i, RouterMAC, 0x020000020000+i))
	}
	err = first(err, add("station", "to_port", []uint64{RouterMAC}, OtherPort))
	return b, first(err, add("vip", "balance", []uint64{VIP, VIPPort}, VIPNumber, 0, uint64(max(servers, 1)-1), 0, flag[hash], flag[capable]))
}

func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// Reason is how often something was counted of the VIP.
func (b *Balancer) Reason(r int) uint64 { return b.Count(balance+"outcomes", VIPNumber<<5|uint64(r)) }

// Packet puts Ethernet in front of an IP packet.
func Packet(ip []byte) []byte {
	f := make([]byte, 14, 14+len(ip))
	put48(f, RouterMAC)
	put48(f[6:], ClientMAC)
	binary.BigEndian.PutUint16(f[12:], 0x0800)
	return append(f, ip...)
}

// TCPRest is what is left of a TCP segment's sum with its pseudo-header, mod 65,535: 0 of one whose checksum is right.
func TCPRest(ip []byte) uint16 {
	n := min(len(ip), int(binary.BigEndian.Uint16(ip[2:])))
	return uint16(sum(ip[20:n], sum(ip[12:20], 6+uint32(n-20))) % 0xffff)
}

// IPSound: the header's checksum holds.
func IPSound(ip []byte) bool { return sum(ip[:20], 0) == 0xffff }
