package successive

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// stored is a status as the API server gives it back.
func stored(s Status) (back Status) {
	text, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(text, &back)
	}
	if err != nil {
		panic(err)
	}
	return back
}

// checker judges what passes of a life decide.
type checker struct {
	*life
	plan Plan
	// ids are those of rollouts so far.
	ids map[string]bool
	// promised is until when sessions may go on in a slot, as the status last said.
	promised map[workload.Slot]time.Time
	// within names a step of a rollout, and ran is for how long its deadline has run.
	within string
	ran    time.Duration
	runs   bool
	// slot is that which has the calls, whatever became of the status, and moved is when they moved to it.
	slot  int32
	moved time.Time
	// at is when it was judged last.
	at time.Time
	// reached counts what happened.
	reached map[string]int
}

// wiped forgets what nobody can know any more.
func (c *checker) wiped() {
	c.within, c.ran, c.runs = "", 0, false
	clear(c.ids)
}

// decision judges a plan that is about to be written over the status, made of what was seen.
func (c *checker) decision(status Status, plan Plan, seen Observed) error {
	c.plan = plan
	if c.reached == nil {
		c.reached = map[string]int{}
	}
	c.reached[plan.Verdict.State.String()]++
	if c.runs {
		c.ran += c.life.now.Sub(c.at)
	}
	c.at = c.life.now
	if again := c.make(status, c.want, seen, c.life.now); !reflect.DeepEqual(again, plan) {
		return errors.New("equal inputs give other plans")
	}
	if err := c.pointer(plan, seen); err != nil {
		return err
	}
	return errors.Join(c.outcome(plan), c.deadline(plan, seen), c.names(plan), c.ready(plan, seen))
}

// ready judges that what is ready is not deleted to make the same again.
func (c *checker) ready(plan Plan, seen Observed) error {
	is := func(slot workload.Slot) bool {
		there := seen.Slots[slot]
		return there.Content.Hash == plan.Active.Hash && there.Ready > 0 && !there.Terminating
	}
	for _, slot := range plan.Empty {
		if !c.want.Halted && is(slot) && !is(workload.Slot(plan.Active.Slot)) {
			return fmt.Errorf("empties slot %d, where the active content is ready, and not in its own", slot)
		}
	}
	return nil
}

func (c *checker) names(plan Plan) error {
	last := plan.Last
	if last != nil && (last.ID == "" || last.Attempt < 1 || last.Generation < 1 || last.At.IsZero()) {
		return fmt.Errorf("an outcome lacks something: %+v", last)
	}
	if plan.Rollout != nil && plan.Rollout.ID == "" {
		return errors.New("a rollout has no id")
	}
	if slices.Contains(plan.Empty, workload.Slot(plan.Active.Slot)) {
		return errors.New("empties the active slot")
	}
	return nil
}

