// SPDX-License-Identifier: Apache-2.0

package hostfacts

import (
	"errors"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

const rapl0 = "sys/class/powercap/intel-rapl:0/"

// powered has all of it.
var powered = bare.with(tree{
	frequencies + "/scaling_driver": "intel_cpufreq", frequencies + "/scaling_governor": "schedutil", frequencies + "/scaling_available_governors": "performance schedutil",
	rapl0 + "name": "package-0", rapl0 + "energy_uj": "123", "sys/class/powercap/intel-rapl:0:0/name": "core", "sys/class/powercap/intel-rapl/enabled": "1",
})

// D-6: what there is, and of what there is not, why.
func TestPower(t *testing.T) {
	gives := func(cpus ...int64) func() (Given, error) {
		return func() (Given, error) { return Given{CPUs: cpus}, nil }
	}
	for _, c := range []struct {
		name                        string
		root                        tree
		kubelet                     func() (Given, error)
		manager, frequency, counter string // begins with "!": absent, for this reason
	}{
		{"all of it", powered, gives(1, 2), "static", "intel_cpufreq, governor schedutil", "package-0"},
		{"nothing", bare, nil, "!was not asked", "!no cpufreq", "!no RAPL"},
		{"a kubelet that has none to give", bare, gives(), "!cpuManagerPolicy static", "!no cpufreq", "!no RAPL"},
		{"a kubelet that does not answer", bare, func() (Given, error) { return Given{}, errors.New("gone") }, "!does not answer: gone", "!no cpufreq", "!no RAPL"},
		{"a driver without governors", powered.with(tree{frequencies + "/scaling_available_governors": ""}), gives(1), "static", "!nobody choose", "package-0"},
		{"a counter of root's", powered.with(tree{rapl0 + "energy_uj": ""}), gives(1), "static", "intel_cpufreq", "!hide it"},
	} {
		p := Read(Sources{Root: c.root.plant(t), Kubelet: c.kubelet}).Power
		for _, one := range []struct {
			of   string
			got  v1alpha1.HostAbility
			want string
		}{{"CPU manager", p.CPUManager, c.manager}, {"frequency", p.CPUFrequency, c.frequency}, {"RAPL", p.RAPL, c.counter}} {
			reason, isAbsent := strings.CutPrefix(one.want, "!")
			if isAbsent != (one.got.State == v1alpha1.AbilityAbsent) || !strings.Contains(one.got.Reason+one.got.Value, reason) || isAbsent != (one.got.Reason != "") {
				t.Errorf("%s, %s: %+v, want %s", c.name, one.of, one.got, one.want)
			}
		}
	}
}
