package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// screen is how many unready objects status lists.
const screen = 10

type freeholdStatus struct {
	// Operators are null if the user may not see them.
	Operators []operatorStatus `json:"operators"`
	Kinds     []kindStatus     `json:"kinds"`
	// Attention lists first the objects that need a person, then those in progress.
	Attention []attention `json:"attention"`
}

type kindStatus struct {
	Kind   string         `json:"kind"`
	Total  int            `json:"total"`
	States map[string]int `json:"states"`
}

type attention struct {
	Object reference `json:"object"`
	State  string    `json:"state"`
	Since  string    `json:"since,omitempty"`
	// Act means that it does not change without a person.
	Act     bool         `json:"act"`
	Message string       `json:"message"`
	since   *metav1.Time `json:"-"`
}

func (c *cli) status() *cobra.Command {
	out, everywhere := output{}, false
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how Freehold and its servers are, and what to do next",
		Long: `Show on one screen the operators with their versions, how many MCPServers,
MCPRemoteProxies and shared configurations there are in which state, who overwrites fields of Freehold,
and what to do next: the message of each object that is not ready. Objects that
are on their way, and need nobody, come last. One on which no operator has acted for
five minutes needs a person. What could not be read is said first.

The exit code is 0 if nothing needs a person, 1 if something does, and 2 if
something could not be read.`,
		Example: `  # The namespace of the kubeconfig
  kubectl freehold status

  # The whole cluster
  kubectl freehold status -A

  # For a program
  kubectl freehold status -A -o json`,
		Args: noObject,
		RunE: func(*cobra.Command, []string) error {
			if err := out.check(); err != nil {
				return err
			}
			objects, unread := c.listed(everywhere, append(workloadKinds(), configKinds()...)...)
			if len(objects) == 0 && unread == nil && !everywhere {
				if err := c.missing(); err != nil {
					return err
				}
			}
			operators, err := c.operators()
			return c.showStatus(out, operators, objects, errors.Join(unread, err))
		},
	}
	out.add(cmd)
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "look at the objects of all namespaces")
	return cmd
}

// showStatus shows what was read; unread is why the input is incomplete.
func (c *cli) showStatus(out output, operators []operatorStatus, objects []*unstructured.Unstructured,
	unread error,
) error {
	content := freeholdStatus{Operators: operators, Kinds: []kindStatus{}, Attention: []attention{}}
	byKind := map[string]*kindStatus{}
	for _, u := range objects {
		kind := byKind[u.GetKind()]
		if kind == nil {
			kind = &kindStatus{Kind: u.GetKind(), States: map[string]int{}}
			byKind[u.GetKind()] = kind
		}
		state, found, err := judged(u, c.now())
		if err != nil {
			unread = errors.Join(unread, err)
			continue
		}
		kind.Total++
		kind.States[state]++
		content.Attention = append(content.Attention, found...)
	}
	for _, name := range slices.Sorted(maps.Keys(byKind)) {
		content.Kinds = append(content.Kinds, *byKind[name])
	}
	slices.SortStableFunc(content.Attention, func(a, b attention) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.Object.Namespace, b.Object.Namespace),
			cmp.Compare(a.Object.Kind, b.Object.Kind), cmp.Compare(a.Object.Name, b.Object.Name))
	})
	if !out.isTable() {
		if err := out.print(c.Out, "FreeholdStatus", &content); err != nil {
			return err
		}
	} else if err := c.screen(c.Out, content, unread); err != nil {
		return err
	}
	switch {
	case unread != nil:
		return unread
	case content.idle() || slices.ContainsFunc(content.Attention, func(a attention) bool { return a.Act }):
		return errWrong
	}
	return nil
}

// idle reports whether no operator has a ready pod, as far as the user may see.
func (s freeholdStatus) idle() bool {
	return s.Operators != nil && !slices.ContainsFunc(s.Operators, func(o operatorStatus) bool { return o.Ready > 0 })
}

// rank orders the list: first what needs a person.
func (a attention) rank() int {
	if a.Act {
		return 0
	}
	return 1
}

