// SPDX-License-Identifier: Apache-2.0

// Package manager assembles the operator: options, caches, controllers, health
// and metrics.
package manager

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/url"
	"os"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/crabplan"
)

// ErrUsage marks a wrong command line.
var ErrUsage = errors.New("wrong usage")

// Options are the command line of the operator.
type Options struct {
	// ImageRegistry and ImageVersion name the images of routers and sidecars.
	ImageRegistry, ImageVersion string
	// LeaderElect lets several replicas run with one of them acting.
	LeaderElect bool
	// MetricsAddress and ProbeAddress are where to listen; "0" is nowhere.
	MetricsAddress, ProbeAddress string
	// OTLPEndpoint is where sidecars send the spans of traced requests; "" is nowhere.
	OTLPEndpoint string
	// FastPath is the choice for services whose router.fastPath is left out.
	FastPath v1alpha1.FastPathMode
	// CRAB lets the operator serve Services of class bobtail.dev/crab and redirected
	// node ports.
	CRAB bool
	// VIPPool holds the addresses of the former, as crabplan.ParsePool reads them.
	VIPPool string
	// AgentPort is where agents answer on their nodes.
	AgentPort int
	// Namespace is the operator's own.
	Namespace string
	// LogLevel is the least that is written.
	LogLevel slog.Level
}

// ParseOptions reads the command line. The default of the version is the
// version of the operator itself.
func ParseOptions(args []string, version string) (Options, error) {
	var o Options
	f := flag.NewFlagSet("bobtail-operator", flag.ContinueOnError)
	f.StringVar(&o.ImageRegistry, "image-registry", "localhost", "registry of the router and sidecar images: `host[:port][/path]`")
	f.StringVar(&o.ImageVersion, "image-version", version, "tag of the router and sidecar images")
	f.BoolVar(&o.LeaderElect, "leader-elect", true, "act only while holding the lease bobtail-operator")
	f.StringVar(&o.MetricsAddress, "metrics-bind-address", ":8080", "where to serve /metrics; 0 turns it off")
	f.StringVar(&o.ProbeAddress, "health-probe-bind-address", ":8081", "where to serve /healthz and /readyz; 0 turns it off")
	f.StringVar(&o.OTLPEndpoint, "otlp-endpoint", "", "`URL` of an OTLP receiver to which sidecars send the spans of traced requests, http://collector:4318; none are sent without")
	f.StringVar((*string)(&o.FastPath), "router-fast-path", string(v1alpha1.FastPathOff), "`Off|Auto`: whether the kernel may decide requests of services that leave spec.router.fastPath out; Auto runs their routers as root with CAP_BPF and CAP_NET_ADMIN")
	f.BoolVar(&o.CRAB, "crab", false, "serve Services of class bobtail.dev/crab and redirected node ports")
	f.StringVar(&o.VIPPool, "crab-vip-pool", "", "IPv4 and IPv6 addresses for Services of that class: `NETWORK|FIRST-LAST,...`")
	f.IntVar(&o.AgentPort, "crab-agent-port", 9442, "TCP port of the nodes where CRAB's agents tell how long clients wait for connections")
	f.StringVar(&o.Namespace, "namespace", os.Getenv("POD_NAMESPACE"), "namespace the operator runs in (default $POD_NAMESPACE)")
	f.TextVar(&o.LogLevel, "log-level", slog.LevelInfo, "`debug|info|warn|error`: the least that is written")
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return o, err
	} else if err != nil {
		return o, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("%w: unexpected argument %q: the operator takes options only", ErrUsage, f.Arg(0))
	}
	if err := o.validate(); err != nil {
		return o, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	return o, nil
}

func (o Options) validate() error {
	var errs []error
	if o.Namespace == "" {
		errs = append(errs, errors.New("--namespace must not be empty: give the namespace the operator runs in, or set POD_NAMESPACE"))
	}
	if u, err := url.Parse(o.OTLPEndpoint); o.OTLPEndpoint != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		errs = append(errs, fmt.Errorf("--otlp-endpoint=%s: must be a URL such as http://collector:4318", o.OTLPEndpoint))
	}
	if o.FastPath != v1alpha1.FastPathOff && o.FastPath != v1alpha1.FastPathAuto {
		errs = append(errs, fmt.Errorf("--router-fast-path=%s must be Off or Auto", o.FastPath))
	}
	if _, err := crabplan.ParsePool(o.VIPPool); err != nil {
		errs = append(errs, fmt.Errorf("--crab-vip-pool: %w", err))
	}
	if o.AgentPort < 1 || o.AgentPort > 65535 {
		errs = append(errs, fmt.Errorf("--crab-agent-port=%d must be 1 to 65535", o.AgentPort))
	}
	if o.ImageRegistry == "" {
		errs = append(errs, errors.New("--image-registry must not be empty"))
	}
	if o.ImageVersion == "" {
		errs = append(errs, errors.New("--image-version must not be empty: this build does not know its own version"))
	}
	return errors.Join(errs...)
}
