// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect/programs"
)

func testServer() netip.AddrPort { return netip.AddrPortFrom(testDIP, 80) }

// watchNode watches testDIP:80.
func watchNode(t *testing.T) *Node {
	n := sharedNode(t)
	if err := n.Watch([]netip.AddrPort{testServer()}); err != nil {
		t.Fatal(err)
	}
	return n
}

// say is one packet of a connection with the given client port: ">" of the client.
func say(t *testing.T, n *Node, who byte, port uint16, flags byte, data string) {
	t.Helper()
	p := packet{src: testClient, dst: testDIP, sport: port, dport: 80, flags: flags, seq: 100, ack: 200, data: []byte(data)}
	program := "crab_watch_in"
	if who == '<' {
		program = "crab_watch_out"
		p.src, p.dst, p.sport, p.dport = p.dst, p.src, p.dport, p.sport
	}
	if verdict, _ := run(t, n, program, p); verdict != next {
		t.Fatalf("%s ended the chain: %d", program, int32(verdict))
	}
}

func open(t *testing.T, n *Node, want uint32, when string) {
	t.Helper()
	all, err := n.Connections()
	if got, there := all[testServer()]; err != nil || !there || got != want {
		t.Errorf("C-62: %s %d connections are open, want %d (%v, %v)", when, got, want, all, err)
	}
}

func shake(t *testing.T, n *Node, port uint16) {
	say(t, n, '>', port, syn, "")
	say(t, n, '<', port, syn|ack, "")
	say(t, n, '>', port, ack, "")
}

// C-62: a connection counts from the client's ACK to the server's FIN or anybody's RST.
func TestConnectionsAreCounted(t *testing.T) { bothFamilies(t, connectionsAreCounted) }

func connectionsAreCounted(t *testing.T) {
	n := watchNode(t)
	open(t, n, 0, "before any packet")
	say(t, n, '>', 1, syn, "")
	open(t, n, 0, "after the SYN")
	say(t, n, '<', 1, syn|ack, "")
	open(t, n, 0, "without the client's ACK")
	say(t, n, '>', 1, ack, "")
	open(t, n, 1, "after the handshake")
	for port := uint16(2); port <= 4; port++ {
		shake(t, n, port)
	}
	open(t, n, 4, "after three more")
	say(t, n, '>', 1, fin|ack, "bye")
	open(t, n, 4, "while the server has not closed")
	say(t, n, '<', 1, fin|ack, "")
	say(t, n, '>', 1, ack, "")
	open(t, n, 3, "after both FINs and the last ACK")
	say(t, n, '>', 2, rst, "")
	say(t, n, '<', 3, rst|ack, "")
	open(t, n, 1, "after two resets")
	shake(t, n, 4)
	open(t, n, 1, "after a new handshake with the same addresses")
}

// A connection that was there before the programs counts from its data on; the
// last packets of one that has ended do not bring it back.
func TestOlderConnectionsAreFound(t *testing.T) { bothFamilies(t, olderConnectionsAreFound) }

func olderConnectionsAreFound(t *testing.T) {
	n := watchNode(t)
	say(t, n, '>', 1, ack, "")
	say(t, n, '>', 2, fin|ack, "x")
	say(t, n, '>', 3, rst, "")
	say(t, n, '<', 4, fin|ack, "x")
	open(t, n, 0, "after bare ACKs and ends of unknown connections")
	say(t, n, '>', 1, ack, "GET")
	open(t, n, 1, "after data")
}

// Nobody asks for other servers, ports and directions: they take no room.
func TestOnlyWatchedServersAreCounted(t *testing.T) { bothFamilies(t, onlyWatchedServersAreCounted) }

func onlyWatchedServersAreCounted(t *testing.T) {
	n := watchNode(t)
	for _, p := range []packet{
		{src: testClient, dst: testDIP, sport: 5, dport: 81, flags: ack, data: []byte("x")},
		{src: testClient, dst: testVIP, sport: 5, dport: 80, flags: ack, data: []byte("x")},
		{src: testDIP, dst: testClient, sport: 80, dport: 5, flags: ack, data: []byte("x")},
	} {
		run(t, n, "crab_watch_in", p)
	}
	run(t, n, "crab_watch_out", packet{src: testClient, dst: testDIP, sport: 5, dport: 80, flags: syn | ack})
	if held := len(held(t, n)); held != 0 {
		t.Errorf("%d connections are held", held)
	}
	shake(t, n, 6)
	other := netip.AddrPortFrom(at("10.2.0.9"), 81)
	if err := n.Watch([]netip.AddrPort{other}); err != nil {
		t.Fatal(err)
	}
	if all, err := n.Connections(); err != nil || len(all) != 1 || all[other] != 0 {
		t.Errorf("watched now: %v, %v", all, err)
	}
	if held := len(held(t, n)); held != 0 {
		t.Errorf("a server that is watched no more keeps %d connections", held)
	}
}