// pointer judges what gets the calls.
func (c *checker) pointer(plan Plan, seen Observed) error {
	had, now := c.life.status.Active, plan.Active
	if now == nil || now.Hash == "" {
		return errors.New("no content is active")
	}
	if c.slot != 0 && c.slot != now.Slot {
		c.moved = c.life.now
	}
	c.slot = now.Slot
	switch {
	case had == nil || had.Slot == now.Slot && had.Hash == now.Hash:
		return nil
	case now.Generation < had.Generation:
		return fmt.Errorf("the generation of the active content falls from %d to %d", had.Generation, now.Generation)
	case had.Slot == now.Slot && now.Hash == c.want.Content.Hash && !c.isBeside():
		return nil // in its place
	case now.Hash == c.want.Content.Hash && (had.Hash == now.Hash || !c.isBeside()):
		there := seen.Slots[workload.Slot(now.Slot)]
		if there.Content.Hash != now.Hash || there.Ready == 0 || there.Terminating {
			return errors.New("moves to where nothing is ready")
		}
		c.reached["moved"]++
		return nil
	}
	c.reached["switched"]++
	rollout := c.life.status.Rollout
	if rollout == nil || rollout.Target.Slot != now.Slot || rollout.Target.Hash != now.Hash {
		return errors.New("switches to what no rollout is to")
	}
	target, report := seen.Slots[workload.Slot(now.Slot)], seen.Candidate
	switch {
	case target.Content.Hash != now.Hash || target.Ready < c.want.Replicas || target.Terminating:
		return errors.New("switches to what is not ready")
	case report == nil || report.Hash != now.Hash || !report.Answers:
		return errors.New("switches to what was not checked")
	case c.want.Spec.Paused:
		return errors.New("switches while it is paused")
	case c.isHeld(report) &&
		(c.want.Spec.Approved == "" || !strings.HasPrefix(now.Hash, c.want.Spec.Approved)):
		return errors.New("switches to what is held")
	case plan.Rollout == nil || plan.Rollout.From == nil || plan.Rollout.From.Slot != had.Slot:
		return errors.New("forgets the content before")
	case plan.Rollout.Steps[drainStep].Deadline == nil:
		return errors.New("switches without saying how long sessions may go on")
	}
	return nil
}

func (c *checker) hasPromise(slot workload.Slot) bool {
	_, has := c.promised[slot]
	return has
}

func (c *checker) isHeld(report *v1alpha1.CandidateStatus) bool {
	hold := c.want.Spec.Hold
	return hold == v1alpha1.HoldAlways || hold != v1alpha1.HoldNever && report.Lost > 0
}

// isBeside reports whether what is asked for comes up beside what is active.
func (c *checker) isBeside() bool {
	return c.want.Successive && c.want.Spec.Strategy == v1alpha1.StrategySuccessive
}

// outcome judges how a rollout ends.
func (c *checker) outcome(plan Plan) error {
	had, now := c.life.status.Rollout, plan.Rollout
	if last := plan.Last; last != nil && !reflect.DeepEqual(last, c.life.status.Last) {
		c.reached[string(last.State)]++
		c.reached[last.Reason]++
		limit := deadline
		if last.Reason == v1alpha1.ReasonCrashLoop {
			limit = deadline / lastingPart
		}
		if last.State == v1alpha1.RolloutFailed && had != nil && c.ran+2*time.Second < limit {
			return fmt.Errorf("fails with %s after its deadline has run for %s", last.Reason, c.ran)
		}
	}
	if now != nil && (had == nil || had.ID != now.ID) {
		if c.ids[now.ID] && (had != nil || !plan.switched()) { // what is found to drain has the same id each time
			return fmt.Errorf("%s is two rollouts", now.ID)
		}
		c.ids[now.ID] = true
	}
	if now != nil && now.From != nil && plan.switched() {
		switch d := now.Steps[drainStep]; {
		case d.Deadline != nil:
			c.promised[workload.Slot(now.From.Slot)] = d.Deadline.Time
		case d.Remaining != nil:
			c.promised[workload.Slot(now.From.Slot)] = c.life.now.Add(d.Remaining.Duration)
		}
	}
	if now != nil && !plan.switched() { // it goes back to content whose sessions were found while a status was lost
		slot := workload.Slot(now.Target.Slot)
		if d := now.Steps[drainStep]; !c.hasPromise(slot) && d.Deadline != nil {
			c.promised[slot] = d.Deadline.Time
		}
	}
	// Nobody tells sessions at two places of one content apart.
	left := c.sets[other(plan.Active.Slot)]
	was := c.life.status.Active
	replaced := c.want.Spec.Strategy == v1alpha1.StrategyReplace && was != nil && was.Hash != plan.Active.Hash
	movedAlone := !c.isBeside() && was != nil && was.Slot != plan.Active.Slot
	if left != nil && left.content.Hash == plan.Active.Hash || c.want.Halted || replaced || movedAlone {
		c.promised[other(plan.Active.Slot)] = c.life.now
	}
	// What is to be replaced in its place goes with its sessions, also where the content moves to where it is ready.
	if stands := c.sets[workload.Slot(plan.Active.Slot)]; replaced && stands != nil &&
		stands.content.Hash != plan.Active.Hash {
		c.promised[workload.Slot(plan.Active.Slot)] = c.life.now
	}
	if now != nil && plan.switched() && now.Steps[drainStep].StartedAt != nil { // the user may have shortened it
		slot := other(plan.Active.Slot)
		end := now.Steps[drainStep].StartedAt.Add((&maker{want: c.want}).sessionsEnd())
		if until, promised := c.promised[slot]; !promised || end.Before(until) {
			c.promised[slot] = end
		}
	}
	return nil
}

