// SPDX-License-Identifier: Apache-2.0

// Package remedy says what helps a member of a group that is not well. Pure.
package remedy

import "fmt"

// Member is one that is not well: why it says that it is, its pod, and whether its group can still agree. Without a
// majority every disk may hold the only copy of an answered write.
type Member struct {
	Reason, Namespace, Pod string
	Quorum                 bool
}

// newDisk is what replaces a disk, and keepDisk what is said while none may be thrown away.
const (
	newDisk  = "give it an empty disk, which makes it a new member: kubectl -n %[1]s delete pvc data-%[2]s --wait=false, then kubectl -n %[1]s delete pod %[2]s"
	keepDisk = "keep its disk until a majority runs again: kubectl -n %[1]s logs %[2]s -c member says more"
)

// remedies by the reason that a member gives (docs/reference/bobtail-replica.md): with a majority, and without one.
var remedies = map[string][2]string{
	"DiskFull":    {roomThenRestart, roomThenRestart},
	"DiskFailed":  {"repair its volume, then kubectl -n %[1]s delete pod %[2]s; or " + newDisk, "repair its volume, then kubectl -n %[1]s delete pod %[2]s; " + keepDisk},
	"DiskDamaged": {newDisk, keepDisk},
	"DiskForeign": {newDisk, keepDisk},
	"WrongDisk":   {newDisk, keepDisk},
	"Removed":     {newDisk, keepDisk},
	"Diverged":    {divergedAgain, divergedAgain},
	"State":       {"its server did not take up what was written: kubectl -n %[1]s logs %[2]s -c member; is its image the others'?", "its server did not take up what was written: kubectl -n %[1]s logs %[2]s -c member"},
	"DiskBusy":    {"another process has its disk open: kubectl -n %[1]s get pods -o wide; end the pod that is left over", "another process has its disk open: kubectl -n %[1]s get pods -o wide; end the pod that is left over"},
}

const roomThenRestart = "make its volume larger (kubectl -n %[1]s edit pvc data-%[2]s, where the class allows it) or free space there, then kubectl -n %[1]s delete pod %[2]s; it goes on where it was"

const divergedAgain = "it gets the leader's state by itself; if it differs again, so may its image, or its node is not sound: kubectl -n %[1]s get pod %[2]s -o wide, and kubectl -n %[1]s logs %[2]s -c member"

// Says is the command or the change that helps; "" where time does, or where only the pod tells more.
func (m Member) Says() string {
	both, known := remedies[m.Reason]
	if !known {
		return ""
	}
	if m.Quorum {
		return fmt.Sprintf(both[0], m.Namespace, m.Pod)
	}
	return fmt.Sprintf(both[1], m.Namespace, m.Pod)
}
