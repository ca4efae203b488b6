package report

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/printable"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/routes"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// Routed is what the write of the HTTPRoute came to.
type Routed struct {
	// Written reports whether it was changed: what Gateways say of it is then of before.
	Written bool
	Err     error
}

// Published says whether Gateways lead clients to the proxy, nil where the spec asks for no HTTPRoute and there is
// none.
func Published(s *snapshot.Snapshot, routed Routed) *conditions.Finding {
	spec, last := s.Object.GetProxySpec(), meta.FindStatusCondition(s.Object.GetProxyStatus().Conditions,
		v1alpha1.ConditionPublished)
	wanted := spec.Proxy != nil && spec.Proxy.HTTPRoute != nil
	switch unread := unread(s.Routes); {
	case !wanted && s.Route.Ours():
		return unknownly("the spec asks for no HTTPRoute any more, and the one of before is being removed")
	case !wanted && last != nil && s.Routes == routes.Pending:
		return unknownly("the spec asks for no HTTPRoute any more, and whether there is one of before is being looked for")
	case !wanted && last != nil && unread != "":
		return unknownly("the spec asks for no HTTPRoute any more, and whether there is one of before is not known: " +
			unread)
	case !wanted, s.Routes == routes.Pending && last == nil:
		return nil
	case s.Routes == routes.Pending && last.ObservedGeneration < s.Object.GetGeneration():
		return unknownly("the operator has begun to ask the cluster for HTTPRoutes")
	case s.Routes == routes.Pending:
		return new(conditions.Restate(last))
	case s.Routes == routes.NotServed, errors.Is(routed.Err, apply.ErrGone):
		return new(conditions.False(v1alpha1.ReasonHTTPRouteNotServed,
			"the cluster does not serve HTTPRoutes of gateway.networking.k8s.io/v1: install the Gateway API, or write "+
				"an Ingress and spec.proxy.publicURL, and remove spec.proxy.httpRoute"))
	case unread != "":
		return unknownly(unread)
	case s.Service.Lost():
		return new(conditions.False(v1alpha1.ReasonNameTaken, fmt.Sprintf(
			"no HTTPRoute leads to Service %s as long as that is not this server's: see Ready", s.Service.Live.Name)))
	case routed.Err != nil && apply.RetryOf(routed.Err) != apply.OnEvent:
		f, _ := refused(routed.Err)
		return &f
	}
	return new(answered(s, routed.Written))
}

// unread says why HTTPRoutes cannot be read, empty where they can.
func unread(state routes.State) string {
	switch state {
	case routes.Forbidden:
		return "the operator may not read HTTPRoutes: look whether its roles have the verbs of this release for httproutes " +
			"of gateway.networking.k8s.io (the chart's rbac.httpRoutes)"
	case routes.Unread:
		return "the operator cannot read HTTPRoutes, and tries again: its log says why"
	case routes.NotServed, routes.Pending, routes.Served:
	}
	return ""
}

// answered says what Gateways say of the HTTPRoute. Of one that this pass has written they have said nothing yet.
func answered(s *snapshot.Snapshot, written bool) conditions.Finding {
	spec, answers := s.Object.GetProxySpec(), answersOf(s.Route.Live)
	if written {
		answers = routeAnswers{}
	}
	var waits, refused []string
	for _, parent := range spec.Proxy.HTTPRoute.ParentRefs {
		called := cmp.Or(parent.Kind, gateway) + " " + cmp.Or(parent.Namespace, s.Object.GetNamespace()) + "/" + parent.Name
		switch taken, words := answers.of(parent, s.Object.GetNamespace()); {
		case words != "":
			refused = append(refused, called+" refuses it: "+words)
		case !taken:
			waits = append(waits, called)
		}
	}
	switch route := "HTTPRoute " + workload.ProxyName(kinds.Key(s.Object)); {
	case len(refused) > 0:
		return conditions.False(v1alpha1.ReasonRouteRefused, route+": "+strings.Join(refused, "; "))
	case len(waits) > 0:
		return *unknownly(fmt.Sprintf(
			"%s has no answer of %s yet: look whether that exists, and whether its controller runs", route,
			strings.Join(waits, ", ")))
	}
	return conditions.True(v1alpha1.ReasonRouteTaken, "clients call "+workload.PublicURL(spec))
}

func unknownly(message string) *conditions.Finding {
	return &conditions.Finding{Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonRouteNotTaken, Message: message}
}

// routeAnswers are what parents of an HTTPRoute say of it.
type routeAnswers struct {
	Generation int64 `json:"-"`
	Parents    []struct {
		ParentRef  v1alpha1.RouteParent `json:"parentRef"`
		Conditions []routeAnswer        `json:"conditions"`
	} `json:"parents"`
}

// routeAnswer is a condition of an HTTPRoute, which the controller of its parent writes.
type routeAnswer struct {
	Type               string                 `json:"type"`
	Status             metav1.ConditionStatus `json:"status"`
	Reason             string                 `json:"reason"`
	Message            string                 `json:"message"`
	ObservedGeneration int64                  `json:"observedGeneration"`
}

func answersOf(route *unstructured.Unstructured) (answers routeAnswers) {
	if route == nil {
		return answers
	}
	status, _, _ := unstructured.NestedMap(route.Object, "status")              //nolint:errcheck // it is as good as none
	_ = runtime.DefaultUnstructuredConverter.FromUnstructured(status, &answers) //nolint:errcheck // so far as it can be read
	answers.Generation = route.GetGeneration()
	return answers
}

// gateway is the kind of a parent that names none.
const gateway = "Gateway"

// wordsOfGateways is how many bytes of a refusal are shown.
const wordsOfGateways = 256

// of reports whether a parent takes the route as it is now, or in which words it refuses it.
func (a routeAnswers) of(parent v1alpha1.RouteParent, namespace string) (taken bool, refused string) {
	for _, said := range a.Parents {
		to := said.ParentRef
		if to.Name != parent.Name || cmp.Or(to.Kind, gateway) != cmp.Or(parent.Kind, gateway) ||
			cmp.Or(to.Group, contract.HTTPRoute.Group) != cmp.Or(parent.Group, contract.HTTPRoute.Group) ||
			cmp.Or(to.Namespace, namespace) != cmp.Or(parent.Namespace, namespace) ||
			to.SectionName != parent.SectionName || to.Port != parent.Port {
			continue
		}
		for _, of := range []string{"Accepted", "ResolvedRefs"} {
			at := slices.IndexFunc(said.Conditions, func(c routeAnswer) bool { return c.Type == of })
			if at < 0 {
				continue
			}
			switch c := said.Conditions[at]; {
			case c.ObservedGeneration != 0 && c.ObservedGeneration < a.Generation:
			case c.Status == metav1.ConditionFalse:
				return false, printable.Line(cmp.Or(c.Reason, of)+": "+c.Message, wordsOfGateways)
			case c.Status == metav1.ConditionTrue && of == "Accepted":
				taken = true
			}
		}
	}
	return taken, ""
}
