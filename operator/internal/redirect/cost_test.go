// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/bobtail-dev/bobtail/hack/test/privileged"
)

// What the agent attaches to a node's uplink and to a pod's device, in the order of the hooks.
var onEveryNode = []string{
	"crab_client_out", "crab_balance_out", "crab_server_out", "crab_balance_in", "crab_server_in", "crab_client_in", // uplink
	"crab_client_in_near", "crab_server_out_pod", // a pod's device; crab_server_in is there as well
}

// costNode has a VIP for its clients, as every node has, and balances another one if it has that role.
func costNode(b *testing.B, balances bool) *Node {
	n := openTest(b, Options{Sizes: Sizes{Flows: 262144, Pending: 65536, Echoes: 65536, SYNs: 65536, DSR: 65536}})
	if err := n.SetVIP(VIP{VIPKey: VIPKey{testVIP, 80}, Roles: RoleClient, Prefixes: nil}); err != nil {
		b.Fatal(err)
	}
	if balances {
		if err := n.SetVIP(VIP{VIPKey: VIPKey{at("192.0.2.2"), 80}, Roles: RoleBalance, Backends: servers(2)}); err != nil {
			b.Fatal(err)
		}
	}
	return n
}

// BenchmarkOthers is what a packet costs that is none of CRAB's business, in each program that a node has on its devices:
// go test -run=NONE -bench=Others -count=7 ./operator/internal/redirect
func BenchmarkOthers(b *testing.B) {
	privileged.Need(b, "loads eBPF programs")
	data := packet{src: at("10.1.0.1"), dst: at("10.2.0.9"), sport: 40000, dport: 5432, flags: ack, seq: 1, ack: 1, data: make([]byte, 64)}
	bare := data
	bare.data = nil
	for role, balances := range map[string]bool{"idle": false, "balancing": true} {
		b.Run(role, func(b *testing.B) {
			n := costNode(b, balances)
			b.Run("nothing", func(b *testing.B) { measureProgram(b, nothing(b), data) }) // what being called costs here: subtract it
			for _, program := range onEveryNode {
				for kind, p := range map[string]packet{"data": data, "ack": bare} {
					b.Run(program+"/"+kind, func(b *testing.B) { measure(b, n, program, p) })
				}
			}
		})
	}
}

func measure(b *testing.B, n *Node, program string, p packet) {
	prog, err := n.program(program)
	if err != nil {
		b.Fatal(err)
	}
	measureProgram(b, prog, p)
}

// nothing is a program that lets everything pass.
func nothing(b *testing.B) *ebpf.Program {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm32(asm.R0, -1), asm.Return()}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { p.Close() })
	return p
}

func measureProgram(b *testing.B, prog *ebpf.Program, p packet) {
	verdict, took, err := prog.Benchmark(p.bytes(), max(b.N, 1000), nil)
	if err != nil || verdict != next {
		b.Fatalf("verdict %d: %v", int32(verdict), err)
	}
	b.ReportMetric(float64(took.Nanoseconds()), "ns/packet")
}
