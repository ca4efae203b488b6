package revision

// Decision is what may be written.
type Decision string

const (
	// StandBack writes nothing: newer or other content stands.
	StandBack Decision = "StandBack"
	// Create creates, and fails if the object exists after all.
	Create Decision = "Create"
	// Raise replaces older content, at the resourceVersion that was read.
	Raise Decision = "Raise"
	// Repair states the same content again.
	Repair Decision = "Repair"
)

// Gate decides whether content of revision mine may be written where the object of revision live was read, or where
// none exists. The operator asks it for the proxy's Deployment, the runner for the backend's objects.
//
// The number only grows:
//   - an object that is absent is born;
//   - a lower number, and the zero Revision of an object that lost its annotations,
//     is raised;
//   - the same number with the same hash is repaired;
//   - the same number with another hash is left alone. Two writers claimed one
//     number for two contents, and only a higher number ends that: if each
//     wrote, both would write without end;
//   - a higher number is left alone.
//
// A writer without a valid revision writes nothing.
func Gate(mine Revision, exists bool, live Revision) Decision {
	switch {
	case !mine.Valid():
		return StandBack
	case !exists:
		return Create
	case live.Generation < mine.Generation:
		return Raise
	case live == mine:
		return Repair
	default:
		return StandBack
	}
}