// judged is the state of an object in one word, and what is wrong with it.
func judged(u *unstructured.Unstructured, now time.Time) (state string, found []attention, err error) {
	var object struct {
		Status struct {
			ObservedGeneration int64              `json:"observedGeneration"`
			Conditions         []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := decode(u, &object); err != nil {
		return "", nil, err
	}
	conditions := object.Status.Conditions
	note := func(c *metav1.Condition, act bool) {
		found = append(found, attention{
			Object: referenceTo(u), State: c.Reason, Act: act, Message: c.Message,
			Since: stamp(&c.LastTransitionTime), since: &c.LastTransitionTime,
		})
	}
	ready, suspended := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady),
		meta.FindStatusCondition(conditions, v1alpha1.ConditionSuspended)
	switch {
	case ready == nil && suspended == nil:
		found = append(found, unseen(u, now, "no operator has reported on it yet"))
		state = found[0].State
	case object.Status.ObservedGeneration < u.GetGeneration():
		found = append(found, unseen(u, now, "no operator has acted on its latest change yet"))
		state = found[0].State
	case ready == nil:
		state = suspended.Reason
	default:
		state = ready.Reason
		if ready.Status != metav1.ConditionTrue {
			note(ready, meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionStalled))
		}
	}
	for _, t := range []string{
		v1alpha1.ConditionFieldConflict, v1alpha1.ConditionFinalizerMissing,
		v1alpha1.ConditionUnknownFields, v1alpha1.ConditionPolicyUnmatched,
	} {
		if c := meta.FindStatusCondition(conditions, t); c != nil && c.Status == metav1.ConditionTrue {
			note(c, true)
		}
	}
	if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionRolledOut); c != nil &&
		c.Reason == v1alpha1.ReasonHeld {
		note(c, true)
	}
	return state, found, nil
}

// screen writes a status for people; unread is why it is incomplete.
func (c *cli) screen(out io.Writer, s freeholdStatus, unread error) error {
	if unread != nil {
		fmt.Fprintf(out, "%s\n\n", strings.TrimSpace(
			"Not everything could be read, so this is not all. The errors are below. "+lacking(unread)))
	}
	lines := [][]string{{"OPERATOR", "READY", "LEADER", "VERSION", "RUNNER"}}
	for _, o := range s.Operators {
		lines = append(lines, []string{
			o.Namespace + "/" + o.Name, fmt.Sprintf("%d/%d", o.Ready, o.Replicas), safe(o.leader(c.now())), safe(o.Version),
			safe(o.Runner),
		})
	}
	switch {
	case s.Operators == nil:
		fmt.Fprintln(out, "You may not list Deployments of all namespaces, so no operator is shown. Ask an administrator "+
			"how it is.")
	case len(s.Operators) == 0:
		fmt.Fprintln(out, "No operator of Freehold is found. Install one with its chart.")
	default:
		if err := table(out, lines); err != nil {
			return err
		}
	}
	fmt.Fprintln(out)
	lines = [][]string{{"KIND", "TOTAL", "STATES"}}
	for _, k := range s.Kinds {
		var states []string
		for _, state := range slices.Sorted(maps.Keys(k.States)) {
			states = append(states, fmt.Sprintf("%s %d", safe(state), k.States[state]))
		}
		lines = append(lines, []string{k.Kind, fmt.Sprint(k.Total), strings.Join(states, ", ")})
	}
	switch {
	case len(s.Kinds) == 0 && unread == nil:
		fmt.Fprintln(out, "There are no MCPServers, MCPRemoteProxies or shared configurations here.")
	case len(s.Kinds) > 0:
		if err := table(out, lines); err != nil {
			return err
		}
	}
	c.next(out, s, unread == nil)
	return nil
}

// next writes what to do, the most urgent first.
func (c *cli) next(out io.Writer, s freeholdStatus, whole bool) {
	stopped := len(s.Operators) > 0 && s.idle()
	if len(s.Attention) == 0 && !stopped && whole && (s.Operators == nil || len(s.Operators) > 0) {
		fmt.Fprintln(out, "\nThere is nothing to do.")
	}
	if stopped {
		fmt.Fprintf(out, "\nFirst:\n  No pod of the operator is ready, so changes are not carried out. See kubectl -n %s "+
			"get pods.\n", s.Operators[0].Namespace)
	}
	for i, part := range s.Attention {
		switch {
		case i == 0 && part.Act:
			fmt.Fprintln(out, "\nWhat to do next:")
		case !part.Act && (i == 0 || s.Attention[i-1].Act):
			fmt.Fprintln(out, "\nOn their way:")
		}
		if i == screen {
			fmt.Fprintf(out, "  and %d more; -o json shows all\n", len(s.Attention)-i)
			break
		}
		fmt.Fprintf(out, "  %s%s %s%s\n      %s\n", inNamespace(part.Object), part.Object.Kind+"/"+part.Object.Name,
			safe(part.State), part.age(c.now()), safe(part.Message))
	}
}

func inNamespace(r reference) string {
	if r.Namespace == "" {
		return ""
	}
	return r.Namespace + " "
}

func (a attention) age(now time.Time) string {
	if a.since == nil || a.since.IsZero() {
		return ""
	}
	return ", for " + duration.HumanDuration(now.Sub(a.since.Time))
}
