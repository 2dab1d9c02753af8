// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/bobtail-dev/bobtail/e2e/cluster/config"
	"github.com/bobtail-dev/bobtail/e2e/cluster/layout"
	"github.com/bobtail-dev/bobtail/e2e/cluster/lifecycle"
)

const usageText = `usage: bobtail-cluster COMMAND [--state=DIR] [options]

  up [--nodes=2] [--dual-stack] [--static-cpus]
                          start the cluster, or check the one that runs (root)
  down                    end it, put everything back, report leftovers (root)
  status [--json]         processes, nodes, cgroup2 folders
  kubeconfig              print the path of the administrator's kubeconfig
  env                     print export lines: KUBECONFIG, PATH with kubectl, helm
  join TAR... -- CMD      start CMD, a machine of its own, in the cluster's network as a
                          further node with these images (root); see e2e/sriov/node.py
  load-image TAR...       import OCI archives into every node (root)
  sandbox-image           print the image of the pod sandbox, which is this very program
  check                   run pods that prove DNS, Services and both nodes
  leftovers [--json]      what the last down left behind (or: what up added)
  stop-apiserver          end the API server; everything else keeps running (root)
  start-apiserver         start it again and wait until it is ready (root)
  restart-kubelet NODE    end the kubelet of node a, b, … and start it again; its pods run on (root)
  proxy-mode nftables|iptables
                          let every node's kube-proxy go on in that mode (root)
  exec-node NODE -- CMD   run CMD inside node a, b, … or control-plane (root)
  logs [PROCESS]          print the log folder, or one process's log

  --state=DIR   default: $BOBTAIL_STATE/cluster, else ~/.local/state/bobtail/cluster

Exit status: 0 done; 1 failed; 2 wrong usage; exec-node: that of CMD.
`

// errUsage marks mistakes of the caller.
var errUsage = errors.New("see bobtail-cluster --help")

func exitCode(err error) int {
	var status *exec.ExitError
	switch {
	case errors.Is(err, errUsage):
		return 2
	case errors.As(err, &status) && status.ExitCode() > 0:
		return status.ExitCode()
	}
	return 1
}

// call is one command line, parsed.
type call struct {
	m      *lifecycle.Manager
	args   []string
	wanted lifecycle.Wanted
	json   bool
}

var commands = map[string]func(call) error{
	"up":              func(c call) error { return c.m.Up(c.wanted) },
	"down":            down,
	"status":          status,
	"kubeconfig":      kubeconfig,
	"env":             printEnv,
	"join":            join,
	"load-image":      loadImage,
	"sandbox-image":   func(call) error { _, err := fmt.Println(config.SandboxImage); return err },
	"check":           func(c call) error { return c.m.Prove() },
	"leftovers":       printLeftovers,
	"stop-apiserver":  func(c call) error { return c.m.StopAPIServer() },
	"start-apiserver": func(c call) error { return c.m.StartAPIServer() },
	"restart-kubelet": restartKubelet,
	"proxy-mode":      proxyMode,
	"exec-node":       execNode,
	"logs":            logs,
}

func run(args []string) error {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usageText)
		return errUsage
	}
	switch args[0] {
	case "-h", "--help", "help":
		fmt.Print(usageText)
		return nil
	case lifecycle.PauseCommand:
		return pause()
	case devicePluginCommand:
		return devicePlugin(args[1:])
	case lifecycle.ForwardCommand:
		return forwardInherited(args[1:])
	case lifecycle.ShellCommand:
		return shell(args[1:])
	case lifecycle.ResolveCommand:
		return resolve(args[1:])
	}
	f, ok := commands[args[0]]
	if !ok {
		return fmt.Errorf("unknown command %q: %w", args[0], errUsage)
	}
	c, err := parse(args[0], args[1:])
	if err != nil {
		return err
	}
	return f(c)
}

func parse(command string, args []string) (call, error) {
	def, err := layout.DefaultStateDir()
	if err != nil {
		def = "" // --state can still say
	}
	var c call
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(os.Stderr, usageText) }
	state := flags.String("state", def, "")
	flags.IntVar(&c.wanted.Nodes, "nodes", 2, "")
	flags.BoolVar(&c.wanted.DualStack, "dual-stack", false, "")
	flags.BoolVar(&c.wanted.StaticCPUs, "static-cpus", false, "")
	flags.BoolVar(&c.json, "json", false, "")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			os.Exit(0)
		}
		return c, fmt.Errorf("%s: %w", command, errUsage)
	}
	if *state == "" {
		return c, fmt.Errorf("give --state=DIR: %w", errUsage)
	}
	st, err := layout.OpenState(*state)
	if err != nil {
		return c, err
	}
	c.m, c.args = &lifecycle.Manager{State: st, Out: os.Stderr}, flags.Args()
	return c, nil
}

func kubeconfig(c call) error {
	if _, err := c.m.State.ReadCluster(); err != nil {
		return err
	}
	fmt.Println(c.m.State.Kubeconfig())
	return nil
}

func printEnv(c call) error {
	cl, err := c.m.State.ReadCluster()
	if err != nil {
		return err
	}
	fmt.Printf("export KUBECONFIG=\"%s\"\n", c.m.State.Kubeconfig())
	fmt.Printf("export PATH=\"%s:%s:$PATH\"\n", cl.Tools.Dir("kubernetes"), cl.Tools.Dir("helm"))
	return nil
}

func loadImage(c call) error {
	if len(c.args) == 0 {
		return fmt.Errorf("load-image needs at least one archive: %w", errUsage)
	}
	if err := lifecycle.CheckRoot(); err != nil {
		return err
	}
	return c.m.LoadImages(c.args)
}

func join(c call) error {
	at := slices.Index(c.args, "--")
	if at < 1 || at == len(c.args)-1 {
		return fmt.Errorf("join needs archives, then a command behind --: %w", errUsage)
	}
	if err := lifecycle.CheckRoot(); err != nil {
		return err
	}
	return c.m.Join(c.args[:at], c.args[at+1:])
}

func restartKubelet(c call) error {
	if len(c.args) != 1 {
		return fmt.Errorf("restart-kubelet needs one node: %w", errUsage)
	}
	if err := lifecycle.CheckRoot(); err != nil {
		return err
	}
	return c.m.RestartKubelet(c.args[0])
}

func proxyMode(c call) error {
	if len(c.args) != 1 {
		return fmt.Errorf("proxy-mode needs one mode: %w", errUsage)
	}
	if err := lifecycle.CheckRoot(); err != nil {
		return err
	}
	return c.m.SetProxyMode(c.args[0])
}

// execNode replaces this program, so that signals and the exit status are the
// command's own.
func execNode(c call) error {
	args := c.args
	if len(args) > 1 && args[1] == "--" {
		args = append(args[:1:1], args[2:]...)
	}
	if len(args) < 2 {
		return fmt.Errorf("exec-node needs a node and a command: %w", errUsage)
	}
	if err := lifecycle.CheckRoot(); err != nil {
		return err
	}
	argv, err := c.m.ExecNode(args[0], args[1:])
	if err != nil {
		return err
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	return syscall.Exec(path, argv, os.Environ())
}

func logs(c call) error {
	if len(c.args) == 0 {
		fmt.Println(c.m.State.LogDir())
		return nil
	}
	b, err := os.ReadFile(c.m.State.Log(filepath.Base(c.args[0])))
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(b)
	return err
}
