package pipeline

import (
	"net/http"
	"slices"
)

// Stage is a handler in front of the next one. Nil is one that is not configured.
type Stage func(next http.Handler) http.Handler

// Chain puts stages in front of the last handler, in the order in which a call meets them.
func Chain(last http.Handler, stages ...Stage) http.Handler {
	for _, stage := range slices.Backward(stages) {
		if stage != nil {
			last = stage(last)
		}
	}
	return last
}
