package main

import (
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/freehold-dev/freehold/test/golden"
)

// reports is an object whose status has these conditions.
func reports(t *testing.T, kind, namespace, name, conditions string) *unstructured.Unstructured {
	t.Helper()
	return fromYAML(t, fmt.Sprintf(
		"{apiVersion: freehold.dev/v1alpha1, kind: %s, metadata: {name: %s, namespace: %s}, status: {observedGeneration: "+
			"1, conditions: [%s]}}", kind, name, namespace, conditions))
}

func is(condition, status, reason, message string) string {
	return fmt.Sprintf(`{type: %s, status: "%s", reason: %s, message: %q, lastTransitionTime: "2026-01-03T11:00:00Z"}`,
		condition, status, reason, message)
}

// operator is an installation as the API server shows it, with the age of its Lease.
func operator(t *testing.T, ready int, renewed string) operatorStatus {
	t.Helper()
	u := fromYAML(t, fmt.Sprintf(
		`{metadata: {name: freehold-operator, namespace: freehold-system}, spec: {replicas: 2, template: {spec: {containers: [
		{name: operator, image: "registry.example.com:5000/operator:v1.2.3", args: [--leader-elect, "--runner-image=registry.example.com/runner@sha256:0123456789abcdef"]}]}}},
		status: {readyReplicas: %d}}`, ready))
	var d appsv1.Deployment
	if err := decode(u, &d); err != nil {
		t.Fatal(err)
	}
	o, ours := operatorOf(&d)
	if !ours {
		t.Fatal("the operator is not known")
	}
	lease := fmt.Sprintf(`{spec: {holderIdentity: freehold-operator-abc_1234, leaseDurationSeconds: 15, renewTime: "%s"}}`,
		renewed)
	if err := o.holds(fromYAML(t, lease)); err != nil {
		t.Fatal(err)
	}
	return o
}

