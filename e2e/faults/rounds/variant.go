// SPDX-License-Identifier: Apache-2.0

// Package rounds attacks real programs over a network that misbehaves and says
// whether they kept their promises. A round is calm load, load under faults
// drawn from a seed, a quiet second, and calm load again; what must hold is in
// check.go, what is injected in plan.go and events.go.
package rounds

import (
	"fmt"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/config"
	"github.com/bobtail-dev/bobtail/e2e/faults/bed"
)

// Variant is one way to run the programs.
type Variant struct {
	Build      string // release, asan, tsan
	V6         bool
	Forwarding string // Encapsulated, Transparent
	Keys       bool
	Legacy     bool // peers that know no header extension, one router
	Go         bool // one server and one client are Go programs
	Split      bool // the routers run on two threads
	FastPath   bool // the routers' programs in the kernel take what they can
}

// String is also what ParseVariant reads.
func (v Variant) String() string {
	said := []string{v.Build, "ipv4", strings.ToLower(v.Forwarding)}
	if v.V6 {
		said[1] = "ipv6"
	}
	for _, w := range []struct {
		on   bool
		name string
	}{{v.Keys, "keys"}, {v.Legacy, "legacy"}, {v.Go, "go"}, {v.Split, "split"}, {v.FastPath, "fastpath"}} {
		if w.on {
			said = append(said, w.name)
		}
	}
	return strings.Join(said, ",")
}

// words of a variant, each with what it sets.
var words = []struct {
	name string
	set  func(*Variant)
}{
	{"release", func(v *Variant) { v.Build = "release" }},
	{"asan", func(v *Variant) { v.Build = "asan" }},
	{"tsan", func(v *Variant) { v.Build = "tsan" }},
	{"ipv4", func(v *Variant) { v.V6 = false }},
	{"ipv6", func(v *Variant) { v.V6 = true }},
	{"encapsulated", func(v *Variant) { v.Forwarding = "Encapsulated" }},
	{"transparent", func(v *Variant) { v.Forwarding = "Transparent" }},
	{"keys", func(v *Variant) { v.Keys = true }},
	{"legacy", func(v *Variant) { v.Legacy = true }},
	{"go", func(v *Variant) { v.Go = true }},
	{"split", func(v *Variant) { v.Split = true }},
	{"fastpath", func(v *Variant) { v.FastPath = true }},
}

// word applies one word; an error names all there are.
func (v *Variant) word(word string) error {
	names := make([]string, 0, len(words))
	for _, w := range words {
		if w.name == word {
			w.set(v)
			return nil
		}
		names = append(names, w.name)
	}
	return fmt.Errorf("%q is none of %s", word, strings.Join(names, ", "))
}

// ParseVariant reads a comma list; what is not named is ipv4, encapsulated,
// without keys.
func ParseVariant(text string) (Variant, error) {
	v := Variant{Build: "release", Forwarding: "Encapsulated"}
	for word := range strings.SplitSeq(text, ",") {
		if err := v.word(word); err != nil {
			return v, fmt.Errorf("variant %q: %w", text, err)
		}
	}
	if v.FastPath && (v.V6 || v.Legacy || v.Split || v.Forwarding != "Encapsulated") {
		return v, fmt.Errorf("variant %q: fastpath goes with ipv4 and encapsulated, without legacy and split", text)
	}
	if v.Legacy {
		v.Forwarding, v.Keys, v.Go = "Transparent", false, false // such peers take the client from the source address alone
	}
	return v, nil
}

// Sizes of every bed.
const (
	clientHost  = 0
	firstRouter = 1
	servers     = 3
	workers     = 2 // of each server
	depth       = 4 // n of each worker, shared by the routers

	maxQueue     = 1000 // ms in the central queue
	centralLimit = 1024
)

// How long servers take for a request, how long they are quiet before a drain
// is over, and how long a request takes that outlasts this.
const (
	fastService = 5 * time.Millisecond
	drainQuiet  = 500 * time.Millisecond
	slowService = 900 * time.Millisecond
)

func (v Variant) routers() int {
	if v.Legacy {
		return 1 // 16-byte FEEDBACK goes to one router (R-61 needs the long form)
	}
	return 2
}

func (v Variant) routerThreads() int64 {
	if v.Split {
		return 2
	}
	return 1
}

// fastPath is the routers' option.
func (v Variant) fastPath() string {
	if v.FastPath {
		return "--fast-path=require"
	}
	return "--fast-path=off"
}

func (v Variant) routerHost(i int) int { return firstRouter + i }
func (v Variant) serverHost(i int) int { return firstRouter + v.routers() + i }
func (v Variant) hosts() int           { return 1 + v.routers() + servers }

func (v Variant) address(host int) string {
	if v.V6 {
		return bed.V6(host)
	}
	return bed.V4(host)
}

// document is the configuration of the bed.
func (v Variant) document() *config.Document {
	d := &config.Document{
		APIVersion: config.APIVersion,
		Sources:    []config.Source{{Kind: "RpcService", Namespace: "faults", Name: "echo", UID: "u", Generation: 1}},
		Service: config.Service{
			Name: "echo", Namespace: "faults", Placement: "Software", Policy: "JBSQ", WorkerQueueDepth: depth,
			CentralQueueLimit: centralLimit, MaxQueueMilliseconds: maxQueue, Forwarding: v.Forwarding, DeviceProfile: "Kernel",
			LegacyPeers: "Deny", RequestTimeoutMilliseconds: 10000, WorkersPerReplica: workers,
		},
	}
	if v.Legacy {
		d.Service.LegacyPeers = "Allow"
	}
	if v.Keys {
		d.KeyIDs = []int{1}
	}
	for i := range servers {
		d.Members = append(d.Members, config.Member{Address: v.address(v.serverHost(i)), FirstPort: 8000, Workers: workers, Name: fmt.Sprintf("server-%d", i)})
	}
	for i := range v.routers() {
		d.Routers = append(d.Routers, config.Router{Address: v.address(v.routerHost(i)), RequestPort: 8000, FeedbackPort: 9000, Name: fmt.Sprintf("router-%d", i)})
	}
	return d
}