// Servers of both families are counted beside each other.
func TestBothFamiliesAreCounted(t *testing.T) {
	n := sharedNode(t)
	var servers []netip.AddrPort
	for _, f := range families {
		speak(f)
		servers = append(servers, testServer())
	}
	defer speak(four)
	if err := n.Watch(servers); err != nil {
		t.Fatal(err)
	}
	for i, f := range families {
		speak(f)
		for port := range uint16(i + 1) {
			shake(t, n, port+1)
		}
	}
	if all, err := n.Connections(); err != nil || len(all) != 2 || all[servers[0]] != 1 || all[servers[1]] != 2 {
		t.Errorf("C-62: %v, %v", all, err)
	}
	if err := n.Watch(servers[:1]); err != nil {
		t.Fatal(err)
	}
	if all, err := n.Connections(); err != nil || len(all) != 1 || all[servers[0]] != 1 {
		t.Errorf("C-62: without the IPv6 server %v, %v", all, err)
	}
}

// conn is a key of crab_conns of the family that is spoken.
func conn(client netip.Addr, port uint16) any {
	if testFamily == four {
		return programs.Conn4{Client: words(client)[0], Server: words(testDIP)[0], ClientPort: wirePort(port), ServerPort: wirePort(80)}
	}
	c := programs.Conn6{ClientPort: wirePort(port), ServerPort: wirePort(80)}
	copy(c.Client.Word[:], words(client))
	copy(c.Server.Word[:], words(testDIP))
	return c
}

// held are the client ports of all connections of that family.
func held(t *testing.T, n *Node) map[uint16]bool {
	t.Helper()
	all := map[uint16]bool{}
	m := n.m(testFamily, "crab_conns")
	var err error
	if testFamily == four {
		err = eachConn(m, func(c programs.Conn4, _ programs.Conn) { all[goPort(c.ClientPort)] = true })
	} else {
		err = eachConn(m, func(c programs.Conn6, _ programs.Conn) { all[goPort(c.ClientPort)] = true })
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// What ends without a word is forgotten in the end: half-open after 65 s, open after two and a half hours.
func TestSilentConnectionsAreForgotten(t *testing.T) { bothFamilies(t, silentConnectionsAreForgotten) }

func silentConnectionsAreForgotten(t *testing.T) {
	n := watchNode(t)
	set := func(port uint16, isOpen uint8, age time.Duration) {
		if err := n.m(testFamily, "crab_conns").Put(conn(testClient, port), programs.Conn{SeenNs: monotonic() - uint64(age), Open: isOpen}); err != nil {
			t.Fatal(err)
		}
	}
	minute := time.Minute
	set(1, 0, minute)
	set(2, 1, 149*minute)
	if time.Duration(monotonic()) > 151*minute {
		set(3, 0, 2*minute)
		set(4, 1, 151*minute)
	}
	open(t, n, 1, "of open ones")
	if held := held(t, n); len(held) != 2 || !held[1] || !held[2] {
		t.Errorf("held %v, want 1 and 2", held)
	}
}

// The table has an end; a connection too many is counted as such, and no packet lost.
func TestMoreConnectionsThanRoom(t *testing.T) { bothFamilies(t, moreConnectionsThanRoom) }

func moreConnectionsThanRoom(t *testing.T) {
	n := watchNode(t)
	const room = 65536
	fill(t, n, room)
	start := time.Now()
	open(t, n, room, "with a full table")
	t.Logf("%d connections are counted in %v", room, time.Since(start))
	shake(t, n, 7)
	open(t, n, room, "with one too many")
	counted(t, n, map[string]uint64{"server_watch_full": 1})
}

// fill the table with open connections of the test's server.
func fill(t *testing.T, n *Node, room int) {
	t.Helper()
	four, six, values := make([]programs.Conn4, room), make([]programs.Conn6, room), make([]programs.Conn, room)
	for i := range room {
		client := at(netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(0x0b000000+i)))).String())
		switch c := conn(client, 9).(type) {
		case programs.Conn4:
			four[i] = c
		case programs.Conn6:
			six[i] = c
		}
		values[i] = programs.Conn{SeenNs: monotonic(), Open: 1}
	}
	var keys any = four
	if testFamily.addrSize == 16 {
		keys = six
	}
	if _, err := n.m(testFamily, "crab_conns").BatchUpdate(keys, values, nil); err != nil {
		t.Fatal(err)
	}
}

// words of an address as they lie in memory.
func words(a netip.Addr) []uint32 {
	var out []uint32
	for b := a.AsSlice(); len(b) > 0; b = b[4:] {
		out = append(out, binary.NativeEndian.Uint32(b))
	}
	return out
}

func wirePort(port uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, port))
}
