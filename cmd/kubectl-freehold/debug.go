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
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/contract"
)

// How much of the logs a bundle has.
const (
	logLines = int64(2000)
	logBytes = int64(4 << 20)
)

// debugging is what debug is asked for.
type debugging struct {
	file        string
	backendLogs bool
}

func (c *cli) debug() *cobra.Command {
	d := debugging{}
	cmd := &cobra.Command{
		Use:   "debug NAME",
		Short: "Collect what an issue about a server needs",
		Long: `Write a file, tar with gzip, with what helps to explain how an MCPServer is: the
server, its objects and pods, the configurations that it refers to, its Events, the
operator's Deployments, what status and audit say, and the end of the logs of the
operator and of the proxy.

It reads no Secret, and leaves out the values of environment variables. Arguments,
names and log lines stay: look through the file before you publish it. The logs of
the backend, which is your image, are left out unless you ask for them.`,
		Example: `  # For an issue
  kubectl freehold debug everything

  # Into another file, with the backend's logs
  kubectl freehold debug everything --file /tmp/everything.tar.gz --backend-logs

  # To the standard output
  kubectl freehold debug everything --file -`,
		Args:              exactly(1, "one MCPServer"),
		ValidArgsFunction: c.completeServer,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.collect(cmd.Context(), args[0], d)
		},
	}
	cmd.Flags().StringVarP(&d.file, "file", "f", "", "file to write, - for the standard output; freehold-debug-NAMESPACE-NAME.tar.gz if none is named")
	cmd.Flags().BoolVar(&d.backendLogs, "backend-logs", false, "add the logs of the backend")
	return cmd
}

func (c *cli) completeServer(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.names(argument(contract.MCPServer)), cobra.ShellCompDirectiveNoFileComp
}

// collect reads all that it may, and writes it. What cannot be read is named in the
// file unread.txt, for it tells something as well; only the server must be readable.
func (c *cli) collect(ctx context.Context, name string, d debugging) error {
	server, err := c.object(argument(contract.MCPServer), name)
	if err != nil {
		return err
	}
	b := bundle{files: map[string][]byte{}}
	b.object("", server)
	of := serverLabel + "=" + name
	children, err := c.selected(false, of, c.bundledKinds()...)
	b.objects("objects/", children, err)
	configs, err := c.listed(false, configKinds()...)
	b.objects("configurations/", configs, err)
	events, err := c.listed(false, "events.v1.")
	b.events(events, append(children, server), err)
	operators, err := c.selected(true, operatorSelector, "deployments.v1.apps")
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
	return append(slices.DeleteFunc(c.childKinds(), func(kind string) bool { return strings.HasPrefix(kind, "Secret.") }), "pods.v1.")
}

// ownedOnly leaves out pods, which have no grants.
func ownedOnly(children []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(children), func(u *unstructured.Unstructured) bool { return u.GetKind() == "Pod" })
}

// asks is what a command prints.
func (c *cli) asks(command func(*cli) error) string {
	var text bytes.Buffer
	told := *c
	told.Out, told.ErrOut = &text, &text
	if err := command(&told); err != nil && !errors.Is(err, errWrong) {
		fmt.Fprintln(&text, "error:", err)
	}
	return text.String()
}

// bundle are files by name.
type bundle struct {
	files  map[string][]byte
	unread []string
}

func (b *bundle) said(name, text string) { b.files[name] = []byte(text) }

func (b *bundle) missed(what string, err error) {
	b.unread = append(b.unread, what+": "+err.Error())
}

// object adds an object without what may be secret.
func (b *bundle) object(folder string, u *unstructured.Unstructured) {
	data, err := yaml.Marshal(redact(u).Object)
	if err != nil {
		b.missed(title(u), err)
		return
	}
	name := strings.ToLower(u.GetKind()) + "-" + u.GetName() + ".yaml"
	if folder == "operator/" {
		name = u.GetNamespace() + "-" + name
	}
	b.files[folder+name] = data
}

func (b *bundle) objects(folder string, found []*unstructured.Unstructured, err error) {
	for _, u := range found {
		b.object(folder, u)
	}
	if err != nil {
		b.missed(folder, err)
	}
}

// events adds a line for each Event about one of the objects, in the order of time.
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
		lines = append(lines, fmt.Sprintf("%s %s %s/%s %s: %s", last.UTC().Format("2006-01-02T15:04:05Z"), e.Type, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason, safe(e.Message)))
	}
	slices.Sort(lines)
	b.said("events.txt", strings.Join(append(lines, ""), "\n"))
	if err != nil {
		b.missed("events", err)
	}
}

func (b *bundle) version() { b.said("version.txt", "kubectl-freehold "+version+"\n") }

// logs adds the end of the logs of the operator and of the proxy, also of containers
// that ended before.
func (c *cli) logs(ctx context.Context, b *bundle, children, operators []*unstructured.Unstructured, backend bool) {
	config, err := c.flags.ToRESTConfig()
	if err != nil {
		b.missed("logs", err)
		return
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		b.missed("logs", err)
		return
	}
	pods := slices.DeleteFunc(slices.Clone(children), func(u *unstructured.Unstructured) bool {
		return u.GetKind() != "Pod" || !backend && u.GetLabels()["app.kubernetes.io/component"] != "proxy"
	})
	if len(operators) > 0 {
		found, err := c.selected(true, operatorSelector, "pods.v1.")
		if err != nil {
			b.missed("operator/", err)
		}
		pods = append(pods, found...)
	}
	for _, u := range pods {
		var pod corev1.Pod
		if err := decode(u, &pod); err != nil {
			b.missed(title(u), err)
			continue
		}
		for _, container := range pod.Spec.Containers {
			for _, previous := range []bool{false, true} {
				name := "logs/" + pod.Name + "-" + container.Name + map[bool]string{true: ".previous"}[previous] + ".log"
				text, err := client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
					Container: container.Name, Previous: previous, TailLines: new(logLines), LimitBytes: new(logBytes), Timestamps: true,
				}).DoRaw(ctx)
				switch {
				case err == nil:
					b.files[name] = text
				case !previous: // most have not ended before
					b.missed(name, err)
				}
			}
		}
	}
}

// write writes the bundle, in the order of names.
func (c *cli) write(b *bundle, server *unstructured.Unstructured, file string) error {
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
	fmt.Fprintf(c.Out, "%s has %d files; %d could not be read. Look through it before you publish it.\n", file, len(b.files), len(b.unread))
	return nil
}

func (b *bundle) pack(out io.Writer, root string) error {
	compressed := gzip.NewWriter(out)
	archive := tar.NewWriter(compressed)
	for _, name := range slices.Sorted(maps.Keys(b.files)) {
		header := &tar.Header{Name: root + "/" + name, Mode: 0o600, Size: int64(len(b.files[name])), Typeflag: tar.TypeReg}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(b.files[name]); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), compressed.Close())
}
