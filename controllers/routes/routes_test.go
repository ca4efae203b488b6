package routes

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
)

// server answers a list of HTTPRoutes as it is told to, and holds a watch open until it is told something else.
type server struct {
	mu      sync.Mutex
	status  int // 0 is no answer
	changed chan struct{}
	// version is that of the one HTTPRoute, another one each time.
	version int
}

func (s *server) is(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
	s.version++
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	status, changed, version := s.status, s.changed, s.version
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case status == http.StatusOK && r.URL.Query().Get("watch") == "":
		fmt.Fprintf(w, `{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRouteList",
			"metadata": {"resourceVersion": "%[1]d"}, "items": [{"apiVersion": "gateway.networking.k8s.io/v1",
			"kind": "HTTPRoute", "metadata": {"namespace": "ns", "name": "echo-proxy", "resourceVersion": "%[1]d",
			"labels": {"of": "echo"}}}]}`, 1+version)
	case status == http.StatusOK && r.URL.Query().Get("sendInitialEvents") != "":
		w.WriteHeader(http.StatusUnprocessableEntity) // a list is asked for then
		fmt.Fprint(w, `{"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "Invalid", "code": 422}`)
	case status == http.StatusOK, status == 0:
		if status != 0 {
			w.(http.Flusher).Flush()
		}
		select {
		case <-r.Context().Done():
		case <-changed:
		}
	default:
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": %d, "reason": %q,
			"message": "as it is told to"}`, status, map[int]string{403: "Forbidden", 404: "NotFound"}[status])
	}
}

// serve returns a Source of the HTTPRoutes of an API server, and the names of the owners that are told of news.
func serve(t *testing.T, status int) (*Source, *server, chan string) {
	t.Helper()
	s := &server{status: status, changed: make(chan struct{})}
	api := httptest.NewServer(s)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(contract.HTTPRoute.GroupVersionKind, meta.RESTScopeNamespace)
	source := New(mapper, func(failed toolscache.WatchErrorHandlerWithContext) (cache.Cache, error) {
		return cache.New(&rest.Config{Host: api.URL, QPS: -1}, cache.Options{
			Scheme: runtime.NewScheme(), Mapper: mapper, DefaultWatchErrorHandler: failed,
		})
	}, func(labels map[string]string) string { return labels["of"] }, time.Now)
	told := make(chan string, 100)
	source.OnNews(func(_, owner string) { told <- owner })
	life, end := context.WithCancel(t.Context())
	t.Cleanup(func() { end(); s.is(http.StatusGone); api.Close() })
	go source.Start(life)
	return source, s, told
}

// await asks for the HTTPRoute of echo each time that echo is told of news, until it is known as it should be.
func await(t *testing.T, source *Source, told chan string, want State) {
	t.Helper()
	for end := time.After(time.Minute); ; {
		route, known := source.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "echo-proxy"}, "echo", true)
		if known == want && (want != Served || route != nil) {
			return
		}
		select {
		case owner := <-told:
			if owner != "echo" {
				t.Fatalf("%q is told", owner)
			}
		case <-end:
			t.Fatalf("it is %d, and nobody is told that it is %d", known, want)
		}
	}
}

// A right that is missing is told at once, and a right that comes later is news.
func TestHTTPRoutesThatMayNotBeReadAreReadOnceTheyMay(t *testing.T) {
	source, api, told := serve(t, http.StatusForbidden)
	await(t, source, told, Forbidden)
	if said := source.lastLogged(); !strings.Contains(said, "as it is told to") {
		t.Errorf("it is logged: %q", said)
	}
	api.is(http.StatusOK)
	await(t, source, told, Served)
	if said := source.lastLogged(); said != "" {
		t.Errorf("it would not be logged again: %q", said)
	}
}

// A first list that does not end counts as unread, until it ends.
func TestAFirstListThatTakesLong(t *testing.T) {
	source, api, told := serve(t, 0)
	source.firstList = 10 * time.Millisecond
	await(t, source, told, Unread)
	api.is(http.StatusOK)
	await(t, source, told, Served)
}

// Where the kind goes and comes back the watch goes on, and who has a route is told.
func TestAKindThatComesBackIsWatchedOn(t *testing.T) {
	source, api, told := serve(t, http.StatusOK)
	await(t, source, told, Served)
	api.is(http.StatusNotFound)
	for source.lastLogged() == "" {
		time.Sleep(time.Millisecond)
	}
	key := client.ObjectKey{Namespace: "ns", Name: "echo-proxy"}
	if _, known := source.Get(t.Context(), key, "echo", true); known != Served {
		t.Errorf("it is %d while the kind is away", known)
	}
	for len(told) > 0 {
		<-told
	}
	api.is(http.StatusOK)
	select {
	case owner := <-told:
		if owner != "echo" {
			t.Errorf("%q is told", owner)
		}
	case <-time.After(time.Minute):
		t.Error("nobody is told that the kind is back")
	}
}

// A cluster without the kind is asked again once a minute, and only where a route is wanted.
func TestAClusterIsAskedForTheKindOnceAMinute(t *testing.T) {
	asked, now := atomic.Int64{}, atomic.Int64{}
	source := New(without{meta.NewDefaultRESTMapper(nil), &asked}, nil, nil,
		func() time.Time { return time.Unix(now.Load(), 0) })
	told := make(chan string, 100)
	source.OnNews(func(_, owner string) { told <- owner })
	go source.Start(t.Context())
	key := client.ObjectKey{Namespace: "ns", Name: "echo-proxy"}
	if _, known := source.Get(t.Context(), key, "echo", false); known != NotServed || asked.Load() != 0 {
		t.Fatalf("it is %d, asked %d times, before anybody wants one", known, asked.Load())
	}
	for minute := range int64(2) {
		now.Store(60 * (1 + minute))
		for asked.Load() <= minute { // also before Start
			source.Get(t.Context(), key, "echo", true)
			<-told
		}
		for range 3 {
			if _, known := source.Get(t.Context(), key, "echo", true); known != NotServed || asked.Load() != 1+minute {
				t.Errorf("it is %d, asked %d times in %d minutes", known, asked.Load(), 1+minute)
			}
		}
	}
}

// without is a cluster that does not have the kind.
type without struct {
	meta.RESTMapper
	asked *atomic.Int64
}

func (w without) RESTMapping(of apischema.GroupKind, _ ...string) (*meta.RESTMapping, error) {
	w.asked.Add(1)
	return nil, &meta.NoKindMatchError{GroupKind: of}
}

func (s *Source) lastLogged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logged
}
