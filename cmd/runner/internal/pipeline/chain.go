package pipeline

import (
	"net/http"
	"slices"
)

// Stage is a handler in front of the next one. Nil is one that is not configured.
type Stage func(next http.Handler) http.Handler

// Stages are those of a chain, in the order in which a call meets them.
type Stages []Stage

// To puts the stages in front of the last handler.
func (s Stages) To(last http.Handler) http.Handler {
	for _, stage := range slices.Backward(s) {
		if stage != nil {
			last = stage(last)
		}
	}
	return last
}
