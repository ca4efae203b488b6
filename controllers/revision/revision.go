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

// Revision is a workload generation and the hash of the content it was claimed
// for. The zero Revision is that of an object without one.
type Revision struct {
	Generation int64
	Hash       string
}

// Valid says whether a revision can have been claimed.
func (r Revision) Valid() bool { return r.Generation >= 1 && r.Hash != "" }

// Annotations is a revision as Of reads it.
func (r Revision) Annotations() map[string]string {
	return map[string]string{
		AnnotationGeneration: strconv.FormatInt(r.Generation, 10),
		AnnotationHash:       r.Hash,
	}
}

// Of reads the revision from the annotations of an object and of its pod
// template, the highest if they differ: what one of them lost, the other may
// still have. Without annotations it is the zero Revision; without a hash it is the
// revision of no content, which only a higher number replaces. A hash alone, or a
// generation that is not a decimal number of 1 or more, is an error: the caller must
// not write, because the object may carry newer content. The revision is then what
// could be read of the others.
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

// Parse reads a revision from its two texts, as annotations and environment
// variables carry them. An empty hash and a generation that is not a decimal
// number of 1 or more, without sign or leading zeros, are errors.
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

// MaxGeneration is the highest workload generation: it has as many digits as the
// admission policy reads, which no server's changes come near to.
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
