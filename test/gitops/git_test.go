package gitops

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// gitAddress is where repositories are served over HTTP.
var gitAddress string

// serveGit serves the repositories below work/git as Git's own CGI program does
// (https://git-scm.com/docs/git-http-backend).
func serveGit(ctx context.Context) error {
	path, err := exec.CommandContext(ctx, "git", "--exec-path").Output()
	if err != nil {
		return fmt.Errorf("asking git for its programs: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	gitAddress = "http://" + listener.Addr().String()
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + filepath.Join(work, "git"), "GIT_HTTP_EXPORT_ALL=1"},
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if released, is := held.Load(gitAddress + "/" + name); is {
			select {
			case <-released.(chan struct{}): //nolint:forcetypeassert // as hold stores it
			case <-r.Context().Done():
				return
			}
		}
		backend.ServeHTTP(w, r)
	})
	go func() { _ = http.Serve(listener, handler) }() //nolint:gosec // loopback, until the tests end
	return nil
}

// held are the addresses of repositories that answer nobody for now.
var held sync.Map

// hold lets a repository answer nobody until it is released, as one that is slow.
func (r *repository) hold() (release func()) {
	r.Helper()
	released := make(chan struct{})
	held.Store(r.url, released)
	release = sync.OnceFunc(func() {
		held.Delete(r.url)
		close(released)
	})
	r.Cleanup(release)
	return release
}

// repositories counts them, so that a story that runs again has one of its own.
var repositories atomic.Int64

// repository is a Git repository that is served, with a copy of config/gitops in it.
type repository struct {
	testing.TB
	// url is what the recipes' address stands for, dir the work tree.
	url, dir string
}

func newRepository(t testing.TB) *repository {
	t.Helper()
	name := fmt.Sprintf("%s-%d", strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")), repositories.Add(1))
	r := &repository{TB: t, url: gitAddress + "/" + name + ".git", dir: filepath.Join(t.TempDir(), "servers")}
	r.git("", "init", "--quiet", "--bare", "--initial-branch=main", filepath.Join(work, "git", name+".git"))
	r.git("", "init", "--quiet", "--initial-branch=main", r.dir)
	r.git(r.dir, "remote", "add", "origin", filepath.Join(work, "git", name+".git"))
	shipped := filepath.Join(root, "config", "gitops")
	err := filepath.WalkDir(shipped, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil {
			path, err = filepath.Rel(root, path)
			r.write(path, string(text))
		}
		return err
	})
	if err != nil {
		t.Fatalf("copying config/gitops: %v", err)
	}
	return r
}

func (r *repository) git(dir string, args ...string) string {
	r.Helper()
	command := exec.Command("git",
		append([]string{"-c", "user.name=team", "-c", "user.email=team@example.com", "-c", "commit.gpgsign=false"},
			args...)...) //nolint:gosec // the arguments are this package's
	command.Dir = dir
	out, err := command.CombinedOutput()
	if err != nil {
		r.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// write replaces a file of the work tree.
func (r *repository) write(path, text string) {
	r.Helper()
	path = filepath.Join(r.dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // Git reads it
		r.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // Git reads it
		r.Fatal(err)
	}
}

func (r *repository) read(path string) string {
	r.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, path))
	if err != nil {
		r.Fatal(err)
	}
	return string(text)
}

// edit replaces what stands in a file once.
func (r *repository) edit(path, from, to string) {
	r.Helper()
	text := r.read(path)
	if strings.Count(text, from) != 1 {
		r.Fatalf("%q is not once in %s:\n%s", from, path, text)
	}
	r.write(path, strings.Replace(text, from, to, 1))
}

// push commits everything and returns the commit.
func (r *repository) push(message string) string {
	r.Helper()
	r.git(r.dir, "add", "--all")
	r.git(r.dir, "commit", "--quiet", "--message", message)
	r.git(r.dir, "push", "--quiet", "origin", "main")
	return r.git(r.dir, "rev-parse", "HEAD")
}
