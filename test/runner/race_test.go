//go:build race

package runner

// detector is how many times the memory of a program the race detector takes
// (https://go.dev/doc/articles/race_detector#Runtime_Overheads).
const detector = 10
