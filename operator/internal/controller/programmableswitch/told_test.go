// SPDX-License-Identifier: Apache-2.0

package programmableswitch

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/switchboard"
	"github.com/bobtail-dev/bobtail/operator/internal/switches/keeper"
	"github.com/bobtail-dev/bobtail/operator/internal/switches/link"
)

// against is a reconciler whose API server answers writes of a status as it is told.
func against(t *testing.T, refuse *error, objects ...client.Object) (*Reconciler, *events.FakeRecorder, *remembering) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.ProgrammableSwitch{}).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, _ string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				if *refuse != nil {
					return *refuse
				}
				return c.Status().Patch(ctx, o, p, opts...)
			},
		}).Build()
	recorder, kept := events.NewFakeRecorder(100), &remembering{}
	return &Reconciler{Client: c, Live: c, Switches: kept, Board: switchboard.New(), Events: recorder, Now: func() time.Time { return time.Unix(100, 0) }, Namespace: "sys"}, recorder, kept
}

func drained(recorder *events.FakeRecorder) string {
	var out []string
	for len(recorder.Events) > 0 {
		out = append(out, <-recorder.Events)
	}
	return strings.Join(out, "; ")
}

// An event is made of an answer that is new, and of a pipeline that was pushed; what waits warns of nothing.
func TestAnnounce(t *testing.T) {
	of := func(kind string, status metav1.ConditionStatus, reason string) v1alpha1.ProgrammableSwitchStatus {
		return v1alpha1.ProgrammableSwitchStatus{Conditions: []metav1.Condition{{Type: kind, Status: status, Reason: reason, Message: "m"}}}
	}
	pushed := func(n int64) v1alpha1.ProgrammableSwitchStatus {
		return v1alpha1.ProgrammableSwitchStatus{PipelinePushes: n, Cookie: "7"}
	}
	const accepted, programmed, ready = v1alpha1.ConditionAccepted, v1alpha1.ConditionProgrammed, v1alpha1.ConditionReady
	for _, c := range []struct {
		before, after v1alpha1.ProgrammableSwitchStatus
		want          string
	}{
		{v1alpha1.ProgrammableSwitchStatus{}, of(accepted, "True", "A"), "Normal A m"},
		{v1alpha1.ProgrammableSwitchStatus{}, of(programmed, "False", "A"), "Warning A m"},
		{v1alpha1.ProgrammableSwitchStatus{}, of(programmed, "False", v1alpha1.ReasonReconciling), "Normal Reconciling m"},
		{v1alpha1.ProgrammableSwitchStatus{}, of(ready, "False", "A"), ""},
		{of(accepted, "True", "A"), of(accepted, "True", "A"), ""},
		{of(accepted, "True", "A"), of(accepted, "False", "A"), "Warning A m"},
		{of(accepted, "True", "A"), of(accepted, "True", "B"), "Normal B m"},
		{of(accepted, "True", "A"), v1alpha1.ProgrammableSwitchStatus{}, ""},
		{pushed(1), pushed(1), ""}, {pushed(2), pushed(1), ""},
		{pushed(1), pushed(2), "Normal PipelinePushed the pipeline with cookie 7 was pushed; everything on the switch was interrupted"},
	} {
		var none error
		r, recorder, _ := against(t, &none)
		r.announce(&v1alpha1.ProgrammableSwitch{Status: c.before}, &v1alpha1.ProgrammableSwitch{Status: c.after})
		if got := drained(recorder); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// A status is written and told of when it is new; one that cannot be written is told as an error.
func TestStatusesAreWritten(t *testing.T) {
	for _, c := range []struct {
		refuse error
		says   string
	}{{nil, ""}, {errors.New("no"), "write the status: no"}, {apierrors.NewNotFound(schema.GroupResource{}, "x"), ""}} {
		refuse := c.refuse
		r, recorder, _ := against(t, &refuse, &v1alpha1.ProgrammableSwitch{ObjectMeta: metav1.ObjectMeta{Name: "leaf"}})
		before := &v1alpha1.ProgrammableSwitch{}
		if err := r.Client.Get(context.Background(), types.NamespacedName{Name: "leaf"}, before); err != nil {
			t.Fatal(err)
		}
		if err := r.patchStatus(context.Background(), before, before.DeepCopy()); err != nil {
			t.Errorf("nothing new: %v", err)
		}
		after := before.DeepCopy()
		after.Status.PipelinePushes = 1
		err := r.patchStatus(context.Background(), before, after)
		if (err == nil) != (c.says == "") || err != nil && err.Error() != c.says || (drained(recorder) != "") != (c.says == "") {
			t.Errorf("%v: %v", c.refuse, err)
		}
	}
}

// A switch that has gone is forgotten; of one that is there is answered, and it is looked at again.
func TestReconcile(t *testing.T) {
	var refuse error
	psw := world(t, nil).psw.DeepCopy()
	psw.ResourceVersion = ""
	r, _, kept := against(t, &refuse, psw)
	observed := 0
	r.Observe = func(name string, _ keeper.State, _ bool) {
		if observed++; name != psw.Name && name != "gone" {
			t.Errorf("observed %s", name)
		}
	}
	reconciled := func(name string) (ctrl.Result, error) {
		return r.Reconcile(context.Background(), ctrl.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
	if result, err := reconciled("gone"); err != nil || result != (ctrl.Result{}) || kept.forgotten != 1 || observed != 1 {
		t.Errorf("gone: %+v, %v, forgotten %d times", result, err, kept.forgotten)
	}
	refuse = apierrors.NewConflict(schema.GroupResource{}, "x", nil)
	if result, err := reconciled(psw.Name); err != nil || result.RequeueAfter != time.Second {
		t.Errorf("a conflict: %+v, %v", result, err)
	}
	refuse = errors.New("no")
	if _, err := reconciled(psw.Name); err == nil {
		t.Error("no error of a status that is not written")
	}
	refuse = nil
	if result, err := reconciled(psw.Name); err != nil || result.RequeueAfter != again || kept.forgotten != 1 || observed != 4 {
		t.Errorf("%+v, %v, observed %d times", result, err, observed)
	}
	if _, _, there := r.Board.Answered(psw.Name, "a", "b"); !there {
		t.Error("the switch is not said to be there")
	}
}

// A service and its configuration wake the switches it asks for and those it has yet to leave.
func TestWhoIsWoken(t *testing.T) {
	service := &v1alpha1.RpcService{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "echo"}}
	service.Spec.Router.Switch = &v1alpha1.RouterSwitch{Name: "new"}
	service.Status.Switch = &v1alpha1.RpcServiceSwitchStatus{Name: "old"}
	var none error
	r, _, _ := against(t, &none, service)
	woken := func(o client.Object, configuration bool) string {
		var out []string
		all := r.ofService(context.Background(), o)
		if configuration {
			all = r.ofConfig(context.Background(), o)
		}
		for _, one := range all {
			out = append(out, one.Name)
		}
		return strings.Join(out, " ")
	}
	config := func(namespace, of string) client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c", Labels: map[string]string{v1alpha1.LabelService: of}}}
	}
	staying := service.DeepCopy()
	staying.Status.Switch.Name = "new"
	leaving := service.DeepCopy()
	leaving.Spec.Router.Switch = nil
	for want, got := range map[string]string{
		"new old": woken(service, false), "new": woken(staying, false), "old": woken(leaving, false), "": woken(&corev1.Pod{}, false),
	} {
		if got != want {
			t.Errorf("woken %q, want %q", got, want)
		}
	}
	if got := woken(config("demo", "echo"), true); got != "new old" {
		t.Errorf("a configuration wakes %q", got)
	}
	for _, o := range []client.Object{config("demo", ""), config("demo", "other"), config("other", "echo")} {
		if got := woken(o, true); got != "" {
			t.Errorf("%+v wakes %q", o, got)
		}
	}
}

// A part is read as bytes, else as text, from the operator's own namespace.
func TestPartsAreReadFromTheOperatorsNamespace(t *testing.T) {
	m := func(namespace string) client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m"}, Data: map[string]string{"text": namespace}, BinaryData: map[string][]byte{"bytes": []byte(namespace)}}
	}
	var none error
	r, _, _ := against(t, &none, m("sys"), m("other"))
	for _, c := range []struct {
		name, key, want string
		there           bool
	}{{"m", "text", "sys", true}, {"m", "bytes", "sys", true}, {"m", "x", "", false}, {"x", "text", "", false}} {
		value, there, err := r.part(context.Background(), v1alpha1.SwitchPipelinePart{ConfigMapName: c.name, Key: c.key})
		if err != nil || there != c.there || string(value) != c.want {
			t.Errorf("%s/%s: %q, %t, %v", c.name, c.key, value, there, err)
		}
	}
}

// What stands in the way of taking entries away is told as that.
func TestDeleting(t *testing.T) {
	if v := deleting(keeper.State{}); v.OK() || v.Reason != v1alpha1.ReasonReconciling || v.Message != "entries are being taken away" {
		t.Errorf("%+v", v)
	}
	v := deleting(keeper.State{Fault: &link.Fault{Kind: "strange", Text: "t"}})
	if v.OK() || v.Reason != v1alpha1.ReasonSwitchFailed || v.Message != "entries cannot be taken away, and the object stays until they are: t" {
		t.Errorf("%+v", v)
	}
}
