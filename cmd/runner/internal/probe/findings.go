package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/printable"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/cmd/runner/internal/era"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
	"github.com/freehold-dev/freehold/cmd/runner/internal/remote"
	"github.com/freehold-dev/freehold/controllers/conditions"
)

const (
	// maxBridge is the longest text of a bridge's in a sentence of ours, in bytes: the
	// server's own words are a part of it.
	maxBridge = 500
	// maxWords is the longest text of the backend's in a sentence of ours, in bytes.
	maxWords = 200
)

// bar says what a backend answered that does not let the runner in.
func (r *reply) bar() string {
	if r.status == http.StatusUnauthorized {
		return "the backend asks for credentials (HTTP 401), and was asked without one, so what it offers is not " +
			"known"
	}
	said := printable.Line(r.said, maxWords)
	if said != "" {
		said = ": " + said
	}
	return fmt.Sprintf("the backend refuses the question (HTTP %d%s), so what it offers is not known: "+
		"servers that check Host answer so, see docs/how-to/transports.md", r.status, said)
}

// alive is what is said of a server that answers, and does not take the runner's question: zero for any other answer.
// A server elsewhere gets what its owner wrote, and callers may bring a key of theirs: that it refuses the runner, who
// has none, is told apart by a caller whom it has answered.
func (p *Prober) alive(r *reply) conditions.Finding {
	of := namesOf(p.Server)
	switch {
	case r.busy():
		return tooMany(of)
	case p.Server.Remote == nil && r.barred():
		return keptOut(r)
	case p.lacksKey(r) && !p.letIn.Load() && !p.lastAnswer(netip.Addr{}).IsZero():
		return conditions.True(v1alpha1.ReasonAnswers, of.at+" answers callers and asks for credentials, and was asked "+
			"without one, so what it offers is not known")
	}
	return conditions.Finding{}
}

// answersCallersAlone is what is said of a server that answers callers, and not the question.
func answersCallersAlone(run runconfig.Target) conditions.Finding {
	return conditions.True(v1alpha1.ReasonAnswers, namesOf(run).at+" answers callers, and not the question of the proxy, "+
		"so what it offers is not known")
}

// lacksKey reports whether a server elsewhere refuses the runner, which has nothing to present.
func (p *Prober) lacksKey(r *reply) bool {
	return p.Server.Remote != nil && len(p.Server.Remote.Headers) == 0 &&
		(r.barred() || r.from == theProxy && r.reason == remote.CredentialsRefused)
}

// tooMany is what is said of a server that wants to be asked less often.
func tooMany(of names) conditions.Finding {
	return conditions.True(v1alpha1.ReasonAnswers, of.at+" answers, and takes no more questions for now (HTTP 429), so "+
		"what it offers is not known")
}

// explained are the reasons that proxy and bridge have in the data of their errors, whose detail is the message.
var explained = []string{remote.AddressNotAllowed, remote.NotTrusted, remote.CredentialsRefused, remote.NotMCP}

// names are how sentences name a server and what its owner looks at.
type names struct {
	at   string // the server
	path string // where MCP is, if the owner says it apart
	log  string // where its own words are
	port string // what to do where nothing answers
}

func namesOf(run runconfig.Target) names {
	if run.Remote != nil {
		return names{at: "the server at spec.url"}
	}
	const log = ": look at its log"
	return names{
		at: fmt.Sprintf("the backend at port %d", run.Backend.Port), path: " at " + run.Backend.Path,
		log: log, port: log + ", and write the port on which the image listens into spec.port",
	}
}

