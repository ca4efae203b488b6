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
// cannot write, they lead to scratch. What the spec declares, by environ and declared as
// Environment has them, stays, and so does a home directory in which something is
// mounted: what the program has written is there. It returns the names that it has set. Nothing is set where there is
// no scratch, as in pods of before.
func Places(child, environ, declared []string, scratch string, mounts []string) (with, set []string) {
	if !writes(scratch) {
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
		if declares(place.name) || writes(folder) ||
			place.name == "HOME" && slices.ContainsFunc(mounts, func(mount string) bool { return ofHome(folder, mount) }) {
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

// ofHome reports whether a mount lies in a home directory: in that of a user whom the image does not know, which is the
// root, where its name is that of a folder of settings.
func ofHome(home, mount string) bool {
	inside, err := filepath.Rel(home, mount)
	if err != nil || inside == ".." || strings.HasPrefix(inside, "../") {
		return false
	}
	return filepath.Clean(home) != "/" || strings.HasPrefix(inside, ".") && inside != "."
}

// Mounts are where this process has something mounted (proc_pid_mountinfo(5)).
func Mounts() (at []string) {
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
