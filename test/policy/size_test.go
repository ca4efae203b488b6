package policy

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/controllers/runspec"
	"github.com/freehold-dev/freehold/test/kit"
)

// heavy is an object of a kind whose spec has some more than n characters, in a field that the
// schema of its kind does not bound in sum.
func heavy(kind, name string, n int) *unstructured.Unstructured {
	text := map[string]string{
		"MCPServer":      "{image: 'i:1', podTemplate: {metadata: {annotations: {a: %s}}}}",
		"MCPRemoteProxy": "{url: 'https://mcp.example.com/mcp', proxy: {podTemplate: {spec: {some: [{thing: %s}]}}}}",
		"MCPAuthzConfig": "{policies: [%s]}",
	}[kind]
	filler := strings.Repeat("é", n)
	if kind == "MCPAuthzConfig" {
		var policies []string
		for i := range 1 + n/16384 {
			policies = append(policies,
				fmt.Sprintf("{name: p%d, policy: %s}", i, strings.Repeat("x", min(16384, n-i*16384)+1)[:min(16384, n-i*16384+1)]))
		}
		filler = strings.Join(policies, ", ")
	}
	return object("{apiVersion: freehold.dev/v1alpha1, kind: " + kind + ", metadata: {name: " + name + "}, spec: " +
		fmt.Sprintf(text, filler) + "}")
}

// leaveHeavy makes a server, before the policies, that is larger than they let in.
func leaveHeavy(ctx context.Context) error {
	server := heavy("MCPServer", "heavy", runspec.Largest+1000)
	server.SetNamespace(older)
	return admin.Create(ctx, server)
}

// What a spec weighs in sum is bounded, of each kind and whatever field it is in.
func TestASpecIsBoundedInSum(t *testing.T) {
	s := kit.NewEnv(t, plane)
	for _, kind := range []string{"MCPServer", "MCPRemoteProxy", "MCPAuthzConfig"} {
		light, large := heavy(kind, "light", runspec.Largest-2000), heavy(kind, "large", runspec.Largest)
		for _, o := range []*unstructured.Unstructured{light, large} {
			o.SetNamespace(s.Namespace)
		}
		if err := admin.Create(t.Context(), light); err != nil {
			t.Errorf("%s of nearly the most: %.300v", kind, err)
		}
		refused(t, admin.Create(t.Context(), large), "spec: "+runspec.TooLarge(large.Object["spec"]).Error())
		large.SetName("light")
		large.SetResourceVersion(light.GetResourceVersion())
		refused(t, admin.Update(t.Context(), large), "spec: more than 393216 characters")
	}
}

// An object that was larger before may stay so and shrink, and is held and let go.
func TestALargerObjectOfBeforeIsWritten(t *testing.T) {
	ctx := t.Context()
	server := object("{apiVersion: freehold.dev/v1alpha1, kind: MCPServer, metadata: {name: heavy, namespace: older}}")
	finalizer := object("{apiVersion: freehold.dev/v1alpha1, kind: MCPServer, metadata: {name: heavy, namespace: older, " +
		"finalizers: [freehold.dev/mcpserver]}}")
	if err := applied(ctx, controller(t), string(contract.MCPServerFinalizer), "", finalizer, true); err != nil {
		t.Errorf("holding it: %.300v", err)
	}
	patch := func(text string) error {
		return admin.Patch(ctx, server, client.RawPatch(types.MergePatchType, []byte(text)))
	}
	if err := patch(`{"spec": {"image": "i:2"}}`); err != nil {
		t.Errorf("a change that adds nothing: %.300v", err)
	}
	refused(t, patch(`{"spec": {"args": ["more"]}}`), "spec: more than 393216 characters")
	refused(t, patch(`{"spec": {"suspend": true, "args": ["more"]}}`), "spec: more than 393216 characters")
	if err := patch(`{"spec": {"suspend": true}}`); err != nil {
		t.Errorf("suspending it: %.300v", err)
	}
	if err := patch(`{"spec": {"podTemplate": null}}`); err != nil {
		t.Errorf("shrinking it: %.300v", err)
	}
	refused(t, patch(`{"spec": {"podTemplate": {"a": "`+strings.Repeat("x", runspec.Largest)+`"}}}`),
		"spec: more than 393216 characters")
	if err := patch(`{"metadata": {"finalizers": null}}`); err != nil {
		t.Error(err)
	}
}

// The policy and the operator speak with one voice.
func TestOneBoundAndOneSentence(t *testing.T) {
	text, err := os.ReadFile("../../config/policy/size.yaml")
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Join(strings.Fields(string(text)), " ")
	for _, want := range []string{fmt.Sprintf("variables.characters <= %d ", runspec.Largest), "message: >- spec: " +
		runspec.TooLarge(strings.Repeat("x", runspec.Largest+1)).Error()} {
		if !strings.Contains(words, want) {
			t.Errorf("config/policy/size.yaml does not say %q", want)
		}
	}
}
