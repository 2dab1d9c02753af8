// SPDX-License-Identifier: Apache-2.0

package hostfacts

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// Paths of what can change how fast processors run, and what tells what that takes.
const (
	frequencies = "sys/devices/system/cpu/cpu0/cpufreq"
	powercap    = "sys/class/powercap"
)

// power is what scheduling and its actuators find here (D-6): who gives processors away,
// what sets their frequency, and what measures energy. Each that is absent says why.
func (r reader) power(given Given, k kubelet) *v1alpha1.HostPower {
	return &v1alpha1.HostPower{CPUManager: cpuManager(given, k), CPUFrequency: r.cpuFrequency(), RAPL: r.rapl()}
}

func there(value string) v1alpha1.HostAbility {
	return v1alpha1.HostAbility{State: v1alpha1.AbilityPresent, Value: bounded(value, 128)}
}

func absent(format string, args ...any) v1alpha1.HostAbility {
	return v1alpha1.HostAbility{State: v1alpha1.AbilityAbsent, Reason: bounded(fmt.Sprintf(format, args...), 256)}
}

// cpuManager is static where the kubelet has processors to give to containers alone.
func cpuManager(given Given, k kubelet) v1alpha1.HostAbility {
	switch {
	case !k.asked:
		return absent("the kubelet was not asked: set nodes.podResources in the chart's values")
	case k.err != nil:
		return absent("the kubelet does not answer: %v", k.err)
	case len(given.CPUs) == 0:
		return absent("the kubelet gives no container processors for itself: give it cpuManagerPolicy static, with CPUs reserved for the system")
	}
	return there("static")
}

// cpuFrequency is the driver and governor of the first processor.
func (r reader) cpuFrequency() v1alpha1.HostAbility {
	driver := r.text(frequencies + "/scaling_driver")
	if driver == "" {
		return absent("the kernel has no cpufreq: a virtual machine whose host keeps it, or no driver for this processor")
	}
	if r.text(frequencies+"/scaling_available_governors") == "" {
		return absent("the driver %s lets nobody choose a governor", driver)
	}
	return there(driver + ", governor " + cmp.Or(r.text(frequencies+"/scaling_governor"), "unknown"))
}

// rapl is the domains whose energy is counted.
func (r reader) rapl() v1alpha1.HostAbility {
	var names []string
	for _, zone := range r.names(powercap, "") {
		if !strings.Contains(zone, "rapl:") || strings.Count(zone, ":") != 1 {
			continue
		}
		if r.text(powercap+"/"+zone+"/energy_uj") == "" {
			return absent("the counter of %s cannot be read from here: it is root's, and container runtimes hide it", zone)
		}
		names = append(names, cmp.Or(r.text(powercap+"/"+zone+"/name"), zone))
	}
	if len(names) == 0 {
		return absent("the kernel has no RAPL domain: a virtual machine, or a processor without")
	}
	return there(strings.Join(names, ","))
}
