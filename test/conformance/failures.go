package conformance

// tasks is why the server fails the scenarios of an extension, which are not scored.
const tasks = "the Go SDK v1.8.0 does not implement the Tasks extension"

// Unmet are the scenarios that the Go SDK's everything-server fails by itself, by revision, with the reason. A run in
// which it fails another, or passes one of these, is an error.
var Unmet = map[string]map[string]string{
	"2025-11-25": {},
	"2026-07-28": {
		"tasks-capability-negotiation": tasks,
		"tasks-dispatch-and-envelope":  tasks,
		"tasks-lifecycle":              tasks,
		"tasks-mrtr-composition":       tasks,
		"tasks-mrtr-input":             tasks,
		"tasks-request-headers":        tasks,
		"tasks-request-state-removal":  tasks,
		"tasks-required-task-error":    tasks,
		"tasks-wire-fields":            tasks,
	},
}

// Checks is how many checks each requirement set of the pinned suite passes or fails, so that none is left out unseen.
var Checks = map[string]int{"2025-11-25": 82, "2026-07-28": 195}

// Translated are the scenarios, by revision, that a server of the legacy era ends in another way, offered to modern
// clients by the proxy, than the same server in the modern era, with the reason. A run in which another one differs, or
// one of these does not, is an error.
var Translated = map[string]map[string]string{"2026-07-28": {
	"input-required-result-basic-elicitation": "a question of a legacy server has no name; the scenario wants " +
		"user_name",
	"input-required-result-ignore-extra-params":     "as above: its answer has another name",
	"input-required-result-multi-round":             "as above",
	"input-required-result-multiple-input-requests": "a legacy server asks one thing after the other",
	"server-sse-multiple-streams":                   noStream,
	"server-stateless": "a legacy server answers -32603 of its own where the client lacks " +
		"a capability",
}}

// OverStdio are the same of a server over stdio, against the same server over HTTP.
var OverStdio = map[string]map[string]string{
	"2025-11-25": {
		"server-sse-multiple-streams": noStream,
		"server-sse-polling": "a server over stdio has no events that can be told apart, and so no stream that " +
			"can be resumed",
	},
	"2026-07-28": {"server-sse-multiple-streams": noStream},
}

// OverSSE are the same of a server of the transport HTTP+SSE, which no revision of the modern era knows: its clients
// are translated for.
var OverSSE = map[string]map[string]string{
	"2025-11-25": OverStdio["2025-11-25"],
	"2026-07-28": Translated["2026-07-28"],
}

// Spread are the scenarios that a server with several pods ends in another way where chance leads two of its requests
// to two pods.
var Spread = map[string]map[string]string{"2026-07-28": {
	"server-stateless": "a pod tells those who listen at it that a list has changed; who listens at another one is not " +
		"told",
	"tools-list": "the pod that was told to change its list has one tool more than another one",
}}

const noStream = "answers are JSON where there is nothing to stream"
