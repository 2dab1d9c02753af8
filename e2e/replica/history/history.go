// SPDX-License-Identifier: Apache-2.0

// Package history keeps what clients of a group saw, and judges it: by Porcupine whether it is linearizable, and by
// lists whether anything acknowledged was lost, or anything executed that must not have been.
package history

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Op is one request of a client and what became of it.
type Op struct {
	Client     int
	Kind       byte // G P A C D, as the service has them; X: exchange, whose Result is the value before
	Key        string
	Value, Old string
	Call, End  int64 // ns; End of an unknown outcome: never
	Unknown    bool
	Status     byte   // of the answer
	Result     string // of G, X, and of C that failed
}

// History is what clients saw, of any number of keys.
type History struct {
	mu    sync.Mutex
	start time.Time
	ops   []Op
	never []Op // refused: must not have taken effect
}

// New is an empty one, whose time begins now.
func New() *History { return &History{start: time.Now()} }

// Now is a time of this history, in ns.
func (h *History) Now() int64 { return time.Since(h.start).Nanoseconds() }

// Add takes an operation that has ended, with an answer or without.
func (h *History) Add(o Op) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, o)
}

// Refused takes one that was refused and must not have taken effect.
func (h *History) Refused(o Op) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.never = append(h.never, o)
}

// Body of a request as the service takes it.
func (o *Op) Body() []byte {
	b := append([]byte{o.Kind, byte(len(o.Key))}, o.Key...)
	if o.Kind == 'C' {
		b = binary.BigEndian.AppendUint16(b, uint16(len(o.Old)))
		b = append(b, o.Old...)
	}
	return append(b, o.Value...)
}

const (
	KeysPerSet = 4   // two values and two lists
	OpsPerSet  = 240 // then come new keys: long histories are slow to check
)

// Keys of a set.
func Keys(name string, set int64) (keys []string) {
	for k := range KeysPerSet {
		keys = append(keys, fmt.Sprintf("%s-%d-%d", name, set, k))
	}
	return keys
}

// Draw makes an operation on one of the keys of a set; piece is unlike any other.
func Draw(r *rand.Rand, keys []string, piece string) Op {
	k := r.IntN(len(keys))
	o := Op{Key: keys[k], Value: piece}
	switch choice := r.IntN(10); {
	case choice < 4:
		o.Kind, o.Value = 'G', ""
	case k >= KeysPerSet/2:
		o.Kind = 'A'
	case choice < 8:
		o.Kind, o.Value = 'P', fmt.Sprint(r.IntN(4))
	default:
		o.Kind, o.Old, o.Value = 'C', fmt.Sprint(r.IntN(4)), fmt.Sprint(r.IntN(4))
	}
	return o
}

// model of one key: a value, "" when it is not there.
var model = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, _, out any) (bool, any) {
		ok, next := step(state.(string), out.(Op))
		return ok, next
	},
	Equal: func(a, b any) bool { return a == b },
}

// step is the service itself, one key of it.
func step(state string, o Op) (bool, string) {
	switch o.Kind {
	case 'G':
		return o.Unknown || o.Result == state, state
	case 'P':
		return o.Unknown || o.Status == '+', o.Value
	case 'A':
		return o.Unknown || o.Status == '+', state + o.Value
	case 'X':
		return o.Unknown || o.Status == '+' && o.Result == state, o.Value
	case 'C':
		if state == o.Old {
			return o.Unknown || o.Status == '+', o.Value
		}
		return o.Unknown || o.Status == '-' && o.Result == state, state
	default:
		return false, state
	}
}

// Verdict of the histories of all keys.
type Verdict struct {
	Checked, Bad, Lost, Executed int
	Says                         []string
}

// historyLeast is how many operations make a history that counts; shorter ones are judged, too.
const historyLeast = 10

// Judge checks each key's history. A history without a verdict is a bad one. The
// last read of every key is part of it.
func (h *History) Judge(most time.Duration) (v Verdict) {
	h.mu.Lock()
	defer h.mu.Unlock()
	byKey := map[string][]porcupine.Operation{}
	for _, o := range h.ops {
		end := o.End
		if o.Unknown {
			end = math.MaxInt64 / 2
		}
		byKey[o.Key] = append(byKey[o.Key], porcupine.Operation{ClientId: o.Client, Input: o, Call: o.Call, Output: o, Return: end})
	}
	keys := make([]string, 0, len(byKey))
	for k := range byKey {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		if len(byKey[k]) >= historyLeast {
			v.Checked++
		}
		if r := porcupine.CheckOperationsTimeout(model, byKey[k], most); r != porcupine.Ok {
			v.Bad++
			v.Says = append(v.Says, fmt.Sprintf("history of %s: %s (%d operations)", k, r, len(byKey[k])))
		}
	}
	h.judgeLists(&v)
	return v
}

// judgeLists looks at what was appended, each piece of which is unlike any other:
// what was acknowledged is there, once, and what was refused is not.
func (h *History) judgeLists(v *Verdict) {
	last := map[string]string{}
	at := map[string]int64{}
	for _, o := range h.ops {
		if o.Kind == 'G' && !o.Unknown && o.Call >= at[o.Key] {
			last[o.Key], at[o.Key] = o.Result, o.Call
		}
	}
	for _, o := range h.ops {
		if o.Kind != 'A' || o.End > at[o.Key] && !o.Unknown {
			continue
		}
		n := strings.Count(last[o.Key], o.Value)
		if !o.Unknown && n == 0 {
			v.Lost++
			v.Says = append(v.Says, fmt.Sprintf("%s of %s was acknowledged and is gone", o.Value, o.Key))
		}
		if n > 1 {
			v.Executed++
			v.Says = append(v.Says, fmt.Sprintf("%s of %s is there %d times", o.Value, o.Key, n))
		}
	}
	for _, o := range h.never {
		if o.Kind == 'A' && strings.Contains(last[o.Key], o.Value) {
			v.Executed++
			v.Says = append(v.Says, fmt.Sprintf("%s of %s was refused and is there", o.Value, o.Key))
		}
	}
}
