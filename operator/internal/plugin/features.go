// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/features"
)

// features says of every feature of the operator what it lacks: an operator that was
// upgraded without its chart does the rest and waits for this. Nobody need ask the
// operator for it, which may be down.
func (c *cluster) features(ctx context.Context) []verdict {
	const subject = "features"
	list := &appsv1.DeploymentList{}
	if err := c.List(ctx, list, installed("operator")); err != nil {
		return []verdict{unseen(subject, err)}
	}
	if len(list.Items) == 0 {
		return nil // which is said where operators are
	}
	of := &list.Items[0]
	var out []verdict
	var complete []string
	for _, f := range features.All {
		if f.Optional && !asksFor(of, f.Name) {
			continue
		}
		missing, err := f.Missing(ctx, operatorsView{c, of})
		switch {
		case err != nil:
			return []verdict{unseen(subject, err)}
		case len(missing) > 0:
			out = append(out, verdict{subject, failed, fmt.Sprintf("%s waits: the operator lacks %s", f.About, strings.Join(missing, "; ")), install})
		default:
			complete = append(complete, f.Name)
		}
	}
	if len(complete) > 0 {
		out = append([]verdict{{subject, fine, "the operator has what it needs for " + strings.Join(complete, ", "), ""}}, out...)
	}
	return out
}

// asksFor says whether the operator is told of an optional feature.
func asksFor(operator *appsv1.Deployment, option string) bool {
	for _, container := range operator.Spec.Template.Spec.Containers {
		if slices.Contains(container.Args, "--"+option+"=true") {
			return true
		}
	}
	return false
}

// operatorsView answers for the operator's account.
type operatorsView struct {
	*cluster
	operator *appsv1.Deployment
}

// Served says whether the API server serves a kind of ours.
func (v operatorsView) Served(_ context.Context, kind string) (bool, error) {
	served, err := v.set.Discovery().ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind }), nil
}

// May says whether the operator may do something everywhere.
func (v operatorsView) May(ctx context.Context, group, resource, verb string) (bool, error) {
	resource, sub, _ := strings.Cut(resource, "/")
	account := v.operator.Spec.Template.Spec.ServiceAccountName
	review, err := v.set.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + v.operator.Namespace + ":" + account,
			Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + v.operator.Namespace, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Group: group, Resource: resource, Subresource: sub, Verb: verb},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}
