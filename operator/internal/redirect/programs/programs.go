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
	} {
		spec, err := load()
		if err != nil {
			return nil, err
		}
		specs[name] = spec
	}
	return specs, nil
}

// What lies in the maps (dataplane/bpf/crab_layout.h).
type (
	Meta      = balanceCrabMeta
	VIPKey    = balanceCrabVipKey
	VIP       = balanceCrabVip
	Load      = balanceCrabLoad
	Tuple     = clientCrabTuple
	Pending   = clientCrabPending
	Flow      = clientCrabFlow
	Reverse   = clientCrabReverse
	PrefixKey = clientCrabPrefixKey
	Echo      = serverCrabEcho
	SYNKey    = balanceCrabSynKey
	SYN       = balanceCrabSyn
	Conn      = watchCrabConn
)
