package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/test/kit"
)

// wire is the way of one process, or of all the others, to the API server.
type wire struct {
	scenario *scenario
	// process is nil for those that are not ours.
	process *process
}

// wired is config with the run's wire between whoever uses it and the API server.
func (p *scenario) wired(process *process, config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	// What passes is read here.
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	kit.Through(config, (&wire{p, process}).carry)
	return config
}

func (p *scenario) connect(config *rest.Config) client.Client {
	c, err := client.New(config, client.Options{Scheme: plane.Scheme, Mapper: plane.Client.RESTMapper()})
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}

// operation is a write as it goes over the wire.
type operation struct {
	kit.Request
	by *process
	// of is whom it is about.
	of key
	// content is the body, where it is an object.
	content *unstructured.Unstructured
	body    []byte
	force   bool
	// forbidden says that a policy of ours must refuse it.
	forbidden bool
	// media replaces the content type, where it is set.
	media types.PatchType
	// plain says that nobody is impersonated.
	plain bool
	// before is what stood, answer what the API server made of it.
	before, answer *unstructured.Unstructured
}

// main reports whether the operation writes the main resource.
func (o *operation) main() bool { return o.subresource() == "" }

func (o *operation) subresource() string {
	_, sub, _ := strings.Cut(o.Resource, "/")
	return sub
}

// carry carries one request to the API server, and its answer back.
func (w *wire) carry(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	sent := kit.RequestOf(req)
	resource, _, _ := strings.Cut(sent.Resource, "/")
	of := key{kinds[resource].Kind, sent.Name}
	write := !slices.Contains([]string{"get", "list", "watch"}, sent.Verb)
	if w.process != nil {
		if write {
			w.scenario.hold(w.process, of)
		}
		w.process.turn.Wait()
		if err := req.Context().Err(); err != nil {
			return nil, err
		}
	}
	if !write {
		return w.read(req, next, sent, of)
	}
	o := &operation{Request: sent, by: w.process, of: of, force: req.URL.Query().Get("force") == "true"}
	o.forbidden = w.process == nil && w.scenario.others.forbidden
	if req.Body != nil {
		var err error
		if o.body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
	}
	return w.write(req, next, o)
}

func (w *wire) read(req *http.Request, next http.RoundTripper, sent kit.Request, of key) (*http.Response, error) {
	w.scenario.tally["read"]++
	response, err := next.RoundTrip(req)
	if err != nil || w.process == nil || of.kind == "" || of.name == "" {
		return response, err
	}
	body, err := readAll(response)
	if err != nil {
		return nil, err
	}
	switch response.StatusCode {
	case http.StatusForbidden:
		sent.Code = response.StatusCode
		w.scenario.checker.refusal(&operation{Request: sent, by: w.process, of: of}, body)
	case http.StatusOK:
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(body); err != nil {
			return nil, err
		}
		w.process.sees(of, object)
	case http.StatusNotFound:
		w.process.sees(of, nil)
	}
	return response, nil
}

func (w *wire) write(req *http.Request, next http.RoundTripper, o *operation) (*http.Response, error) {
	p := w.scenario
	o.before = p.world.stands[o.of]
	if o.of.name == "" { // a POST names the object in its body
		o.decode()
		o.of.name = o.content.GetName()
		o.before = p.world.stands[o.of]
	}
	if w.process != nil {
		if fault := p.refuses(); fault != nil {
			p.note("%s: %s: %s at random", w.process.name, o, fault.Name)
			p.tally["fault "+fault.Name]++
			return fault.Carry(req, next)
		}
	}
	o.decode()
	if contract.Freehold().Claims(o.Manager) {
		p.plant.change(p, o)
		o.decode()
	}
	p.gate.sends(o)
	response, err := next.RoundTrip(o.request(req))
	if err != nil {
		p.broke(fmt.Errorf("%s: %w", o, err))
		return nil, err
	}
	body, err := readAll(response)
	if err != nil {
		return nil, err
	}
	o.Code = response.StatusCode
	if req.URL.Query().Has("dryRun") { // a question
		p.tally["dry run"]++
		return response, nil
	}
	accepted := o.Code < http.StatusMultipleChoices
	p.account(o, accepted)
	p.note("%s: %s: %d%s", o.author(), o, o.Code, reason(o.Code, body))
	if w.process != nil {
		p.checker.answered(o)
	}
	p.checker.refusal(o, body)
	if !accepted {
		return response, nil
	}
	p.accepted++
	p.carriedOut(o, body)
	if w.process != nil && p.disorder && p.random.IntN(25) == 0 {
		p.note("%s: the answer is lost", w.process.name)
		p.tally["fault lost answer"]++
		return nil, kit.ErrReset
	}
	if w.process != nil && o.answer != nil {
		w.process.answered(o)
	}
	return response, nil
}

