package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/freehold-dev/freehold/apis/printable"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/cmd/runner/internal/remote"
	"github.com/freehold-dev/freehold/controllers/conditions"
)

// refusals are the reasons that proxy and bridge tell of a server that runs elsewhere, in the data of their errors.
var refusals = []string{remote.AddressNotAllowed, remote.NotTrusted, remote.CredentialsRefused, remote.NotMCP}

// unansweredElsewhere is unanswered of a server that runs elsewhere: one that is down
// is told apart from one that is up and refuses.
func unansweredElsewhere(run runconfig.Target, r *reply, err error) conditions.Finding {
	const at = "the server at spec.url"
	bridged := run.Bridged() && r.bridged()
	switch {
	case errors.Is(err, errTooMuch):
		return conditions.False(v1alpha1.ReasonNotMCP, at+" answers MCP at length: "+errTooMuch.Error())
	case r == nil && errors.Is(err, context.DeadlineExceeded):
		return conditions.False(v1alpha1.ReasonNotAnswering,
			fmt.Sprintf("%s does not answer MCP within %s", at, askTime(run)))
	case r == nil:
		return conditions.False(v1alpha1.ReasonNotAnswering, at+" does not answer")
	case bridged && r.reason == v1alpha1.ReasonNotAnswering, (bridged || r.ours()) && slices.Contains(refusals, r.reason):
		return conditions.False(r.reason, printable.Line(r.detail, maxName))
	case bridged:
		return conditions.False(v1alpha1.ReasonNotMCP,
			fmt.Sprintf("%s does not serve MCP over HTTP+SSE (%s): write the URL of its stream of events into spec.url", at,
				printable.Line(r.said, maxBridge)))
	case r.noSessions():
		return conditions.False(v1alpha1.ReasonNotAnswering, at+" is not asked: "+printable.Line(r.detail, maxName))
	case r.ours():
		return conditions.False(v1alpha1.ReasonNotAnswering,
			fmt.Sprintf("%s does not answer (%s)", at, printable.Line(cmp.Or(r.detail, r.said), maxWords)))
	case r.status == http.StatusForbidden:
		return conditions.False(v1alpha1.ReasonCredentialsRefused,
			at+" refuses the credentials that the proxy presents (HTTP 403): correct spec.headers")
	case r.status >= http.StatusInternalServerError, r.status == http.StatusTooManyRequests:
		return conditions.False(v1alpha1.ReasonNotAnswering, fmt.Sprintf("%s answers with HTTP %d", at, r.status))
	}
	return conditions.False(v1alpha1.ReasonNotMCP,
		fmt.Sprintf("%s answers, but not MCP (%s): write the URL of its MCP endpoint into spec.url", at, r))
}
