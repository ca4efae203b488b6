package conformance

// tasks is why the server fails the scenarios of an extension, which are not scored.
const tasks = "the Go SDK v1.8.0 does not implement the Tasks extension"

// Unmet are the scenarios that the Go SDK's everything-server fails by itself, by revision, with the reason. A run in which it
// fails another, or passes one of these, is an error.
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