// decode reads the body, where it is an object.
func (o *operation) decode() {
	content := &unstructured.Unstructured{}
	if len(o.body) > 0 && o.body[0] == '{' && json.Unmarshal(o.body, &content.Object) == nil {
		o.content = content
	}
}

// replace changes what is sent.
func (o *operation) replace(content map[string]any) {
	o.body, _ = json.Marshal(content) // of maps, lists and texts
}

// request is the request as it is sent, after the plants.
func (o *operation) request(req *http.Request) *http.Request {
	changed := req.Clone(req.Context())
	changed.Body, changed.ContentLength = io.NopCloser(bytes.NewReader(o.body)), int64(len(o.body))
	changed.GetBody = nil
	if o.media != "" {
		changed.Header.Set("Content-Type", string(o.media))
		o.Verb, o.force = "patch", false
	}
	if o.plain && o.by != nil && !o.by.isRunner() {
		changed.Header.Del(authenticationv1.ImpersonateUserHeader)
	}
	if !o.force {
		query := changed.URL.Query()
		query.Del("force")
		changed.URL.RawQuery = query.Encode()
	}
	return changed
}

// refusals are the faults by which the API server refuses a write now and then.
var refusals = []kit.Fault{
	kit.Refusal(http.StatusConflict, metav1.StatusReasonConflict, "a conflict at random"),
	kit.Refusal(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too many requests at random"),
	kit.Refusal(http.StatusInternalServerError, metav1.StatusReasonInternalError, "an internal error at random"),
}

// refuses is the refusal that a write meets, or nil.
func (p *scenario) refuses() *kit.Fault {
	if !p.disorder || p.random.IntN(20) != 0 {
		return nil
	}
	return &refusals[p.random.IntN(len(refusals))]
}

// carriedOut notes what the API server made of an operation, and lets it be judged.
func (p *scenario) carriedOut(o *operation, body []byte) {
	switch {
	// The answer to a patch of metadata alone is protobuf, and not the object.
	case o.Verb == "delete" || o.subresource() == "scale" || !json.Valid(body):
		o.answer = p.look(o.of)
		p.world.put(o.of, o.answer)
	default:
		o.answer = &unstructured.Unstructured{}
		if err := o.answer.UnmarshalJSON(body); err != nil {
			p.broke(fmt.Errorf("reading the answer to %s: %w", o, err))
			return
		}
		p.world.put(o.of, o.answer)
		// Who takes the last finalizer away ends the object.
		if o.before != nil && o.before.GetDeletionTimestamp() != nil && len(o.answer.GetFinalizers()) == 0 {
			p.world.put(o.of, p.look(o.of))
		}
	}
	if grantsRunner(o.of) {
		p.awaitRights()
	}
	p.plant.answered(o)
	p.gate.sees(o)
	p.slots.carriedOut(o)
	p.checker.carriedOut(o)
}

func (o *operation) author() string {
	if o.by == nil {
		return "somebody"
	}
	return o.by.name
}

// String says what is asked, without what differs in each run.
func (o *operation) String() string {
	verb := o.Verb
	if o.force {
		verb = "forced " + verb
	}
	version := ""
	if o.content != nil && o.content.GetResourceVersion() != "" {
		version = " at " + strconv.Quote(o.content.GetResourceVersion())
	}
	return fmt.Sprintf("%s %s/%s %s by %s%s", verb, o.of.kind, o.subresource(), o.of.name, o.Manager, version)
}

// account counts an operation.
func (p *scenario) account(o *operation, accepted bool) {
	p.operations++
	verb := o.Verb
	switch {
	case o.forbidden:
		verb = "forbidden " + verb
	case o.force && contract.Freehold().Claims(o.Manager):
		verb = "our apply"
	case o.by != nil:
		verb = "our " + verb
	case o.force:
		verb = "forced apply"
	case o.subresource() == "scale":
		verb = "scale"
	case o.subresource() == "status":
		verb += " of status"
	}
	if !accepted {
		verb += ", refused"
	} else if o.by != nil {
		p.tally["by "+o.by.name]++
	}
	p.tally[verb]++
}

// reason is the API server's word for a refusal.
func reason(code int, body []byte) string {
	if code < http.StatusMultipleChoices {
		return ""
	}
	var status metav1.Status
	if json.Unmarshal(body, &status) != nil {
		return ""
	}
	return " " + said(status.Message)
}

// said is a message on one line, without the objects that some hold.
func said(message string) string {
	text, _, _ := strings.Cut(kit.OneLine(message), "{")
	return text
}

func readAll(response *http.Response) ([]byte, error) {
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return body, response.Body.Close()
}
