// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Say prints the error that ends a command, and what to do about it.
func Say(errs io.Writer, err error) {
	fmt.Fprintln(errs, "kubectl bobtail:", err)
	if next := advice(err); next != "" {
		fmt.Fprintln(errs, "  next:", next)
	}
}

// advices are kinds of errors and what to do about each; the first that fits counts.
var advices = []struct {
	fits func(error) bool
	next string
}{
	{unknownCommand, "kubectl bobtail --help lists the commands"},
	{func(err error) bool { return withoutKubeconfig(err) && errors.Is(err, os.ErrNotExist) }, "--kubeconfig, or the variable KUBECONFIG, names the file"},
	{withoutKubeconfig, "kubectl config get-contexts lists the clusters you have; --context or KUBECONFIG names one"},
	{unreachable, "kubectl cluster-info asks the same server; --context or KUBECONFIG names another"},
	{apierrors.IsUnauthorized, "log in to the cluster again: it does not take the credentials of the kubeconfig"},
	{withoutRight, "ask an administrator of the cluster for that right; docs/reference/kubectl-bobtail.md says what each command needs"},
	{withoutKinds, "Bobtail is not installed here: kubectl bobtail check says whether it can be, docs/guides/operations.md how"},
}

// advice is what to do about an error; empty: its own words say so.
func advice(err error) string {
	for _, a := range advices {
		if a.fits(err) {
			return a.next
		}
	}
	return whatThereIs(err)
}

// whatThereIs names the command that lists what could have been meant.
func whatThereIs(err error) string {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return ""
	}
	d := status.Status().Details
	if d.Kind == "" || d.Name == "" {
		return ""
	}
	if d.Kind == "namespaces" {
		return "kubectl get namespaces lists those there are"
	}
	return fmt.Sprintf("kubectl get %s -A lists those there are; -n names the namespace", strings.TrimSuffix(d.Kind+"."+d.Group, "."))
}

func withoutKubeconfig(err error) bool { return errors.Is(err, errKubeconfig) }

// withoutRight: quotas and policies forbid, too, in words of their own.
func withoutRight(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot ")
}

func unknownCommand(err error) bool { return strings.HasPrefix(err.Error(), "unknown command") }

func unreachable(err error) bool {
	var at *url.Error
	var network net.Error
	return errors.As(err, &at) || errors.As(err, &network)
}

func withoutKinds(err error) bool {
	var undiscovered *apiutil.ErrResourceDiscoveryFailed
	return meta.IsNoMatchError(err) || errors.As(err, &undiscovered)
}

// takes is how many arguments a command takes, and what they are.
func takes(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return fmt.Errorf("%s takes %s; got %d arguments: %s --help", cmd.Name(), what, len(args), cmd.CommandPath())
		}
		return nil
	}
}

// wrongFlag says where the options are listed.
func wrongFlag(cmd *cobra.Command, err error) error {
	return fmt.Errorf("%w; %s --help lists the options", err, cmd.CommandPath())
}
