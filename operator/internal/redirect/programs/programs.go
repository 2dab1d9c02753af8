// SPDX-License-Identifier: Apache-2.0

// Package programs holds the compiled eBPF programs of dataplane/bpf and the Go
// form of what lies in their maps, both written by bpf2go (hack/generate-bpf).
package programs

import "github.com/cilium/ebpf"

// Specs are the objects by file name, parsed anew at each call.
func Specs() (map[string]*ebpf.CollectionSpec, error) {
	specs := map[string]*ebpf.CollectionSpec{}
	for name, load := range map[string]func() (*ebpf.CollectionSpec, error){
		"crab_client":  loadClient,
		"crab_server":  loadServer,
		"crab_lb":      loadLb,
		"crab_balance": loadBalance,
		"crab_watch":   loadWatch,
		"crab_tunnel":  loadTunnel,

		"crab_client6":  loadClient6,
		"crab_server6":  loadServer6,
		"crab_lb6":      loadLb6,
		"crab_balance6": loadBalance6,
		"crab_watch6":   loadWatch6,
		"crab_tunnel6":  loadTunnel6,
	} {
		spec, err := load()
		if err != nil {
			return nil, err
		}
		specs[name] = spec
	}
	return specs, nil
}

// What lies in the maps and has no address in it (dataplane/bpf/crab_layout.h).
type (
	Meta    = balanceCrabMeta
	VIP     = balanceCrabVip
	Load    = balanceCrabLoad
	Pending = clientCrabPending
	Conn    = watchCrabConn
	Conn4   = watchCrabTuple  // key of crab_conns
	Conn6   = watch6CrabTuple // and of crab_conns6
)

// SixEntries are the places of the IPv6 programs in crab_six and, those for XDP,
// in crab_six_xdp (dataplane/bpf/crab_six.h), by the IPv4 program that goes there.
var SixEntries = map[string]struct {
	Map   string
	Entry uint32
}{
	"crab_client_out":     {"crab_six", 0},
	"crab_client_out_pod": {"crab_six", 1},
	"crab_client_in":      {"crab_six", 2},
	"crab_client_in_near": {"crab_six", 3},
	"crab_server_in":      {"crab_six", 4},
	"crab_server_out":     {"crab_six", 5},
	"crab_server_out_pod": {"crab_six", 6},
	"crab_balance_in":     {"crab_six", 7},
	"crab_balance_out":    {"crab_six", 8},
	"crab_watch_in":       {"crab_six", 11},
	"crab_watch_out":      {"crab_six", 12},
	"crab_tunnel_in":      {"crab_six", 13},
	"crab_lb_native":      {"crab_six_xdp", 9},
	"crab_lb_generic":     {"crab_six_xdp", 10},
}
