package revision

import "strconv"

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

// Gate decides whether content of revision mine may be written where the
// object of revision live was read, or where none exists. The operator asks
// it for the proxy's Deployment, the runner for the backend's objects.
//
// The number only grows:
//   - an object that is absent is born;
//   - a lower number, and the zero Revision of an object that lost its annotations,
//     is raised;
//   - the same number with the same hash is repaired;
//   - the same number with another hash is left alone. Two writers claimed one
//     number for two contents, and only a higher number may end that: if each
//     wrote, both would write for ever;
//   - a higher number is left alone.
//
// Whoever has no valid revision writes nothing.
func Gate(mine Revision, exists bool, live Revision) Verdict {
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
