package runconfig

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The API server writes the data of a ControllerRevision with its keys in another order.
func TestContentIsReadAsItWasWritten(t *testing.T) {
	want := Content{
		Hash: "abc", Spec: json.RawMessage(`{"image":"i"}`),
		Backend: Backend{
			Image: "i", Port: 8080, Path: "/mcp", Transport: "stdio", Command: []string{"/server"},
			PodTemplate: json.RawMessage(`{"b":1,"a":2}`), Bridge: &Bridge{Image: "bridge"},
		},
	}
	data, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	var stored map[string]any
	if err := json.Unmarshal(data, &stored); err != nil {
		t.Fatal(err)
	}
	if data, err = json.Marshal(stored); err != nil {
		t.Fatal(err)
	}
	want.Backend.PodTemplate = json.RawMessage(`{"a":2,"b":1}`)
	got, err := DecodeContent(data)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("it is read as (-want +got):\n%s(%v)", diff, err)
	}
}

// A request to etcd has at most 1.5 MiB.
func TestContentThatIsTooLargeIsKeptWithoutItsSpec(t *testing.T) {
	long := strings.Repeat("x", 700<<10)
	content := Content{
		Hash: "abc", Backend: Backend{Image: "i", Port: 1, Path: "/", Transport: "sse", Args: []string{long}},
		Spec: json.RawMessage(`{"args":["` + long + `"]}`),
	}
	data, err := content.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeContent(data)
	if err != nil || got.Spec != nil || len(got.Backend.Args) != 1 || len(data) > contentLimit {
		t.Errorf("it has %d bytes, and a spec of %d (%v)", len(data), len(got.Spec), err)
	}
}

func TestContentThatCannotBeRightIsRefused(t *testing.T) {
	const sound = `"hash":"a","backend":{"image":"i","port":1,"path":"/","transport":"sse"}`
	for data, want := range map[string]string{
		`{` + sound + `}`: "",
		``:                "content: unexpected end of JSON input",
		`{"backend":{}}`: "content: hash: missing; backend.image: missing; backend.port: 0 is not a port; " +
			"backend.path: missing; backend.transport: missing",
		`{` + sound + `,"later":1}`: `content: unknown field "later"`,
	} {
		got := ""
		if _, err := DecodeContent([]byte(data)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", data, got, want)
		}
	}
}