// unanswered says why no session came about: what answered, and what to write instead. Within is how long it had. The
// words hold nothing that differs from one asking to the next. A server elsewhere that is down is told apart from one
// that is up and refuses.
func unanswered(run runconfig.Target, r *reply, err error, within time.Duration) conditions.Finding {
	is, elsewhere := namesOf(run), run.Remote != nil
	notAnswering := func(format string, args ...any) conditions.Finding {
		return conditions.False(v1alpha1.ReasonNotAnswering, is.at+fmt.Sprintf(format, args...))
	}
	switch {
	case errors.Is(err, errTooMuch):
		return conditions.False(v1alpha1.ReasonNotMCP, is.at+" answers MCP at length: "+errTooMuch.Error())
	case (r.from == nobody || r.begun()) && errors.Is(err, context.DeadlineExceeded):
		return notAnswering(" does not answer MCP%s within %s%s", is.path, within, is.log)
	case r.from == nobody:
		return notAnswering(" does not answer%s", is.port)
	case r.from == theBridge:
		return ofBridge(run, r)
	case r.from == theProxy && slices.Contains(explained, r.reason):
		return conditions.False(r.reason, printable.Line(r.detail, maxName))
	case r.from == aProxyWithoutKey && r.reason == proxy.ReasonKeyNotTaken:
		return notAnswering(" is not asked: %s", printable.Line(r.detail, maxName))
	case r.from == aProxyWithoutKey:
		return notAnswering(" is not asked: %s: write one, as docs/how-to/sessions.md describes",
			printable.Line(r.detail, maxWords))
	case r.from == theProxy && r.reason == v1alpha1.ReasonNotAsked:
		return conditions.Finding{
			Status: metav1.ConditionUnknown, Reason: r.reason,
			Message: "the cluster's DNS names no pod of the backend that is ready",
		}
	case r.from == theProxy:
		return notAnswering(" does not answer (%s)%s", printable.Line(cmp.Or(r.detail, r.said), maxWords), is.port)
	case elsewhere && r.status == http.StatusForbidden:
		return conditions.False(v1alpha1.ReasonCredentialsRefused,
			is.at+" refuses the credentials that the proxy presents (HTTP 403): correct spec.headers")
	case r.status == http.StatusBadGateway && r.code == protocol.CodeInternal && r.reason == era.ReasonNotMCP:
		return conditions.False(v1alpha1.ReasonNotMCP, fmt.Sprintf("%s answers, but not MCP%s (%s): %s", is.at, is.path,
			printable.Line(r.detail, maxWords), advice(run, r)))
	case elsewhere && r.status >= http.StatusInternalServerError:
		return notAnswering(" answers with HTTP %d", r.status)
	case r.status >= http.StatusInternalServerError:
		return notAnswering(" answers MCP%s with HTTP %d%s", is.path, r.status, is.log)
	}
	return conditions.False(v1alpha1.ReasonNotMCP,
		fmt.Sprintf("%s answers, but not MCP%s (%s): %s", is.at, is.path, r, advice(run, r)))
}

// ofBridge says what the bridge says of its server.
func ofBridge(run runconfig.Target, r *reply) conditions.Finding {
	said := printable.Line(r.said, maxBridge)
	switch {
	case run.Remote == nil:
		return conditions.False(v1alpha1.ReasonNotAnswering,
			fmt.Sprintf("the bridge of transport %s in the backend's pod says %s", run.Backend.Transport, said))
	case r.reason == v1alpha1.ReasonNotAnswering, slices.Contains(explained, r.reason):
		return conditions.False(r.reason, printable.Line(r.detail, maxName))
	}
	return conditions.False(v1alpha1.ReasonNotMCP, fmt.Sprintf("the server at spec.url does not serve MCP over HTTP+SSE "+
		"(%s): write the URL of its stream of events into spec.url", said))
}

// advice is what to write instead.
func advice(run runconfig.Target, r *reply) string {
	switch {
	case run.Remote != nil:
		return "write the URL of its MCP endpoint into spec.url"
	case r.refused() && r.code == 0:
		return "it refuses an initialize of MCP: write transport: sse if the image speaks the older transport; where it " +
			"wants credentials, HTTP 401 would say so"
	case r.refused():
		return "it refuses an initialize of MCP; where it wants credentials, HTTP 401 would say so"
	case r.status == http.StatusNotFound || r.status == http.StatusMethodNotAllowed:
		return "write the path of its MCP endpoint into spec.path, or transport: sse if the image speaks the older " +
			"transport only"
	}
	return "write the port and path of its MCP endpoint into spec.port and spec.path"
}
