package registry

import (
	"slices"
	"testing"

	"github.com/freehold-dev/freehold/controllers/configs/frame"
)

// Add lists one more kind until a test ends.
func Add(t *testing.T, kind frame.Kind) {
	before := all
	t.Cleanup(func() { all = before })
	all = append(slices.Clone(all), kind)
}
