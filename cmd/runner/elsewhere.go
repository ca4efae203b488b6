package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/cmd/runner/internal/remote"
	"github.com/freehold-dev/freehold/controllers/conditions"
)

// refusals are the reasons that the proxy tells itself of a server that runs elsewhere.
var refusals = []string{remote.AddressNotAllowed, remote.NotTrusted, remote.CredentialsRefused, remote.NotMCP}

// unansweredElsewhere is unanswered of a server that runs elsewhere: one that is down
// is told apart from one that is up and refuses.
func unansweredElsewhere(r *reply, err error) conditions.Finding {
	const at = "the server at spec.url"
	switch {
	case errors.Is(err, errTooMuch):
		return conditions.False(v1alpha1.ReasonNotMCP, at+" answers MCP at length: "+errTooMuch.Error())
	case r == nil && errors.Is(err, context.DeadlineExceeded):
		return conditions.False(v1alpha1.ReasonNotAnswering, fmt.Sprintf("%s does not answer MCP within %s", at, askTimeout))
	case r == nil:
		return conditions.False(v1alpha1.ReasonNotAnswering, at+" does not answer")
	case r.bridged():
		for _, reason := range append(refusals, v1alpha1.ReasonNotAnswering) {
			if _, words, told := strings.Cut(r.said, reason+": "); told {
				return conditions.False(reason, clean(words, maxName))
			}
		}
		return conditions.False(v1alpha1.ReasonNotMCP, fmt.Sprintf("%s does not serve MCP over HTTP+SSE (%s): write the URL of its stream of events into spec.url", at, clean(r.said, maxBridge)))
	case r.noSessions():
		_, words, _ := strings.Cut(r.said, ": ")
		return conditions.False(v1alpha1.ReasonNotAnswering, at+" is not asked: "+clean(words, maxName))
	case r.ours():
		reason, words, _ := strings.Cut(r.said, ": ")
		if slices.Contains(refusals, reason) {
			return conditions.False(reason, clean(words, maxName))
		}
		why := r.said[strings.LastIndex(r.said, ": ")+1:]
		return conditions.False(v1alpha1.ReasonNotAnswering, fmt.Sprintf("%s does not answer (%s)", at, clean(strings.TrimSpace(why), maxWords)))
	case r.status == http.StatusForbidden:
		return conditions.False(v1alpha1.ReasonCredentialsRefused, at+" refuses the credentials that the proxy presents (HTTP 403): correct spec.headers")
	case r.status >= http.StatusInternalServerError, r.status == http.StatusTooManyRequests:
		return conditions.False(v1alpha1.ReasonNotAnswering, fmt.Sprintf("%s answers with HTTP %d", at, r.status))
	}
	return conditions.False(v1alpha1.ReasonNotMCP, fmt.Sprintf("%s answers, but not MCP (%s): write the URL of its MCP endpoint into spec.url", at, r))
}
