package rollout

// Phase is where a workload is on its way to the present content of a
// configuration. The table below is that of docs/concepts/rollout.md.
type Phase int

const (
	// Done has the content, and has served with it.
	Done Phase = iota
	// Moving took it in its turn, and has not served with it yet.
	Moving
	// Failed took it in its turn, and got into trouble before it served.
	Failed
	// Again took an earlier content in its turn and never served with it: the present one is for it first.
	Again
	// Waiting serves what it has, and takes the content in its turn.
	Waiting
	// Down does not serve at present. It keeps its place, and takes nothing until it
	// serves again: it could not tell whether the content is good.
	Down
	// Free does not serve, and nothing waits for it: it takes the content outside the turns, unless that is held.
	Free
	// Blocked cannot take any content. It is asked to again where a place is left.
	Blocked
	// Apart comes to the content by a change of its own.
	Apart
)

var phaseNames = [...]string{"Done", "Moving", "Failed", "Again", "Waiting", "Down", "Free", "Blocked", "Apart"}

func (p Phase) String() string {
	if p < 0 || int(p) >= len(phaseNames) {
		return "None"
	}
	return phaseNames[p]
}

// row gives the phase of a workload of which its question is answered with yes, and that of none above.
type row struct {
	says  string
	is    func(Facts) bool
	phase Phase
}

var table = []row{
	{"has the content, and has served with it", func(f Facts) bool { return f.Has && f.Served }, Done},
	{"has it, and is stopped", func(f Facts) bool { return f.Has && f.Stopped }, Done},
	{"was born with it, and starts", func(f Facts) bool { return f.Has && !f.InTurn && f.New && f.Now == Rolling }, Done},
	{"took it with a change of its own", func(f Facts) bool { return f.Has && !f.InTurn }, Apart},
	{
		"took it in its turn, and is rolling out",
		func(f Facts) bool { return f.Has && (f.Now == Rolling || f.Now == Serving) && !f.Stalled }, Moving,
	},
	{"took it in its turn, and is in trouble, refused or stalled", func(f Facts) bool { return f.Has }, Failed},
	{"has nothing of before to go on with", func(f Facts) bool { return !f.Before }, Apart},
	{"is stopped", func(f Facts) bool { return f.Stopped }, Free},
	{
		"cannot take any content: its spec is wrong, another reference leads nowhere, or a write is refused",
		func(f Facts) bool { return f.Now == Barred }, Blocked,
	},
	{"is stalled", func(f Facts) bool { return f.Stalled }, Free},
	{
		"took an earlier one in its turn, and has not served with it", func(f Facts) bool { return f.InTurn && !f.Served },
		Again,
	},
	{"is in trouble with content that never served", func(f Facts) bool { return f.Now == Troubled && !f.Served }, Free},
	{
		"serves, or has gone down to take it", func(f Facts) bool { return f.Now == Serving || f.Now == Rolling && f.Served },
		Waiting,
	},
	{"does not serve at present", func(Facts) bool { return true }, Down},
}

// Phase is that of the first row which fits.
func (f Facts) Phase() Phase { return f.phaseOf(table) }

func (f Facts) phaseOf(rows []row) Phase {
	for _, r := range rows {
		if r.is(f) {
			return r.phase
		}
	}
	return Apart
}
