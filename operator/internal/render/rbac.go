// SPDX-License-Identifier: Apache-2.0

// What a sidecar may do at the API server: read the one ConfigMap that
// configures its dataplane.
package render

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func serviceAccount(in Input) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		TypeMeta:                     metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta:                   meta(in, SidecarName(in.of()), ""),
		AutomountServiceAccountToken: ptr(false),
	}
}

func role(in Input) *rbacv1.Role {
	return &rbacv1.Role{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
		ObjectMeta: meta(in, SidecarName(in.of()), ""),
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"configmaps"},
			ResourceNames: []string{ConfigMapName(in.of())}, Verbs: []string{"get", "watch"},
		}},
	}
}

func roleBinding(in Input) *rbacv1.RoleBinding {
	name := SidecarName(in.of())
	var subjects []rbacv1.Subject
	for _, account := range accounts(in) {
		subjects = append(subjects, rbacv1.Subject{Kind: "ServiceAccount", Name: account, Namespace: in.namespace()})
	}
	return &rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
		ObjectMeta: meta(in, name, ""),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   subjects,
	}
}
