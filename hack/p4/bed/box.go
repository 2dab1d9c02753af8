// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"encoding/binary"

	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

// Where a flow-control box and the members behind it are.
const (
	BoxIP       = 0x0a000601
	BoxNumber   = 13
	BoxCopies   = 1200
	BoxMembers  = 3
	BoxLongest  = 1320 // bytes of a body
	boxUnit     = 10   // its clock's bits below what it reads
	BoxReasons  = 29
	admit       = "Ingress.admit."
	copies      = "Egress.copy."
	boxMAC      = 0x020000050000
	boxMemberIP = 0x0a040000
)

// BoxReason is the number of a reason by the software's word for it, as headers.p4 of box numbers it.
var BoxReason = map[string]int{"crowded": 18, "unknown": 19, "option": 20, "unordered": 21, "too_long": 22, "busy": 23, "busy_again": 24, "passed": 25,
	"passed_again": 26, "answered": 27}

// Box is a program that is the flow-control box of a group.
type Box struct {
	*model.Machine
}

// NewBox is a fresh switch with a group of three in its tables, which has so many slots from base on.
func NewBox(p *model.Program, slots, base uint64) (*Box, error) {
	b := &Box{Machine: model.NewMachine(p)}
	err := b.add(admit+"own", "is_own", []uint64{BoxIP})
	err = first(err, b.add(admit+"address", "is_asked", []uint64{BoxIP, 1, 0x0800}, RouterMAC))
	err = first(err, b.add(admit+"station", "to_port", []uint64{RouterMAC + 9}, OtherPort))
	var all []model.Copy
	for n := uint64(1); n <= BoxMembers; n++ {
		ip := uint64(BoxMemberIP(int(n)))
		all = append(all, model.Copy{Port: BoxMemberPort(int(n)), Instance: n})
		err = first(err, b.add(admit+"member", "is_member", []uint64{ip, RequestPort, BoxMemberPort(int(n)), BoxIP, FeedbackPort}, BoxNumber))
		err = first(err, b.add(copies+"receiver", "to_member", []uint64{BoxNumber, n}, boxMAC+n, ip, RequestPort))
	}
	b.Groups[BoxCopies] = all
	return b, first(err, b.add(admit+"box_of", "admit", []uint64{BoxIP, RequestPort}, BoxNumber, base, slots-1, BoxLongest, BoxCopies))
}

func (b *Box) add(table, action string, key []uint64, args ...uint64) error {
	e := model.Entry{Action: action, Args: args}
	for _, k := range key {
		e.Match = append(e.Match, model.Match{Value: k})
	}
	return b.Insert(table, e)
}

// BoxMemberIP of a member, which are counted from 1.
func BoxMemberIP(n int) uint32 { return boxMemberIP + uint32(n) }

// BoxMemberPort is the switch's port of a member: the second and the third share one.
func BoxMemberPort(n int) uint64 { return 30 + uint64(n)/2 }

// At sets its clock, in the units that it reads.
func (b *Box) At(now uint64) { b.Now = now << boxUnit }

// Reason is how often something was counted of the group.
func (b *Box) Reason(r int) uint64 { return b.Count(admit+"outcomes", BoxNumber<<5|uint64(r)) }

// All runs a frame through the program until nothing of it is in the loop; passes is how often it went in.
func (b *Box) All(f model.Frame) (out []model.Frame, passes int) {
	waiting := []model.Frame{f}
	for len(waiting) > 0 && passes < 4 {
		next := waiting[0]
		waiting = waiting[1:]
		passes++
		for _, g := range b.Pass(next) {
			if g.Loop {
				waiting = append(waiting, g)
			} else {
				out = append(out, g)
			}
		}
	}
	return out, passes
}

// AskBox is a frame of a client with a payload for the box.
func AskBox(client uint32, port uint16, payload []byte) model.Frame {
	return model.Frame{Port: ClientPort, Data: Frame(Ends{client, BoxIP, port, RequestPort}, payload)}
}

// TellBox is a frame of a member with a payload for the box.
func TellBox(n int, payload []byte) model.Frame {
	return model.Frame{Port: BoxMemberPort(n), Data: Frame(Ends{BoxMemberIP(n), BoxIP, RequestPort, FeedbackPort}, payload)}
}

// Copied is what the box sends a member of a client's frame: with the client's address as the first option.
func Copied(n int, in model.Frame) model.Frame {
	of, p := EndsOf(in.Data), Payload(in.Data)
	option := []byte{1, 8}
	option = binary.BigEndian.AppendUint16(option, of.SrcPort)
	option = binary.BigEndian.AppendUint32(option, of.Src)
	payload := append(append(append([]byte{}, p[:8]...), option...), p[8:]...)
	payload[1] += 8
	f := Frame(Ends{BoxIP, BoxMemberIP(n), RequestPort, RequestPort}, payload)
	put48(f, boxMAC+uint64(n))
	put48(f[6:], RouterMAC)
	return model.Frame{Port: BoxMemberPort(n), Data: f}
}
