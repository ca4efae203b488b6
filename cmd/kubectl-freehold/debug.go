package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

type debugging struct {
	file        string
	backendLogs bool
}

func (c *cli) debug() *cobra.Command {
	d := debugging{}
	cmd := &cobra.Command{
		Use:   "debug (NAME | KIND NAME | KIND/NAME)",
		Short: "Collect what an issue about a server needs",
		Long: `Write a file, tar with gzip, with what helps to explain how an MCPServer or an
MCPRemoteProxy is: the object, its children and pods, the configurations of its
namespace, its Events, the operator's Deployments, what status and audit say, and
the end of the logs of the operator and of the proxy. A NAME without a kind is that
of an MCPServer.

It reads no Secret, and leaves out the values of environment variables, headers and
flags, also where logs and messages repeat them, passwords and queries of URLs,
headers of credentials and keys, bearer tokens and JSON Web Tokens. Other arguments,
names and log lines stay, and so do the last words of a container that ended: look
through the file before you publish it. The logs of the backend, which is your image,
are left out unless you ask for them; those of the bridge beside a server of transport
sse are in.`,
		Example: `  # For an issue
  kubectl freehold debug everything

  # About an MCPRemoteProxy
  kubectl freehold debug mcprp search

  # Into another file, with the backend's logs
  kubectl freehold debug everything --file /tmp/everything.tar.gz --backend-logs

  # To the standard output
  kubectl freehold debug everything --file -`,
		Args: oneWorkload, ValidArgsFunction: c.completeServer,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.collect(cmd.Context(), args, d)
		},
	}
	cmd.Flags().StringVarP(&d.file, "file", "f", "",
		"file to write, - for the standard output; freehold-debug-NAMESPACE-NAME.tar.gz if none is named")
	cmd.Flags().BoolVar(&d.backendLogs, "backend-logs", false, "add the logs of the backend")
	return cmd
}

// collect reads everything it may, and writes it. Unreadable parts are listed in unread.txt; only the server must be
// readable.
func (c *cli) collect(ctx context.Context, args []string, d debugging) error {
	server, key, err := c.workload(args)
	if err != nil {
		return err
	}
	b := newBundle()
	b.object("", server)
	children, err := c.selected(false, serverLabel+"="+key, c.bundledKinds()...)
	b.objects("objects/", children, err)
	configs, err := c.listed(false, configKinds()...)
	b.objects("configurations/", configs, err)
	events, err := c.listed(false, "events.v1.")
	b.events(events, append(children, server), err)
	operators, _, err := c.operatorDeployments()
	b.objects("operator/", operators, err)
	b.said("status.txt", c.asks(func(told *cli) error {
		found, err := told.operators()
		return told.showStatus(output{}, found, append(configs, server), err)
	}))
	b.said("audit.txt", c.asks(func(told *cli) error {
		return told.judgeAll(output{}, []*unstructured.Unstructured{server}, ownedOnly(children), nil)
	}))
	c.logs(ctx, &b, children, operators, d.backendLogs)
	b.version()
	return c.write(&b, server, d.file)
}

// bundledKinds are those of a server's objects, with pods and without Secrets.
func (c *cli) bundledKinds() []string {
	return append(slices.DeleteFunc(c.childKinds(), func(kind string) bool { return strings.HasPrefix(kind, "Secret.") }),
		"pods.v1.")
}

func ownedOnly(children []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(children),
		func(u *unstructured.Unstructured) bool { return u.GetKind() == "Pod" })
}

func (c *cli) asks(command func(*cli) error) string {
	var text bytes.Buffer
	told := *c
	told.Out, told.ErrOut = &text, &text
	if err := command(&told); err != nil && !errors.Is(err, errWrong) {
		fmt.Fprintln(&text, "error:", err)
	}
	return text.String()
}

// bundle has files by name, and what was redacted. Objects stay trees until all redacted values are known: YAML
// breaks long lines and doubles quotes, which would hide a value.
type bundle struct {
	redactor
	files  map[string][]byte
	trees  map[string]*unstructured.Unstructured
	unread []string
}

func newBundle() bundle {
	return bundle{redactor: *newRedactor(), files: map[string][]byte{}, trees: map[string]*unstructured.Unstructured{}}
}

func (b *bundle) said(name, text string) { b.files[name] = []byte(text) }

func (b *bundle) missed(what string, err error) {
	b.unread = append(b.unread, what+": "+err.Error())
}

func (b *bundle) object(folder string, u *unstructured.Unstructured) {
	r, name := &b.redactor, strings.ToLower(u.GetKind())+"-"+u.GetName()+".yaml"
	if folder == "operator/" {
		// Its flags are images and namespaces, which are in every log.
		r, name = newRedactor(), u.GetNamespace()+"-"+name
	}
	b.trees[folder+name] = r.redact(u)
}

func (b *bundle) render() {
	scrub := b.scrubber()
	for name, u := range b.trees {
		data, err := yaml.Marshal(scrubbed(u.Object, scrub))
		if err != nil {
			b.missed(title(u), err)
			continue
		}
		b.files[name] = data
	}
}

func (b *bundle) objects(folder string, found []*unstructured.Unstructured, err error) {
	for _, u := range found {
		b.object(folder, u)
	}
	if err != nil {
		b.missed(folder, err)
	}
}

// events adds a line for each Event about one of the objects, in order of time.
func (b *bundle) events(events, about []*unstructured.Unstructured, err error) {
	uids := map[string]bool{}
	for _, u := range about {
		uids[string(u.GetUID())] = true
	}
	var lines []string
	for _, u := range events {
		var e corev1.Event
		if decode(u, &e) != nil || !uids[string(e.InvolvedObject.UID)] {
			continue
		}
		last := e.LastTimestamp.Time
		if last.IsZero() {
			last = e.EventTime.Time
		}
		lines = append(lines, fmt.Sprintf("%s %s %s/%s %s: %s", last.UTC().Format("2006-01-02T15:04:05Z"), e.Type,
			e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason, safe(e.Message)))
	}
	slices.Sort(lines)
	b.said("events.txt", strings.Join(append(lines, ""), "\n"))
	if err != nil {
		b.missed("events", err)
	}
}

func (b *bundle) version() { b.said("version.txt", "kubectl-freehold "+version+"\n") }

func (c *cli) write(b *bundle, server *unstructured.Unstructured, file string) error {
	b.render()
	slices.Sort(b.unread)
	if len(b.unread) > 0 {
		b.said("unread.txt", strings.Join(append(b.unread, ""), "\n"))
	}
	root := "freehold-debug-" + server.GetNamespace() + "-" + server.GetName()
	var packed bytes.Buffer
	if err := b.pack(&packed, root); err != nil {
		return err
	}
	if file == "-" {
		_, err := c.Out.Write(packed.Bytes())
		return err
	}
	if file == "" {
		file = root + ".tar.gz"
	}
	if err := os.WriteFile(file, packed.Bytes(), 0o600); err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "%s has %d files; %d could not be read. Look through it before you publish it.\n", file,
		len(b.files), len(b.unread))
	return nil
}

func (b *bundle) pack(out io.Writer, root string) error {
	compressed := gzip.NewWriter(out)
	archive := tar.NewWriter(compressed)
	for _, name := range slices.Sorted(maps.Keys(b.files)) {
		text := b.scrub(string(b.files[name]))
		header := &tar.Header{Name: root + "/" + name, Mode: 0o600, Size: int64(len(text)), Typeflag: tar.TypeReg}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := io.WriteString(archive, text); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), compressed.Close())
}
