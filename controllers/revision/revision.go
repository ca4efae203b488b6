// Package revision numbers content: a Revision is a workload generation and the
// hash of the content that was claimed under it. It is pure.
//
//   - revision.go: how objects and pods carry one
//   - claim.go: which one content gets next
//   - gate.go: whether content of one revision may be written over another
package revision

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
)

// The annotations that carry a revision, on objects and on the proxy's pods.
const (
	AnnotationGeneration = "freehold.dev/workload-generation"
	AnnotationHash       = "freehold.dev/workload-hash"
)

// Revision is a workload generation and the hash of its content. The zero Revision belongs to an object without one.
type Revision struct {
	Generation int64
	Hash       string
}

// Valid reports whether a revision can have been claimed.
func (r Revision) Valid() bool { return r.Generation >= 1 && r.Hash != "" }

// Annotations encodes a revision for Of.
func (r Revision) Annotations() map[string]string {
	return map[string]string{
		AnnotationGeneration: strconv.FormatInt(r.Generation, 10),
		AnnotationHash:       r.Hash,
	}
}

// Of reads the revision from the annotations of an object and of its pod template, the highest if they differ,
// because one of them may have lost it. Without annotations it is zero; without a hash it belongs to no content, and
// only a higher number replaces it. A hash alone, or an invalid generation, is an error: the object may carry newer
// content, so the caller must not write. The revision is then the highest readable one.
func Of(annotations ...map[string]string) (Revision, error) {
	var top Revision
	var wrong error
	for _, a := range annotations {
		rev, err := read(a)
		wrong = cmp.Or(wrong, err)
		if rev.Generation > top.Generation || rev.Generation == top.Generation && top.Hash == "" {
			top = rev
		}
	}
	return top, wrong
}

func read(annotations map[string]string) (Revision, error) {
	generation, hasGeneration := annotations[AnnotationGeneration]
	hash := annotations[AnnotationHash]
	switch {
	case !hasGeneration && hash == "":
		return Revision{}, nil
	case !hasGeneration:
		return Revision{}, errors.New("annotation " + AnnotationGeneration + ": missing")
	}
	number, err := parseGeneration(generation)
	if err != nil {
		return Revision{}, err
	}
	return Revision{Generation: number, Hash: hash}, nil
}

// Parse reads a revision from annotations or environment variables. An empty hash is an error, and a generation that
// is not a decimal number of 1 or more, without sign or leading zeros.
func Parse(generation, hash string) (Revision, error) {
	number, err := parseGeneration(generation)
	if err != nil {
		return Revision{}, err
	}
	if hash == "" {
		return Revision{}, errors.New("workload hash: empty")
	}
	return Revision{Generation: number, Hash: hash}, nil
}

// MaxGeneration has as many digits as the admission policy reads; no server changes that often.
const MaxGeneration = 999_999_999_999_999_999

// ErrExhausted says that no number is left.
var ErrExhausted = errors.New("this server has reached the highest workload generation: delete it and create it " +
	"again, as docs/policies.md describes")

func parseGeneration(text string) (int64, error) {
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil || number < 1 || number > MaxGeneration || strconv.FormatInt(number, 10) != text {
		return 0, fmt.Errorf("workload generation %q: not a number of 1 or more", text)
	}
	return number, nil
}
