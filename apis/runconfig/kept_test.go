package runconfig

import (
	"os"
	"path/filepath"
	"testing"
)

// A proxy of an earlier release runs with the file that it was made with, and a runner of this one may find such a
// file, where its image was replaced under the same tag. What a release writes stays here as it wrote it, one file
// each, and is never edited: it is read, and it is the content that its hash says. What this release does not know,
// TestDecodeIsStrict refuses.
func TestWhatEarlierReleasesWroteIsRead(t *testing.T) {
	files, err := filepath.Glob("testdata/kept/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		run, err := Decode(data)
		if err == nil {
			err = run.Verify()
		}
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
