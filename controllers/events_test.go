package controllers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/client-go/rest"
	restwatch "k8s.io/client-go/rest/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/reconcile"
)

// largest are objects of ours that are as large as they may be.
func largest() map[string]client.Object {
	text := strings.Repeat("x", 6<<10)
	var many []v1alpha1.AuthzPolicy
	for i := range 60 {
		many = append(many, v1alpha1.AuthzPolicy{Name: fmt.Sprint("p", i), Policy: text})
	}
	login := &v1alpha1.OIDCConfigReference{LocalReference: v1alpha1.LocalReference{Name: "l"}, Scopes: []string{text}}
	all := map[string]client.Object{
		"mcpservers": &v1alpha1.MCPServer{
			Spec: v1alpha1.MCPServerSpec{
				Args:              strings.SplitAfter(strings.Repeat(text+",", 60), ","),
				ProxyWorkloadSpec: v1alpha1.ProxyWorkloadSpec{Suspend: true, OIDCConfigRef: login},
			},
		},
		"mcpremoteproxies": &v1alpha1.MCPRemoteProxy{
			Spec: v1alpha1.MCPRemoteProxySpec{
				ProxyWorkloadSpec: v1alpha1.ProxyWorkloadSpec{
					AuthzConfig:   &v1alpha1.AuthzConfig{Policies: many},
					OIDCConfigRef: login,
				},
			},
		},
		"mcpoidcconfigs": &v1alpha1.MCPOIDCConfig{
			Spec: v1alpha1.MCPOIDCConfigSpec{OIDC: &v1alpha1.OIDCIssuer{Issuer: strings.Repeat(text, 60)}},
		},
		"mcpauthzconfigs": &v1alpha1.MCPAuthzConfig{Spec: v1alpha1.AuthzConfig{Policies: many}},
	}
	for resource, object := range all {
		kind := map[string]string{
			"mcpservers": "MCPServer", "mcpremoteproxies": "MCPRemoteProxy", "mcpoidcconfigs": "MCPOIDCConfig",
			"mcpauthzconfigs": "MCPAuthzConfig",
		}[resource]
		object.GetObjectKind().SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind(kind))
		object.SetNamespace("tenant")
		object.SetName("large")
		object.SetGeneration(4)
		object.SetLabels(map[string]string{"team": "blue", "theirs": "1"})
	}
	return all
}

func event(tb testing.TB, object any) []byte {
	tb.Helper()
	data, err := json.Marshal(map[string]any{"type": "MODIFIED", "object": object})
	if err != nil {
		tb.Fatal(err)
	}
	return append(data, '\n')
}

// decoder is that of a watch, as controller-runtime builds it.
func decoder(tb testing.TB, body io.ReadCloser) *restwatch.Decoder {
	tb.Helper()
	scheme, err := NewScheme()
	if err != nil {
		tb.Fatal(err)
	}
	codecs := serializer.NewCodecFactory(scheme)
	info := codecs.SupportedMediaTypes()[0]
	stream := streaming.NewDecoder(info.StreamSerializer.Framer.NewFrameReader(body), info.StreamSerializer.Serializer)
	return restwatch.NewDecoder(stream,
		codecs.WithoutConversion().DecoderToVersion(info.Serializer, schema.GroupVersion{}))
}

