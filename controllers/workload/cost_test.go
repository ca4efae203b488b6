package workload

import "testing"

// BenchmarkClaimHash is what every pass does to see whether the content is the
// one that was claimed: the content, and its hash. The full server has overlays
// for both pods, which have to be merged.
func BenchmarkClaimHash(b *testing.B) {
	for _, name := range []string{"minimal", "full"} {
		b.Run(name, func(b *testing.B) {
			server := read(b, name)
			hash := func() {
				run, problems := Content(server, options)
				if len(problems) > 0 {
					b.Fatal(problems)
				}
				if _, err := run.ContentHash(); err != nil {
					b.Fatal(err)
				}
			}
			hash() // reads the schema, once
			b.ReportAllocs()
			for b.Loop() {
				hash()
			}
		})
	}
}
