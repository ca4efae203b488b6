package workload

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
)

// Mark is a workload generation and the hash of the content it was claimed
// for. The zero Mark is that of an object without one.
type Mark struct {
	Generation int64
	Hash       string
}

// Valid says whether a mark can have been claimed.
func (m Mark) Valid() bool { return m.Generation >= 1 && m.Hash != "" }

// MarkOf reads the mark from the annotations of an object and of its pod
// template, the highest if they differ: what one of them lost, the other may
// still have. Without annotations it is the zero Mark; without a hash it is the
// mark of no content, which only a higher number replaces. A hash alone, or a
// generation that is not a decimal number of 1 or more, is an error: whoever
// gets it must not write, for the object may carry newer content. The mark is
// then what could be read of the others.
func MarkOf(annotations ...map[string]string) (Mark, error) {
	var top Mark
	var wrong error
	for _, a := range annotations {
		mark, err := readMark(a)
		wrong = cmp.Or(wrong, err)
		if mark.Generation > top.Generation || mark.Generation == top.Generation && top.Hash == "" {
			top = mark
		}
	}
	return top, wrong
}

func readMark(annotations map[string]string) (Mark, error) {
	generation, hasGeneration := annotations[AnnotationGeneration]
	hash := annotations[AnnotationHash]
	switch {
	case !hasGeneration && hash == "":
		return Mark{}, nil
	case !hasGeneration:
		return Mark{}, errors.New("annotation " + AnnotationGeneration + ": missing")
	}
	number, err := parseGeneration(generation)
	if err != nil {
		return Mark{}, err
	}
	return Mark{Generation: number, Hash: hash}, nil
}

// ParseMark reads a mark from its two texts, as annotations and environment
// variables carry them. An empty hash and a generation that is not a decimal
// number of 1 or more, without sign or leading zeros, are errors.
func ParseMark(generation, hash string) (Mark, error) {
	number, err := parseGeneration(generation)
	if err != nil {
		return Mark{}, err
	}
	if hash == "" {
		return Mark{}, errors.New("workload hash: empty")
	}
	return Mark{Generation: number, Hash: hash}, nil
}

// MaxGeneration is the highest workload generation: it has as many digits as the
// admission policy reads, which no server's changes come near to.
const MaxGeneration = 999_999_999_999_999_999

func parseGeneration(text string) (int64, error) {
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil || number < 1 || number > MaxGeneration || strconv.FormatInt(number, 10) != text {
		return 0, fmt.Errorf("workload generation %q: not a number of 1 or more", text)
	}
	return number, nil
}

// Verdict is what may be written.
type Verdict int

const (
	// StandBack writes nothing: newer or other content stands.
	StandBack Verdict = iota
	// Birth creates, and fails if the object exists after all.
	Birth
	// Raise replaces older content, at the resourceVersion that was read.
	Raise
	// Repair states the same content again.
	Repair
)

// String is for logs and test failures.
func (v Verdict) String() string {
	switch v {
	case Birth:
		return "Birth"
	case Raise:
		return "Raise"
	case Repair:
		return "Repair"
	case StandBack:
		return "StandBack"
	default:
		return "Verdict(" + strconv.Itoa(int(v)) + ")"
	}
}

// Gate decides whether content with the mark mine may be written where the
// object with the mark live was read, or where none exists. The operator asks
// it for the proxy's Deployment, the runner for the backend's objects.
//
// The number only grows:
//   - an object that is absent is born;
//   - a lower number, and the zero Mark of an object that lost its annotations,
//     is raised;
//   - the same number with the same hash is repaired;
//   - the same number with another hash is left alone. Two writers claimed one
//     number for two contents, and only a higher number may end that: if each
//     wrote, both would write for ever;
//   - a higher number is left alone.
//
// Whoever has no valid mark writes nothing.
func Gate(mine Mark, exists bool, live Mark) Verdict {
	switch {
	case !mine.Valid():
		return StandBack
	case !exists:
		return Birth
	case live.Generation < mine.Generation:
		return Raise
	case live == mine:
		return Repair
	default:
		return StandBack
	}
}
