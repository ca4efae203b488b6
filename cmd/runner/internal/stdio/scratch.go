package stdio

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

// unsetTemporary is where programs write without TMPDIR (https://pubs.opengroup.org/onlinepubs/9799919799/, 8.3).
const unsetTemporary = "/tmp"

// Places adds a place to write to the variables of a child: where HOME or TMPDIR lead to a folder in which its user
// cannot write, they lead to scratch. What the spec declares, by environ and declared as Environment has them, stays.
// So does a home directory in which something is mounted, or which has settings: a program would not find elsewhere
// what it reads there. It returns the names that it has set. Nothing is set where there is no scratch, as in pods of
// before.
func Places(child, environ, declared []string, scratch string) (with, set []string) {
	return places{mounts(), writes}.add(child, environ, declared, scratch)
}

// places are what a process finds in its container.
type places struct {
	mounts []string
	writes func(folder string) bool
}

func (p places) add(child, environ, declared []string, scratch string) (with, set []string) {
	if !p.writes(scratch) {
		return child, nil
	}
	declares := func(name string) bool {
		return slices.Contains(declared, name) || slices.ContainsFunc(environ, func(pair string) bool {
			return strings.HasPrefix(pair, runconfig.DeclaredPrefix+name+"=")
		})
	}
	for _, place := range []struct{ name, unset string }{{"HOME", "/"}, {"TMPDIR", unsetTemporary}} {
		at := slices.IndexFunc(child, func(pair string) bool { return strings.HasPrefix(pair, place.name+"=") })
		folder := place.unset
		if at >= 0 && child[at] != place.name+"=" {
			_, folder, _ = strings.Cut(child[at], "=")
		}
		if declares(place.name) || p.writes(folder) || place.name == "HOME" && p.keeps(folder) {
			continue
		}
		if at >= 0 {
			child = slices.Delete(slices.Clone(child), at, at+1)
		}
		child, set = append(child, place.name+"="+scratch), append(set, place.name)
	}
	return child, set
}

// writes reports whether this process may make files in a folder.
func writes(folder string) bool {
	const enter, write = 1, 2 // access(2)
	return syscall.Access(folder, enter|write) == nil
}

// keeps reports whether a program may find something in its home directory.
func (p places) keeps(home string) bool {
	return settles(home) || slices.ContainsFunc(p.mounts, func(mount string) bool { return ofHome(home, mount) })
}

// settles reports whether a home directory has folders of settings, such as .cache or .local.
func settles(home string) bool {
	entries, _ := os.ReadDir(home) //nolint:errcheck // whoever cannot list it finds nothing in it
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.IsDir() && strings.HasPrefix(e.Name(), ".") })
}

// ofHome reports whether a mount lies in a home directory: in that of a user whom the image does not know, which is the
// root, where its name is that of a folder of settings.
func ofHome(home, mount string) bool {
	inside, err := filepath.Rel(home, mount)
	if err != nil || inside == ".." || strings.HasPrefix(inside, "../") {
		return false
	}
	return filepath.Clean(home) != "/" || strings.HasPrefix(inside, ".") && inside != "."
}

// mounts are where this process has something mounted (proc_pid_mountinfo(5)).
func mounts() (at []string) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil // of a system that has none
	}
	defer file.Close() //nolint:errcheck // it is only read
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 4 {
			at = append(at, fields[4]) // a space is written as \040: what comes before says where it lies
		}
	}
	return at
}
