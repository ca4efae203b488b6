// Command bench measures what Freehold costs on a real control plane where only
// pods are faked (test/kit), and holds the figures against their targets.
//
// A subject is a process of its own, whose requests, bytes, processor time and memory are its alone: Freehold's
// operator (operator.go), the floor under any operator that applies the same objects (floor.go), and references that do
// the same job by full updates or merge patches (reference*.go). subject.go is the subject's side of the pipe to this
// program, child.go the other; requests.go counts what a subject sends.
//
// world.go is a control plane with one subject, runners.go the runner's half of each server, tracker.go waits for many
// servers at once. A scenario is a file: converge.go, life.go, memory.go, ownership.go with its foreign writers
// (writers.go) and what they lost (losses.go), rollout.go with several reconcilers (several.go) and the old way
// (rollout_reference.go), and cost.go, in which methods to write (methods.go) are tried by a run
// each (cost_run.go). report*.go and targets.go say how it went, machine.go where.
package main
