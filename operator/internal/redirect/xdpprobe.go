// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

const (
	// A program's verdicts.
	xdpPass = 2
	xdpSend = 3
	// sendBatch frames are what the kernel sends in one go.
	sendBatch = 64
	// sendLeast test frames are sent, and more where the device sends others meanwhile.
	sendLeast, sendMost = 4 * sendBatch, 256 * sendBatch
	// Some drivers count late.
	sendPatience, sendLook = 300 * time.Millisecond, 10 * time.Millisecond
)

// xdpContext is the kernel's struct xdp_md.
type xdpContext struct{ Data, End, Meta, Ingress, Queue, Egress uint32 }

// verdict is a program that says the same of every frame.
func verdict(v int64) (*ebpf.Program, error) {
	return ebpf.NewProgram(&ebpf.ProgramSpec{Name: "crab_verdict", Type: ebpf.XDP, AttachType: ebpf.AttachXDP, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{asm.LoadImm(asm.R0, v, asm.DWord), asm.Return()}})
}

// counts tells whether a driver is known to count what XDP sends. Others may send all of it and count none: of them a
// count that stands still says nothing, and that they took the program has to do.
func counts(driver string) bool { return driver == "veth" }

// sends finds out whether the device, which runs a native program, sends what XDP_TX gives back: that a driver takes the
// program says nothing of it (a veth drops all of them unless its peer has a program as well). Test frames take
// that way, and must show in the device's own count. Where that cannot be decided it is no error: a program that
// may well work is not taken off.
func sends(device string, index int) error {
	if !counts(driverOf(device)) {
		return nil
	}
	bounce, err := verdict(xdpSend)
	if err != nil {
		return err
	}
	defer bounce.Close()
	d, err := net.InterfaceByName(device)
	if err != nil {
		return err
	}
	before, err := sent(device)
	if err != nil {
		return err
	}
	time.Sleep(sendLook)
	start, err := sent(device)
	if err != nil {
		return err
	}
	began, others := time.Now(), start-before
	frames := framesFor(others)
	if frames == 0 {
		return nil
	}
	if err := sendTest(bounce, d, index, frames); err != nil {
		return err
	}
	for {
		time.Sleep(sendLook)
		now, err := sent(device)
		if err != nil {
			return err
		}
		took := time.Since(began)
		if shown(now-start, others, took) >= uint64(frames)/2 {
			return nil
		}
		if took > sendPatience {
			return fmt.Errorf("of %d test frames by XDP_TX the device did not count half as sent", frames)
		}
	}
}

// framesFor is how many test frames can be told from so many packets of others in one look; 0: too many would be needed.
func framesFor(others uint64) int {
	if 16*others > sendMost {
		return 0
	}
	return max(sendLeast, 16*int(others)/sendBatch*sendBatch)
}

// shown is what of the frames the device counted cannot be others': twice as many of those as before are left out.
func shown(counted, others uint64, took time.Duration) uint64 {
	theirs := 2 * others * uint64(took/sendLook+1)
	if theirs >= counted {
		return 0
	}
	return counted - theirs
}

// sendTest sends frames to the device's own address: the next switch drops them, since that is where they come from.
func sendTest(bounce *ebpf.Program, d *net.Interface, index, frames int) error {
	frame := make([]byte, 60)
	copy(frame, d.HardwareAddr)
	copy(frame[6:], d.HardwareAddr)
	frame[12], frame[13] = 0x88, 0xb5 // IEEE: for local experiments
	for range frames / sendBatch {
		_, err := bounce.Run(&ebpf.RunOptions{Data: frame, Repeat: sendBatch, Flags: unix.BPF_F_TEST_XDP_LIVE_FRAMES,
			Context: xdpContext{End: uint32(len(frame)), Ingress: uint32(index)}})
		if err != nil {
			return fmt.Errorf("test frames by XDP_TX: %w", err)
		}
	}
	return nil
}

// sent is how many packets the device says it has sent.
func sent(device string) (uint64, error) {
	f, err := os.Open("/proc/thread-self/net/dev")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, counts, _ := strings.Cut(lines.Text(), ":")
		if fields := strings.Fields(counts); strings.TrimSpace(name) == device && len(fields) > 9 {
			return strconv.ParseUint(fields[9], 10, 64)
		}
	}
	return 0, errors.New("/proc/net/dev does not know the device " + device)
}