// unwatched are servers on which nobody acts, for longer and for shorter.
func unwatched(server func(name, conditions string) *unstructured.Unstructured,
	ready string,
) []*unstructured.Unstructured {
	waits := server("i-alone", "")
	waits.SetCreationTimestamp(metav1.NewTime(time.Date(2026, 1, 3, 11, 54, 0, 0, time.UTC)))
	begun := server("j-begun", "")
	begun.SetCreationTimestamp(metav1.NewTime(time.Date(2026, 1, 3, 11, 58, 0, 0, time.UTC)))
	stuck := server("k-deleted", ready)
	stuck.SetGeneration(2)
	stuck.SetDeletionTimestamp(new(metav1.NewTime(time.Date(2026, 1, 3, 10, 0, 0, 0, time.UTC))))
	fresh := server("l-edited-now", ready)
	fresh.SetGeneration(2)
	fresh.SetCreationTimestamp(metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
	fresh.SetManagedFields([]metav1.ManagedFieldsEntry{
		{Manager: "git", Operation: "Apply", Time: new(metav1.NewTime(time.Date(2026, 1, 3, 11, 59, 0, 0, time.UTC)))},
		{
			Manager: "x", Operation: "Apply", Subresource: "status",
			Time: new(metav1.NewTime(time.Date(2026, 1, 3, 12, 0, 0, 0, time.UTC))),
		},
	})
	return []*unstructured.Unstructured{waits, begun, stuck, fresh}
}

func TestWhatStatusShows(t *testing.T) {
	runs := operator(t, 2, "2026-01-03T11:59:58.000000Z")
	ready := is("Ready", "True", "Ready", "MCP answers")
	server := func(name string, conditions string) *unstructured.Unstructured {
		return reports(t, "MCPServer", "tools", name, conditions)
	}
	edited := server("f-edited", ready)
	edited.SetGeneration(2)
	var many []*unstructured.Unstructured
	for i := range 14 {
		many = append(many, server(fmt.Sprintf("s%02d", i),
			is("Ready", "False", "CrashLoop", "the container ends\x1b[2J with code 1")+", "+
				is("Stalled", "True", "CrashLoop", "x")))
	}
	for name, tc := range map[string]struct {
		operators []operatorStatus
		objects   []*unstructured.Unstructured
		unread    error
		format    string
	}{
		"status-fine": {[]operatorStatus{runs}, []*unstructured.Unstructured{
			server("a", ready), server("b", is("Suspended", "True", "Suspended", "spec.suspend is true")),
			reports(t, "MCPAuthzConfig", "tools", "company", is("Ready", "True", "Valid", "")),
		}, nil, ""},
		"status-attention": {[]operatorStatus{runs}, []*unstructured.Unstructured{
			server("b-starts", is("Ready", "False", "Starting", "waiting for the backend")),
			server("c-stalled", is("Ready", "False", "ImagePull", "the image cannot be pulled: correct spec.image")+", "+
				is("Stalled", "True", "ImagePull", "")),
			server("e-later", ready+", "+
				is("UnknownFields", "True", "LaterRelease",
					"the operator does not know these fields, and does nothing for them: spec.later")),
			server("d-contended", ready+", "+
				is("FieldConflict", "True", "FieldConflict", `field manager "helm" overwrites .spec.replicas`)),
			server("a-new", ""), edited,
			server("h-unmatched", ready+", "+is("PolicyUnmatched", "True", "NeverMatches", "the policy forbid can never match")),
			reports(t, "MCPAuthzConfig", "tools", "company", is("Ready", "True", "Valid", "")+", "+
				is("RolledOut", "False", "Held", `MCPServer "echo" is not ready with this content`)),
		}, nil, ""},
		"status-json": {
			[]operatorStatus{runs},
			[]*unstructured.Unstructured{server("c", is("Ready", "False", "Starting", "waiting"))},
			nil, "json",
		},
		"status-many":   {[]operatorStatus{runs}, many, nil, ""},
		"status-nobody": {[]operatorStatus{}, nil, nil, ""},
		"status-unseen": {nil, []*unstructured.Unstructured{server("a", ready)}, nil, ""},
		"status-stopped": {
			[]operatorStatus{operator(t, 0, "2026-01-03T11:00:00.000000Z")},
			[]*unstructured.Unstructured{server("a", ready)},
			nil, "",
		},
		"status-unwatched": {[]operatorStatus{runs}, unwatched(server, ready), nil, ""},
		"status-forbidden": {
			nil, nil,
			utilerrors.NewAggregate([]error{refused("freehold.dev", "mcpservers"), refused("freehold.dev", "mcpoidcconfigs")}),
			"",
		},
		"status-unread": {[]operatorStatus{runs}, nil, io.ErrUnexpectedEOF, ""},
		"status-unheld": {[]operatorStatus{
			{Namespace: "n", Name: "o", Ready: 1, Replicas: 1, Version: "v1", Runner: "v1", Leader: "unknown"},
		}, nil, nil, ""},
		"status-no-reply": {
			[]operatorStatus{runs},
			[]*unstructured.Unstructured{fromYAML(t,
				"{kind: MCPServer, apiVersion: freehold.dev/v1alpha1, metadata: {name: x}, status: {conditions: {a: b}}}")},
			nil,
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := sit("")
			code := d.exit(d.showStatus(output{format: tc.format}, tc.operators, tc.objects, tc.unread))
			golden.File(t, filepath.Join("testdata", "golden", name+".txt"), d.said(code))
		})
	}
}

// refused is how the API server refuses a list.
func refused(group, resource string) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: group, Resource: resource}, "",
		fmt.Errorf("User %q cannot list resource %q in API group %q", "ann", resource, group))
}

func TestTheVersionIsReadFromAnImage(t *testing.T) {
	for image, want := range map[string]string{
		"freehold.dev/operator:v1.2.3":                      "v1.2.3",
		"localhost:5000/operator":                           "latest",
		"localhost:5000/operator:dev":                       "dev",
		"freehold.dev/operator:v1@sha256:0123456789abcdef0": "sha256:0123456789ab",
		"": "latest",
	} {
		if got := tagOf(image); got != want {
			t.Errorf("%q has the version %q, want %q", image, got, want)
		}
	}
}
