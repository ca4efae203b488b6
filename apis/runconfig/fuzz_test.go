package runconfig

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// FuzzDecode holds Decode to what the runner relies on: whatever it lets in has
// one encoding, however the file was written, and that is read back as itself.
func FuzzDecode(f *testing.F) {
	data, err := sample().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"version":"v1"}`))
	f.Add([]byte(`{"version":"v2"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		run, err := Decode(data)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("the error is more than one line: %q", err)
			}
			return
		}
		canonicalForm(t, run)
		var compact bytes.Buffer
		if err := json.Compact(&compact, data); err != nil {
			t.Fatalf("what was decoded is not JSON: %v", err)
		}
		again, err := Decode(compact.Bytes())
		if err != nil {
			t.Fatalf("without white space: %v", err)
		}
		if diff := cmp.Diff(encoded(t, run), encoded(t, again)); diff != "" {
			t.Errorf("without white space (-with +without):\n%s", diff)
		}
	})
}

// FuzzEncode holds Encode to the same for configs as a spec makes them.
func FuzzEncode(f *testing.F) {
	f.Add("registry.example.com/echo:1", "--level=debug", "/mcp", "https://a.example.com",
		[]byte(`{"spec":{"priority":12345678901234567890}}`), int32(8080), int64(7))
	f.Add("{{ .Values.image }}", "", "/", "\x00", []byte(`{"b":1,"a":[null,{},1e400,-0]}`), int32(65535), int64(1))
	f.Fuzz(func(t *testing.T, image, arg, path, origin string, template []byte, port int32, generation int64) {
		for _, text := range []string{image, arg, path, origin} {
			if !utf8.ValidString(text) {
				return // the API server's JSON holds no such text
			}
		}
		run := sample()
		run.Workload.Generation = generation
		run.Backend.Image, run.Backend.Path, run.Backend.Port = image, path, port
		run.Backend.Args = []string{arg}
		run.Backend.Env = []corev1.EnvVar{{Name: arg, Value: image}}
		run.Backend.PodTemplate = template
		run.Proxy.AllowedOrigins = []string{origin}
		run.NotEnforced = nil
		data, err := run.Encode()
		if err != nil {
			if json.Valid(template) {
				t.Errorf("an overlay that is JSON was not encoded: %v", err)
			}
			return
		}
		right := image != "" && path != "" && port > 0 && port <= 65535 && generation > 0
		read, err := Decode(data)
		if right != (err == nil) {
			t.Fatalf("decoding what was encoded: %v\n%s", err, data)
		}
		if err != nil {
			return
		}
		if diff := cmp.Diff(string(data), encoded(t, read)); diff != "" {
			t.Errorf("read back (-written +read):\n%s", diff)
		}
		canonicalForm(t, read)
		if read.Backend.Image != image || read.Backend.Args[0] != arg || read.Backend.Path != path ||
			read.Proxy.AllowedOrigins[0] != origin {
			t.Errorf("a text changed on the way:\n%s", data)
		}
	})
}

// canonicalForm demands that a config that was read has one encoding and one
// hash, which its revision is no part of, and which no content shares.
func canonicalForm(t *testing.T, run RunConfig) {
	t.Helper()
	first := encoded(t, run)
	read, err := Decode([]byte(first))
	if err != nil {
		t.Fatalf("decoding what was encoded: %v\n%s", err, first)
	}
	if diff := cmp.Diff(first, encoded(t, read)); diff != "" {
		t.Errorf("encoding (-first +second):\n%s", diff)
	}
	hash := hashed(t, run)
	if got := hashed(t, read); got != hash {
		t.Errorf("the hash was %s, is %s", hash, got)
	}
	marked, other := read, read
	marked.Workload = Workload{Generation: run.Workload.Generation%1000 + 1, Hash: hash}
	if err := marked.Verify(); err != nil {
		t.Errorf("under its own hash: %v", err)
	}
	other.Backend.Image += "x"
	if hashed(t, other) == hash {
		t.Error("another image has the same hash")
	}
}

func encoded(t *testing.T, run RunConfig) string {
	t.Helper()
	data, err := run.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func hashed(t *testing.T, run RunConfig) string {
	t.Helper()
	hash, err := run.ContentHash()
	if err != nil {
		t.Fatal(err)
	}
	return hash
}
