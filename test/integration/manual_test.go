package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/mcpserver"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/test/kit"
)

// manual is an operator process without a queue: its passes are made one by one,
// on what its reader shows. Each is a process of its own, which remembers
// nothing of another's writes.
type manual struct {
	env        *kit.Env
	reader     *reader
	reconciler *mcpserver.Reconciler
	requests   *kit.Requests
}

// newManual makes a process of an operator that gives proxies the runner's image.
// wire may change what is sent.
func newManual(s *kit.Env, image string, wire func(*rest.Config)) *manual {
	GinkgoHelper()
	d := &manual{env: s, requests: &kit.Requests{}}
	config := d.requests.Wrap(s.OperatorConfig())
	if wire != nil {
		wire(config)
	}
	direct, err := client.New(config, client.Options{Scheme: s.Scheme, Mapper: s.Client.RESTMapper()})
	Expect(err).NotTo(HaveOccurred())
	d.reader = &reader{Reader: direct}
	applier := controllers.NewApplier(direct, direct)
	Expect(applier.Impersonate(config, kit.SystemNamespace, contract.Controllers()...)).To(Succeed())
	d.reconciler = mcpserver.New(snapshot.NewReader(kinds.Servers(), d.reader, direct), applier,
		events.NewFakeRecorder(1000), podtemplate.Release{RunnerImage: image})
	return d
}

// pass makes one pass over echo.
func (d *manual) pass() error {
	GinkgoHelper()
	_, err := d.reconciler.Reconcile(d.env.Ctx,
		ctrl.Request{NamespacedName: client.ObjectKey{Namespace: d.env.Namespace, Name: "echo"}})
	return err
}

// passes makes passes until one of them writes nothing.
func (d *manual) passes() {
	GinkgoHelper()
	for range 10 {
		mark := d.requests.Mark()
		Expect(d.pass()).To(Succeed())
		if len(d.requests.Since(mark).Writes()) == 0 {
			return
		}
	}
	Fail("ten passes did not settle:\n" + d.requests.Since(0).String())
}

// reader reads from the API server, unless it was frozen.
type reader struct {
	client.Reader

	mu     sync.Mutex
	frozen map[string]any
	after  func(client.Object)
}

// freeze keeps what is read from now on: each object is read once, and shown
// the same ever after, as a cache does whose watch is stuck.
func (r *reader) freeze() { r.frozen = map[string]any{} }

// share makes another process's reader show the same.
func (r *reader) share(with *reader) { with.frozen = r.frozen }

// Get reads, and then lets the world go on.
func (r *reader) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	err := r.remembered(key.String()+kindOf(object), object,
		func() error { return r.Reader.Get(ctx, key, object, opts...) })
	if err == nil && r.after != nil {
		r.after(object)
	}
	return err
}

// List reads, and then lets the world go on.
func (r *reader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	applied := (&client.ListOptions{}).ApplyOptions(opts).AsListOptions()
	return r.remembered(applied.LabelSelector+applied.FieldSelector+kindOf(list), list,
		func() error { return r.Reader.List(ctx, list, opts...) })
}

func (r *reader) remembered(key string, into any, read func() error) error {
	if r.frozen == nil {
		return read()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if shown, ok := r.frozen[key]; ok {
		if err, absent := shown.(error); absent {
			return err
		}
		return json.Unmarshal(shown.([]byte), into)
	}
	err := read()
	if err != nil {
		r.frozen[key] = err
		return err
	}
	r.frozen[key], err = json.Marshal(into)
	return err
}

// rewritten changes the body of each apply on its way to the API server.
func rewritten(change func(path string, body map[string]any)) func(*rest.Config) {
	carry := func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
		if kit.RequestOf(req).Verb != "apply" {
			return next.RoundTrip(req)
		}
		body := map[string]any{}
		if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
			return nil, err
		}
		change(req.URL.RequestURI(), body)
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		req = req.Clone(req.Context())
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		return next.RoundTrip(req)
	}
	return func(config *rest.Config) { kit.Through(config, carry) }
}
