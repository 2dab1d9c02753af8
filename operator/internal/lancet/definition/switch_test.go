// SPDX-License-Identifier: Apache-2.0

package definition

import (
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func example(t *testing.T, name string) Definition {
	t.Helper()
	raw, err := os.ReadFile("../../../../examples/slog/" + name)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// S-6: one file says targets, load and interarrival to both generators.
func TestOneFileForBothGenerators(t *testing.T) {
	d := example(t, "echo.yaml")
	if err := d.Validate(); err != nil {
		t.Errorf("lancet: %v", err)
	}
	if err := d.ForSwitch(); err != nil {
		t.Errorf("switch: %v", err)
	}
	if e := d.Experiments(); len(e) != 1 || e[0].Load != 2e6 || len(d.Configuration(0).Targets) != 3 {
		t.Errorf("lancet reads %+v", e)
	}
	// What is wrong with the shared part is wrong for both, in the same words.
	d.Targets[0].Port, d.Load.RequestsPerSecond, d.Interarrival.Kind = 0, -1, "table"
	lancet, forSwitch := d.Validate(), d.ForSwitch()
	for _, want := range []string{"targets[0].port: 0: must be", "load.requestsPerSecond: -1: must be", "interarrival.gapsNanoseconds: 0 gaps: must be"} {
		if lancet == nil || forSwitch == nil || !strings.Contains(lancet.Error(), want) || !strings.Contains(forSwitch.Error(), want) {
			t.Errorf("%q is missing in\n%v\nor in\n%v", want, lancet, forSwitch)
		}
	}
}

// Lancet does not run what needs the switch, and says what of it it would run.
func TestLancetRefusesWhatNeedsTheSwitch(t *testing.T) {
	d := example(t, "bimodal.yaml")
	if err := d.ForSwitch(); err != nil {
		t.Errorf("switch: %v", err)
	}
	err := d.Validate()
	for _, want := range []string{"switch: needed by this definition", "targets, load and interarrival", "--protocol", "interarrival.kind: bimodal", "as a table"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
	d.Protocol, d.Interarrival = "http", Interarrival{}
	if err := d.Validate(); err != nil {
		t.Errorf("with a protocol and gaps that agents draw: %v", err)
	}
}

// switchRows change a definition that is right.
var switchRows = map[string]struct {
	change func(*Definition)
	want   string // empty: valid
}{
	"nothing":            {func(d *Definition) { d.Switch = nil }, "switch: none: must be given"},
	"no packets":         {func(d *Definition) { d.Switch.Packets = 0 }, "switch.packets: 0: must be between"},
	"more than a day":    {func(d *Definition) { d.Switch.Packets, d.Load.RequestsPerSecond = 1e9, 1000 }, "switch.packets: 1000000000: must be sent within a day"},
	"as many as a day":   {func(d *Definition) { d.Switch.Packets, d.Load.RequestsPerSecond = 86_400_000, 1000 }, ""},
	"one more":           {func(d *Definition) { d.Switch.Packets, d.Load.RequestsPerSecond = 86_400_001, 1000 }, "switch.packets: 86400001: must be sent within a day"},
	"one packet":         {func(d *Definition) { d.Switch.Packets = 1 }, ""},
	"beyond counting":    {func(d *Definition) { d.Switch.Packets = 1e15 + 1 }, "switch.packets: 1000000000000001: must be between"},
	"the fastest":        {func(d *Definition) { d.Switch.GigabitsPerSecond = 100 }, ""},
	"backwards":          {func(d *Definition) { d.Switch.GigabitsPerSecond = -1 }, "switch.gigabitsPerSecond: -1: must be above 0"},
	"the longest frame":  {func(d *Definition) { d.Switch.Packet.Bytes, d.Load.RequestsPerSecond = 9216, 1000 }, ""},
	"longer":             {func(d *Definition) { d.Switch.Packet.Bytes = 9217 }, "switch.packet.bytes: 9217: must be"},
	"the shortest frame": {func(d *Definition) { d.Switch.Packet.Bytes = 64 }, ""},
	"a SYN of zeros":     {func(d *Definition) { d.Switch.Packet.Transport, d.Switch.Packet.Template = "tcp-syn", "zeros" }, ""},
	"a SYN":              {func(d *Definition) { d.Switch.Packet.Transport, d.Switch.Packet.Template = "tcp-syn", "" }, ""},
	"id of DNS": {func(d *Definition) {
		d.Switch.Packet.Template, d.Switch.Stamp = "dns", Stamp{Fields: []string{"l4SourcePort", "applicationId"}}
	}, ""},
	"third field wrong": {func(d *Definition) { d.Switch.Stamp.Fields = append(d.Switch.Stamp.Fields, "payload") }, "switch.stamp.fields[2]: payload: must be one of"},
	"a network for nothing": {func(d *Definition) {
		d.Switch.Stamp.Fields = []string{"l4SourcePort", "applicationId"}
		d.Switch.Stamp.SourceNetwork = "10.1.0.0/16"
	}, "switch.stamp.sourceNetwork: 10.1.0.0/16: must be given with"},
	"a network of IPv6": {func(d *Definition) { d.Switch.Stamp.SourceNetwork = "fd00::/16" }, "switch.stamp.sourceNetwork: fd00::/16: must be an IPv4 network"},
	"the coarsest tick": {func(d *Definition) {
		d.Switch.Stamp.TickNanoseconds, d.Switch.Histogram.MinNanoseconds = 1_000_000, 1_000_000
	}, ""},
	"coarser": {func(d *Definition) {
		d.Switch.Stamp.TickNanoseconds, d.Switch.Histogram.MinNanoseconds = 1_000_001, 1_000_001
	},
		"switch.stamp.tickNanoseconds: 1000001: must be between"},
	"negative tick":         {func(d *Definition) { d.Switch.Stamp.TickNanoseconds = -1 }, "switch.stamp.tickNanoseconds: -1: must be between"},
	"as coarse as a bucket": {func(d *Definition) { d.Switch.Stamp.TickNanoseconds = 100 }, ""},
	"from one nanosecond":   {func(d *Definition) { d.Switch.Histogram.MinNanoseconds = 1 }, ""},
	"from a negative one":   {func(d *Definition) { d.Switch.Histogram.MinNanoseconds = -1 }, "switch.histogram.minNanoseconds: -1: must be 1 or more"},
	"nothing between":       {func(d *Definition) { d.Switch.Histogram.MaxNanoseconds = 100 }, "switch.histogram.maxNanoseconds: 100: must be above"},
	"one between":           {func(d *Definition) { d.Switch.Histogram.MaxNanoseconds = 101 }, ""},
	"the longest latency": {func(d *Definition) {
		d.Switch.Stamp.TickNanoseconds, d.Switch.Histogram = 1000, SwitchHistogram{MinNanoseconds: 1000, MaxNanoseconds: 1e12}
	}, ""},
	"longer than that": {func(d *Definition) {
		d.Switch.Stamp.TickNanoseconds, d.Switch.Histogram = 1000, SwitchHistogram{MinNanoseconds: 1000, MaxNanoseconds: 1e12 + 1}
	}, "switch.histogram.maxNanoseconds: 1000000000001: must be above"},
	"the smallest error":  {func(d *Definition) { d.Switch.Histogram = SwitchHistogram{MaxNanoseconds: 200, RelativeError: 0.0001} }, ""},
	"smaller":             {func(d *Definition) { d.Switch.Histogram = SwitchHistogram{MaxNanoseconds: 200, RelativeError: 0.00009} }, "switch.histogram.relativeError: 9e-05: must be"},
	"the largest error":   {func(d *Definition) { d.Switch.Histogram.RelativeError = 0.5 }, ""},
	"kind by name":        {func(d *Definition) { d.Switch.Histogram.Kind = "logLinear" }, ""},
	"generator too fast":  {func(d *Definition) { d.Switch.GigabitsPerSecond = 400 }, "switch.gigabitsPerSecond: 400: must be above 0 and at most 100"},
	"the highest rate":    {func(d *Definition) { d.Load.RequestsPerSecond = 29.7e6 }, ""},
	"gaps like a lattice": {func(d *Definition) { d.Load.RequestsPerSecond = 29.8e6 }, "load: 2.98e+07 requests/s: must be at most 2.97619e+07"},
	"larger packets":      {func(d *Definition) { d.Switch.Packet.Bytes = 1500 }, "load: 2e+06 requests/s: must be at most 1.64474e+06"},
	"TCP data":            {func(d *Definition) { d.Switch.Packet.Transport = "tcp" }, "switch.packet.transport: tcp: must be udp or tcp-syn"},
	"a runt":              {func(d *Definition) { d.Switch.Packet.Bytes = 63 }, "switch.packet.bytes: 63: must be"},
	"template":            {func(d *Definition) { d.Switch.Packet.Template = "x" }, "switch.packet.template: x: must be"},
	"payload of a SYN":    {func(d *Definition) { d.Switch.Packet.Transport = "tcp-syn" }, "switch.packet.template: r2p2-echo: must be left out"},
	"no stamp":            {func(d *Definition) { d.Switch.Stamp = Stamp{} }, "switch.stamp.fields: none: must be some of l4SourcePort"},
	"stamp in payload":    {func(d *Definition) { d.Switch.Stamp.Fields[0] = "payload" }, "switch.stamp.fields[0]: payload: must be one of"},
	"a field twice":       {func(d *Definition) { d.Switch.Stamp.Fields[0] = "ipv4SourceLow16" }, "switch.stamp.fields[1]: ipv4SourceLow16: must be named once"},
	"id without one": {func(d *Definition) {
		d.Switch.Packet.Template, d.Switch.Stamp.Fields = "", []string{"l4SourcePort", "applicationId"}
	}, "switch.stamp.fields: applicationId: must be left out"},
	"id of R2P2": {func(d *Definition) {
		d.Switch.Stamp = Stamp{Fields: []string{"l4SourcePort", "applicationId"}}
	}, ""},
	"no network":       {func(d *Definition) { d.Switch.Stamp.SourceNetwork = "" }, "switch.stamp.sourceNetwork: : must be given with"},
	"another network":  {func(d *Definition) { d.Switch.Stamp.SourceNetwork = "10.1.0.0/24" }, "switch.stamp.sourceNetwork: 10.1.0.0/24: must be an IPv4 network of 16 bits"},
	"a host's network": {func(d *Definition) { d.Switch.Stamp.SourceNetwork = "10.1.2.0/16" }, "switch.stamp.sourceNetwork: 10.1.2.0/16: must be"},
	"16 bits of 1 ns": {func(d *Definition) {
		d.Switch.Stamp = Stamp{Fields: []string{"l4SourcePort"}}
	}, "switch.histogram.maxNanoseconds: 100000000: must be below 32256, half of where the stamp begins anew"},
	"16 bits of 64 ns": {func(d *Definition) {
		d.Switch.Stamp = Stamp{Fields: []string{"l4SourcePort"}, TickNanoseconds: 64}
		d.Switch.Histogram.MaxNanoseconds = 2_064_383
	}, ""},
	"half of 16 bits of 64 ns": {func(d *Definition) {
		d.Switch.Stamp = Stamp{Fields: []string{"l4SourcePort"}, TickNanoseconds: 64}
		d.Switch.Histogram.MaxNanoseconds = 2_064_384
	}, "switch.histogram.maxNanoseconds: 2064384: must be below"},
	"coarser than a bucket": {func(d *Definition) { d.Switch.Stamp.TickNanoseconds = 101 }, "switch.stamp.tickNanoseconds: 101: must be at most histogram.minNanoseconds, 100"},
	"kind":                  {func(d *Definition) { d.Switch.Histogram.Kind = "linear" }, "switch.histogram.kind: linear: must be logLinear"},
	"upside down":           {func(d *Definition) { d.Switch.Histogram.MaxNanoseconds = 50 }, "switch.histogram.maxNanoseconds: 50: must be above minNanoseconds"},
	"error":                 {func(d *Definition) { d.Switch.Histogram.RelativeError = 0.9 }, "switch.histogram.relativeError: 0.9: must be"},
	"no number":             {func(d *Definition) { d.Switch.Histogram.RelativeError = math.NaN() }, "switch.histogram.relativeError: NaN: must be"},
	"too many buckets":      {func(d *Definition) { d.Switch.Histogram.RelativeError = 0.001 }, "switch.histogram: 9367 buckets: must be at most 4096"},
	"a name":                {func(d *Definition) { d.Targets[0].Host = "web" }, "targets[0].host: web: must be an IPv4 address"},
	"IPv6":                  {func(d *Definition) { d.Targets[1].Host = "fd00::1" }, "targets[1].host: fd00::1: must be an IPv4 address"},
	"steps":                 {func(d *Definition) { d.Load = Load{Steps: []Step{{1000, 1}}} }, "load.steps: 1 steps: must be left out for a switch"},
	"a wave":                {func(d *Definition) { d.Load = Load{Sine: &Sine{1000, 100, 10, 10, 1}} }, "load.sine: a wave: must be left out for a switch"},
	"gaps of two lengths":   {func(d *Definition) { d.Interarrival = Interarrival{Kind: "bimodal", Bimodal: &Bimodal{0.1, 10}} }, ""},
	"of which lengths":      {func(d *Definition) { d.Interarrival.Kind = "bimodal" }, "interarrival.bimodal: false: must be given with kind bimodal"},
	"of the same length": {func(d *Definition) { d.Interarrival = Interarrival{Kind: "bimodal", Bimodal: &Bimodal{0.1, 1}} },
		"interarrival.bimodal.ratio: 1: must be above 1"},
	"all of them long": {func(d *Definition) { d.Interarrival = Interarrival{Kind: "bimodal", Bimodal: &Bimodal{1, 10}} },
		"interarrival.bimodal.longShare: 1: must be above 0 and below 1"},
}

// S-1, S-3, S-12, S-20, S-21, S-24: every field that is wrong is named, with what it may be.
func TestSwitchNamesTheField(t *testing.T) {
	for name, c := range switchRows {
		d := example(t, "echo.yaml")
		c.change(&d)
		err := d.ForSwitch()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	d := example(t, "echo.yaml")
	d.Switch.Packets = -1
	if err := d.Validate(); err == nil || !strings.Contains(err.Error(), "switch.packets: -1") {
		t.Errorf("lancet passes over the switch's mistakes: %v", err)
	}
}

// S-10, S-12, S-20: the figures of the specification.
func TestSwitchArithmetic(t *testing.T) {
	s := Switch{}
	if ns := s.Granularity() * 1e9; math.Abs(ns-6.72) > 1e-9 { // 84 bytes on the wire at 100 Gb/s
		t.Errorf("%v ns for a packet of 64 bytes", ns)
	}
	if most := s.MostPerSecond(); most < 29.7e6 || most > 30e6 {
		t.Errorf("at most %v packets/s", most)
	}
	for _, c := range []struct {
		s    Stamp
		want float64 // ns
	}{
		{Stamp{Fields: []string{fieldAddress}}, 65_536 / 2},
		{Stamp{Fields: []string{fieldAddress}, TickNanoseconds: 64}, 64 * 65_536 / 2},
		{Stamp{Fields: []string{fieldPort, fieldAddress}}, 64_512 * 65_536 / 2}, // S-21: ports below 1024 are left out
	} {
		if got := c.s.LongestLatency(); got != c.want {
			t.Errorf("%+v: %v, want %v", c.s, got, c.want)
		}
	}
}

// S-24, S-25: bounds ascend, reach from end to end, and no bucket's middle is off by
// more than was asked for.
func TestBounds(t *testing.T) {
	for _, h := range []SwitchHistogram{{}, {MinNanoseconds: 1, MaxNanoseconds: 1000}, {MinNanoseconds: 64, MaxNanoseconds: 65}, {MaxNanoseconds: 1023}, {MaxNanoseconds: 1024}, {MaxNanoseconds: 1025}, {RelativeError: 0.5}, {MaxNanoseconds: 2_000_000, RelativeError: 0.002}} {
		low, high, off := orDefault(h.MinNanoseconds, defaultMin), orDefault(h.MaxNanoseconds, defaultMax), orDefault(h.RelativeError, defaultError)
		b := h.Bounds()
		if !slices.IsSorted(b) || b[0] < low || b[len(b)-1] < high || len(b) > 1 && b[len(b)-2] >= high {
			t.Errorf("%+v: %d bounds from %d to %d", h, len(b), b[0], b[len(b)-1])
		}
		for i := 1; i < len(b); i++ {
			first, last := float64(b[i-1]+1), float64(b[i])
			if middle := (first + last) / 2; last < first || (middle-first)/first > off+1e-12 {
				t.Errorf("%+v: %v to %v", h, first, last)
			}
		}
	}
	if n := len(SwitchHistogram{}.Bounds()); n < 1200 || n > 1400 {
		t.Errorf("%d buckets from 100 ns to 100 ms, about 1,300 are enough", n)
	}
}

// The whole table of some histograms: the middle of [low, high] is off by half of its
// width, so 0.5 asks for one bucket in each power of two, 0.25 for two.
func TestWholeBounds(t *testing.T) {
	for _, c := range []struct {
		h    SwitchHistogram
		want []int64
	}{
		{SwitchHistogram{MinNanoseconds: 1, MaxNanoseconds: 15, RelativeError: 0.5}, []int64{1, 3, 7, 15}},
		{SwitchHistogram{MinNanoseconds: 1, MaxNanoseconds: 16, RelativeError: 0.5}, []int64{1, 3, 7, 15, 31}},
		{SwitchHistogram{MinNanoseconds: 4, MaxNanoseconds: 16, RelativeError: 0.25}, []int64{5, 7, 11, 15, 23}},
		{SwitchHistogram{MinNanoseconds: 5, MaxNanoseconds: 11, RelativeError: 0.25}, []int64{5, 7, 11}},
		{SwitchHistogram{MinNanoseconds: 6, MaxNanoseconds: 11, RelativeError: 0.2}, []int64{6, 7, 9, 11}},
	} {
		if got := c.h.Bounds(); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.h, got, c.want)
		}
	}
}

// Every field that a definition may have stands in docs/guides/lancet.md.
func TestFieldsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/guides/lancet.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## A load definition\n")
	section, _, _ = strings.Cut(section, "\n## Agents")
	seen := 0
	var walk func(reflect.Type)
	walk = func(of reflect.Type) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct {
			return
		}
		for i := range of.NumField() {
			f := of.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if seen++; !strings.Contains(section, "`"+name+"`") && !strings.Contains(section, "."+name+"`") && !strings.Contains(section, "`"+name+"[]`") && !strings.Contains(section, "."+name+"[]`") {
				t.Errorf("%s.%s is not in the tables of docs/guides/lancet.md", of.Name(), name)
			}
			walk(f.Type)
		}
	}
	walk(reflect.TypeFor[Definition]())
	if seen < 60 {
		t.Errorf("only %d fields were looked for", seen)
	}
}
