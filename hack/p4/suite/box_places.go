// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"

	"github.com/bobtail-dev/bobtail/hack/p4/bed"
	"github.com/bobtail-dev/bobtail/hack/p4/model"
)

const (
	placesPairs  = 3000    // so many that some of them meet in their first places
	placesMost   = 200_000 // tries
	placesMisses = 8_000   // at least so many pairs find a place in a group of 4,096 slots
)

// BoxPlaces says what is wrong with the places that a box has for pairs: who found the first one taken is known in the
// second, and a pair is passed over in silence when both are others', not before (I-6, W-13).
func BoxPlaces(p *model.Program) (failed []string, err error) {
	known, err := knownInSecondPlaces(p)
	if err != nil {
		return nil, err
	}
	forgotten, err := refusedAreForgotten(p)
	if err != nil {
		return nil, err
	}
	crowd, err := crowdedLate(p)
	return append(append(known, forgotten...), crowd...), err
}

func answerNth(n int) model.Frame {
	client, port, id := nth(n)
	fb := bed.Feedback{Flags: bed.Pair, N: 1, Incarnation: 7, Client: client, Port: port, ReqID: id}
	return bed.TellBox(1, fb.Bytes())
}

// refusedAreForgotten: a client takes a number again once its request was refused, and is judged anew.
func refusedAreForgotten(p *model.Program) (failed []string, err error) {
	b, err := bed.NewBox(p, 1, 0)
	if err != nil {
		return nil, err
	}
	b.At(1)
	b.All(askNth(0))
	b.All(askNth(1))
	b.All(answerNth(0))
	b.At(200)
	before := b.Reason(bed.BoxReason["passed"])
	b.All(askNth(1))
	if b.Reason(bed.BoxReason["passed"]) != before+1 {
		failed = append(failed, "the number of a request that was refused is not judged anew")
	}
	return failed, nil
}

// nth is a client, its port and the number of its request, another for each n.
func nth(n int) (uint32, uint16, uint16) {
	return bed.ClientIP + uint32(n>>16), uint16(1 + n%65535), uint16(n)
}

func askNth(n int) model.Frame {
	client, port, id := nth(n)
	return bed.AskBox(client, port, ordered(id, 1))
}

// knownInSecondPlaces: half of many pairs are answered, and their places are free. Copies of the others are copies.
func knownInSecondPlaces(p *model.Program) (failed []string, err error) {
	b, err := bed.NewBox(p, 4096, 0)
	if err != nil {
		return nil, err
	}
	b.At(1)
	for n := range placesPairs {
		b.All(askNth(n))
	}
	for n := 0; n < placesPairs; n += 2 {
		b.All(answerNth(n))
	}
	b.At(200)
	before := b.Reason(bed.BoxReason["passed_again"])
	for n := 1; n < placesPairs; n += 2 {
		b.All(askNth(n))
	}
	if got := b.Reason(bed.BoxReason["passed_again"]) - before; got != placesPairs/2 {
		failed = append(failed, fmt.Sprintf("%d of %d copies were taken for copies", got, placesPairs/2))
	}
	return failed, nil
}

// crowdedLate asks for ever more pairs until one finds both of its places taken.
func crowdedLate(p *model.Program) (failed []string, err error) {
	b, err := bed.NewBox(p, 4096, 0)
	if err != nil {
		return nil, err
	}
	crowded := func() uint64 { return b.Reason(bed.BoxReason["crowded"]) }
	for n := range placesMost {
		b.At(1 + uint64(n/3000)) // refused ones stay for a moment
		before := b.Changes
		out, _ := b.All(askNth(n))
		switch {
		case crowded() == 0:
		case len(out) != 0 || b.Changes != before+1: // its turn
			return append(failed, fmt.Sprintf("%d frames of a pair without a place, %d words changed", len(out), b.Changes-before)), nil
		case n < placesMisses:
			return append(failed, fmt.Sprintf("pair %d finds no place: %d do", n, placesMisses)), nil
		default:
			return failed, nil
		}
	}
	return append(failed, fmt.Sprintf("no pair of %d found both of its places taken", placesMost)), nil
}
