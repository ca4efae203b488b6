package stdio

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAChildHasAPlaceToWrite(t *testing.T) {
	may, may2, mayNot, settings := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(settings, ".cache"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(mayNot, ".profile"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	writes := func(folder string) bool { return folder == may || folder == may2 || folder == "/tmp" }
	for name, tc := range map[string]struct {
		child, environ, declared, mounts []string
		scratch                          string
		want                             []string
	}{
		"where it can write":  {child: []string{"HOME=" + may, "TMPDIR=" + may}, want: nil},
		"where it cannot":     {child: []string{"HOME=" + mayNot, "TMPDIR=" + mayNot}, want: []string{"HOME", "TMPDIR"}},
		"its home alone":      {child: []string{"HOME=" + mayNot, "TMPDIR=" + may}, want: []string{"HOME"}},
		"no folder by itself": {child: []string{"HOME=" + may, "TMPDIR="}, want: nil},
		"a pod of before":     {child: []string{"HOME=" + mayNot}, scratch: mayNot, want: nil},

		"what spec.env declares": {child: []string{"HOME=" + mayNot}, declared: []string{"HOME"}, want: nil},
		"what spec.envFrom declares": {
			child: []string{"HOME=" + mayNot}, environ: []string{"FREEHOLD_DECLARED_HOME=" + mayNot}, want: nil,
		},
		"a home with settings": {child: []string{"HOME=" + settings, "TMPDIR=" + settings}, want: []string{"TMPDIR"}},
		"a volume in its home": {child: []string{"HOME=" + mayNot}, mounts: []string{mayNot + "/.cache"}, want: nil},
		"a volume elsewhere": {
			child: []string{"HOME=" + mayNot}, mounts: []string{"/", mayNot + "2", "/data"}, want: []string{"HOME"},
		},
		"a volume in its temporary folder": {
			child: []string{"HOME=" + may, "TMPDIR=" + mayNot}, mounts: []string{mayNot + "/a"}, want: []string{"TMPDIR"},
		},
	} {
		scratch := may2
		if tc.scratch != "" {
			scratch = tc.scratch
		}
		child := append([]string{"PATH=/bin", "A=1"}, tc.child...)
		want := map[string]string{}
		for _, pair := range child {
			name, value, _ := strings.Cut(pair, "=")
			want[name] = value
		}
		for _, name := range tc.want {
			want[name] = scratch
		}
		with, set := places{tc.mounts, writes}.add(child, tc.environ, tc.declared, scratch)
		got := map[string]string{}
		for _, pair := range with {
			name, value, _ := strings.Cut(pair, "=")
			got[name] = value
		}
		if diff := cmp.Diff(want, got); diff != "" || len(with) != len(got) {
			t.Errorf("%s: %d variables (-want +got):\n%s", name, len(with), diff)
		}
		if diff := cmp.Diff(tc.want, set); diff != "" {
			t.Errorf("%s: it says (-want +got):\n%s", name, diff)
		}
	}
}

// A user whom the image does not know is at home in the root, and so is all that is mounted.
func TestWhatIsMountedInAHome(t *testing.T) {
	for mount, want := range map[string]bool{
		"/": false, "/proc": false, "/etc/hosts": false, "/data": false, "/.npm": true, "/.config/a": true,
	} {
		if got := ofHome("/", mount); got != want {
			t.Errorf("%s: %t", mount, got)
		}
	}
	for mount, want := range map[string]bool{
		"/": false, "/opt": false, "/opt/b": false, "/opt/a": true, "/opt/a/data": true, "/opt/..a": false,
	} {
		if got := ofHome("/opt/a/", mount); got != want {
			t.Errorf("%s: %t", mount, got)
		}
	}
	if all := mounts(); len(all) == 0 || all[0][0] != '/' {
		t.Errorf("this process has %q", all)
	}
	if absent := filepath.Join(t.TempDir(), "absent"); writes(absent) || !writes(t.TempDir()) {
		t.Error("it may write to a folder that there is not, or not to its own")
	}
}