// deadline judges for how long a step goes on whose deadline runs.
func (c *checker) deadline(plan Plan, seen Observed) error {
	step := plan.step()
	if step == nil {
		c.within = ""
		return nil
	}
	if within := plan.Rollout.ID + step.Name; within != c.within {
		c.within, c.ran, c.runs = within, 0, false
	}
	held := (&maker{}).holds(step)
	target := seen.Slots[workload.Slot(plan.Rollout.Target.Slot)]
	refused := step.Name == v1alpha1.StepCandidate && target.Quota != nil
	c.runs = !c.want.Spec.Paused && !held && !refused
	limit := map[string]time.Duration{
		v1alpha1.StepAcknowledge: acknowledged, v1alpha1.StepDrain: defaultSessionsEnd,
		v1alpha1.StepTeardown: time.Hour,
	}[step.Name]
	if limit == 0 {
		limit = deadline
	}
	if held {
		c.ran = 0
	}
	if c.runs && c.ran > limit+5*time.Minute { // a pause that no pass had seen before ends nothing
		return fmt.Errorf("%s goes on for %s", step.Name, c.ran)
	}
	return nil
}

// emptied judges that what is in a slot is deleted.
func (c *checker) emptied(slot workload.Slot, s *set) error {
	status := c.life.status
	if status.Active != nil && workload.Slot(status.Active.Slot) == slot {
		return errors.New("deletes what gets the calls")
	}
	if rollout := status.Rollout; rollout != nil && !status.switched() && workload.Slot(rollout.Target.Slot) == slot {
		return errors.New("deletes what a rollout is to")
	}
	if c.want.Halted {
		return nil
	}
	for _, p := range c.proxies {
		a := p.status.Active
		if a == nil || a.Hash == status.Active.Hash { // it finds the same in the other slot
			continue
		}
		if workload.Slot(a.Slot) == slot && a.Hash == s.content.Hash && c.life.now.Sub(c.moved) < acknowledged {
			return errors.New("deletes what a proxy calls")
		}
	}
	if s.content.Hash == status.Active.Hash { // nobody tells sessions at two places of one content apart
		return nil
	}
	until, promised := c.promised[slot]
	for _, session := range c.sessions {
		if session.slot == slot && session.hash == s.content.Hash && (!promised || c.life.now.Before(until)) {
			return fmt.Errorf("ends a session of slot %d that may go on until %s", slot, until.Format(time.TimeOnly))
		}
	}
	return nil
}

// rest judges what a life has come to.
func (c *checker) rest() error {
	active, last := c.life.status.Active, c.life.status.Last
	left := c.sets[other(active.Slot)]
	switch {
	case left != nil && left.gone.IsZero():
		return fmt.Errorf("leaves content in slot %d, which nothing uses", other(active.Slot))
	case active.Hash == c.want.Content.Hash:
		return nil
	case last != nil && last.State == v1alpha1.RolloutFailed && last.Hash == c.want.Content.Hash:
		return nil
	}
	return fmt.Errorf("rests with %s active and %s asked for: %+v", active.Hash, c.want.Content.Hash, last)
}
