//go:build !race

package runner

// detector is how many times the memory of a program the race detector takes.
const detector = 1
