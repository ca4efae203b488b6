package workload

import "testing"

// BenchmarkRender is what a pass does to see whether the content is the one that was claimed: everything, and its hash.
// The full server has overlays for both pods, which have to be merged.
func BenchmarkRender(b *testing.B) {
	for _, name := range []string{"minimal", "full"} {
		b.Run(name, func(b *testing.B) {
			server := read(b, name)
			render := func() {
				if rendered := render(server, options); len(rendered.Problems) > 0 {
					b.Fatal(rendered.Problems)
				}
			}
			render() // reads the schema, once
			b.ReportAllocs()
			for b.Loop() {
				render()
			}
		})
	}
}