// watched is what the client of the cache reads of a path of an API server that answers this.
func watched(t *testing.T, path, media string, answer []byte) []byte {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		_, _ = w.Write(answer)
	}))
	defer server.Close()
	options, err := CacheOptions(&rest.Config{Host: server.URL}, nil, "team")
	if err != nil {
		t.Fatal(err)
	}
	response, err := options.HTTPClient.Get(server.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

const apis = "/apis/freehold.dev/v1alpha1/"

// What the cache keeps of a large object is the same whether it was cut before it was
// decoded or after it, and client-go has little to decode.
func TestALargeObjectIsCutBeforeItIsDecoded(t *testing.T) {
	for resource, object := range largest() {
		for _, path := range []string{
			apis + resource + "?watch=true",
			"/k8s/clusters/c1" + apis + "namespaces/tenant/" + resource + "?a=b&watch=1",
		} {
			got := watched(t, path, "application/json; charset=utf-8", append(event(t, object), event(t, object)...))
			if len(got) > 4<<10 || bytes.Count(got, []byte("\n")) != 2 {
				t.Fatalf("%s: of two events %d bytes are decoded: %.300s", path, len(got), got)
			}
			kind, read, err := decoder(t, io.NopCloser(bytes.NewReader(got))).Decode()
			if err != nil || kind != "MODIFIED" {
				t.Fatalf("%s: %s: %v", path, kind, err)
			}
			kept, _ := newInterner("team").trim(read)
			_, whole, _ := decoder(t, io.NopCloser(bytes.NewReader(event(t, object)))).Decode()
			want, _ := newInterner("team").trim(whole)
			if !equality.Semantic.DeepEqual(kept, want) {
				t.Errorf("%s: it keeps %+v, want %+v", path, kept, want)
			}
			if digest := digestOf(object); !reconcile.IsCut(kept.(client.Object)) ||
				reconcile.CutDigest(kept.(client.Object)) != digest {
				t.Errorf("%s: it is cut with %+v, want %s", path, kept.(client.Object).GetManagedFields(), digest)
			}
		}
	}
}

// What is small, or is no event of ours, is read as it is sent.
func TestWhatIsSmallIsReadAsItIsSent(t *testing.T) {
	server := largest()["mcpservers"]
	large, bookmark := event(t, server),
		[]byte(`{"type": "BOOKMARK",  "object": {"kind": "MCPServer", "metadata": {"resourceVersion": "7"}}}`+"\n")
	other := event(t, &corev1.ConfigMap{Data: map[string]string{"a": megabyte}})
	failed := event(t, &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Code: http.StatusGone,
		Message: megabyte,
	})
	for name, tc := range map[string]struct {
		path, media string
		answer      []byte
	}{
		"a bookmark":           {apis + "mcpservers?watch=true", "application/json", bookmark},
		"a list":               {apis + "mcpservers?limit=500", "application/json", large},
		"another kind":         {"/apis/example.com/v1/mcpservers?watch=true", "application/json", large},
		"a status":             {apis + "namespaces/n/mcpservers/a/status?watch=true", "application/json", large},
		"another format":       {apis + "mcpservers?watch=true", "application/cbor-seq", large},
		"what is not finished": {apis + "mcpservers?watch=true", "application/json", large[:len(large)-5]},
		"what is no object": {
			apis + "mcpservers?watch=true", "application/json",
			append(bytes.Repeat([]byte("x"), 64<<10), '\n'),
		},
		"an error":    {apis + "mcpservers?watch=true", "application/json", failed},
		"a ConfigMap": {"/api/v1/configmaps?watch=true", "application/json", other},
	} {
		if got := watched(t, tc.path, tc.media, tc.answer); !bytes.Equal(got, tc.answer) {
			t.Errorf("%s: %d bytes are read of %d: %.100s", name, len(got), len(tc.answer), got)
		}
	}
}

// A reader may take a watch by the byte, and learns how it ends.
func TestAWatchIsReadInParts(t *testing.T) {
	bookmark, broken := []byte(`{"type": "BOOKMARK"}`+"\n"), errors.New("reset")
	from := io.MultiReader(bytes.NewReader(append(event(t, largest()["mcpservers"]), bookmark...)),
		iotest.ErrReader(broken))
	body := http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(from),
	}
	request := httptest.NewRequest(http.MethodGet, apis+"mcpservers?watch=true", nil)
	response, err := watchTrimmer{next: answers{&body}}.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(iotest.OneByteReader(response.Body))
	if !errors.Is(err, broken) || len(got) > 4<<10 || !bytes.HasSuffix(got, bookmark) {
		t.Errorf("%d bytes are read, and then %v: %.300s", len(got), err, got)
	}
}

type answers struct{ response *http.Response }

func (a answers) RoundTrip(*http.Request) (*http.Response, error) { return a.response, nil }

// again sends a line as often as it is read.
type again struct {
	line, rest []byte
}

func (a *again) Read(p []byte) (int, error) {
	if len(a.rest) == 0 {
		a.rest = a.line
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

func (*again) Close() error { return nil }

// BenchmarkEventOfALargeObject is what a watch takes until the cache has an event: of a bare informer, and of ours.
func BenchmarkEventOfALargeObject(b *testing.B) {
	for resource, object := range largest() {
		for _, name := range []string{"bare", "ours"} {
			b.Run(resource+"/"+name, func(b *testing.B) {
				line, shared := event(b, object), newInterner()
				var body io.ReadCloser = &again{line: line}
				if name == "ours" {
					request := httptest.NewRequest(http.MethodGet, apis+resource+"?watch=true", nil)
					sent := http.Response{
						StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
						Body: body,
					}
					response, err := watchTrimmer{next: answers{&sent}}.RoundTrip(request)
					if err != nil {
						b.Fatal(err)
					}
					body = response.Body
				}
				watch := decoder(b, body)
				defer watch.Close()
				b.SetBytes(int64(len(line)))
				b.ReportAllocs()
				for b.Loop() {
					_, read, err := watch.Decode()
					if err != nil {
						b.Fatal(err)
					}
					if name == "ours" {
						_, _ = shared.trim(read)
					}
				}
			})
		}
	}
}
