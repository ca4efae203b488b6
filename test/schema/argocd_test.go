package schema

import (
	"os"
	"testing"

	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Argo CD judges a server by the script that we ship, in the interpreter that it
// uses.
func TestArgoCDKnowsHowWellAServerIs(t *testing.T) {
	text, err := os.ReadFile("../../config/gitops/argocd-cm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var config corev1.ConfigMap
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		t.Fatal(err)
	}
	script := config.Data["resource.customizations.health.freehold.dev_MCPServer"]
	for name, tc := range map[string]struct{ status, health, message string }{
		"new":            {``, "Progressing", "waiting for Freehold"},
		"without a word": {`{observedGeneration: 2}`, "Progressing", "waiting for Freehold"},
		"ready": {
			`{observedGeneration: 2, conditions: [{type: BackendApplied, status: "True"}, {type: Ready, status: "True", message: fine}]}`,
			"Healthy", "fine",
		},
		"ready for older content": {`{observedGeneration: 1, conditions: [{type: Ready, status: "True"}]}`, "Progressing", "waiting for Freehold"},
		"on its way": {`{observedGeneration: 2, conditions: [{type: Ready, status: "False", reason: Updating, message: rolls out},
			{type: Reconciling, status: "True"}]}`, "Progressing", "rolls out"},
		"stalled": {
			`{observedGeneration: 2, conditions: [{type: Ready, status: "False", reason: ImagePull}, {type: Stalled, status: "True", message: no image}]}`,
			"Degraded", "no image",
		},
		"suspended": {
			`{observedGeneration: 2, conditions: [{type: Stalled, status: "True"}, {type: Ready, status: "False", reason: Suspended, message: stopped}]}`,
			"Suspended", "stopped",
		},
		"scaled to zero": {
			`{observedGeneration: 2, conditions: [{type: Ready, status: "False", reason: ScaledToZero, message: none}]}`,
			"Suspended", "none",
		},
	} {
		t.Run(name, func(t *testing.T) {
			object := map[string]any{"metadata": map[string]any{"generation": int64(2)}}
			var status map[string]any
			if err := yaml.Unmarshal([]byte(tc.status), &status); err != nil {
				t.Fatal(err)
			}
			if status != nil {
				object["status"] = status
			}
			state := lua.NewState()
			defer state.Close()
			state.SetGlobal("obj", inLua(object))
			if err := state.DoString(script); err != nil {
				t.Fatal(err)
			}
			got, ok := state.Get(-1).(*lua.LTable)
			if !ok || got.RawGetString("status").String() != tc.health || got.RawGetString("message").String() != tc.message {
				t.Errorf("it is %v with %v, want %s with %q", got.RawGetString("status"), got.RawGetString("message"), tc.health, tc.message)
			}
		})
	}
}

// inLua is a value from YAML as a script sees it.
func inLua(value any) lua.LValue {
	table := &lua.LTable{}
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			table.RawSetString(key, inLua(field))
		}
	case []any:
		for _, item := range value {
			table.Append(inLua(item))
		}
	case string:
		return lua.LString(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	}
	return table
}
