package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/freehold-dev/freehold/test/conformance"
)

// tools are the programs that others gave.
type tools struct {
	runner, npm, built, out string
	clients                 []client
}

type client struct {
	name string
	look conformance.Look
}

// patience bounds all of it, and lookTime what one client does with one server.
const (
	patience = 20 * time.Minute
	lookTime = 2 * time.Minute
)

func main() {
	t := tools{}
	only := flag.String("only", "", "a pattern of the names of servers")
	workers := flag.Int("workers", 3, "how many servers are looked at at a time")
	flag.StringVar(&t.runner, "runner", "", "the runner's binary")
	flag.StringVar(&t.npm, "npm", "", "the folder with the packages of npm")
	flag.StringVar(&t.built, "built", "", "the folder with the servers in Go")
	flag.StringVar(&t.out, "out", "", "the folder for what the clients saw")
	flag.Parse()
	for _, name := range os.Environ() { // servers tell their environment, and directly they would have this one
		if name, _, _ = strings.Cut(name, "="); name != "PATH" {
			_ = os.Unsetenv(name)
		}
	}
	node := nodeIn(t.npm)
	t.clients = []client{
		{"TypeScript SDK 1", conformance.LookOfNode(node, t.npm, "v1")},
		{"TypeScript client 2", conformance.LookOfNode(node, t.npm, "v2")},
		{"Go SDK", conformance.LookOfGoSDK},
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := t.all(ctx, *only, *workers); err != nil {
		fmt.Fprintln(os.Stderr, "wild:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to end
	}
}

// all looks at all servers, and tells what it saw.
func (t *tools) all(ctx context.Context, only string, workers int) error {
	names, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	var chosen []server
	for _, s := range servers {
		if names.MatchString(s.called()) {
			chosen = append(chosen, s)
		}
	}
	rows, places := make([][]comparison, len(chosen)), make(chan struct{}, workers)
	var looks sync.WaitGroup
	for i, s := range chosen {
		places <- struct{}{}
		looks.Go(func() {
			defer func() { <-places }()
			began := time.Now()
			rows[i] = t.row(ctx, s)
			fmt.Printf("%s: %s (%.0f s)\n", s.called(), strings.Join(words(rows[i]), ", "), time.Since(began).Seconds())
		})
	}
	looks.Wait()
	return report(slices.Concat(rows...), only == "")
}

func words(row []comparison) (all []string) {
	for _, c := range row {
		all = append(all, c.client+" "+c.count())
	}
	return all
}

// row is what each client sees of a server.
func (t *tools) row(ctx context.Context, s server) (row []comparison) {
	failed := func(err error) []comparison {
		return []comparison{{server: s.called(), client: "nobody", err: err}}
	}
	home, err := folder()
	if err != nil {
		return failed(err)
	}
	r, err := t.start(ctx, s, home)
	if err != nil {
		return failed(fmt.Errorf("%w; its logs are in %s", err, home))
	}
	defer func() { _ = errors.Join(r.stop(), os.RemoveAll(home)) }()
	for _, c := range t.clients {
		row = append(row, t.compare(ctx, s, c, r, home))
	}
	return row
}

// folder makes a home with something to look at.
func folder() (string, error) {
	home, err := os.MkdirTemp("", "wild-")
	if err != nil {
		return "", err
	}
	return home, errors.Join(
		os.WriteFile(filepath.Join(home, "hello.txt"), []byte("a file\n"), 0o600),
		os.Mkdir(filepath.Join(home, "folder"), 0o700),
		os.WriteFile(filepath.Join(home, "folder", "one.txt"), []byte("one\n"), 0o600),
		os.WriteFile(filepath.Join(home, "kubeconfig.yaml"), []byte(kubeconfig), 0o600),
	)
}

// kubeconfig names a cluster that is not there.
const kubeconfig = `{apiVersion: v1, kind: Config, current-context: none, clusters: [{name: none, cluster: {server: "https://127.0.0.1:1"}}],
contexts: [{name: none, context: {cluster: none, user: none}}], users: [{name: none, user: {}}]}`

// compare has a client look at a server directly and through Freehold, and once more where one look has run out of
// time.
func (t *tools) compare(ctx context.Context, s server, c client, r *running, home string) comparison {
	out := comparison{server: s.called(), client: c.name}
	plan, err := placedPlan(s.plan, home)
	if err != nil {
		out.err = err
		return out
	}
	for range 2 {
		var direct, through map[string]string
		if direct, err = seen(ctx, c.look, r.direct, plan); err != nil {
			out.err = fmt.Errorf("directly: %w", err)
			continue
		}
		if through, err = seen(ctx, c.look, conformance.Target{URL: r.through}, plan); err != nil {
			out.err = fmt.Errorf("through Freehold: %w", err)
			continue
		}
		if out.err = t.write(out, direct, through); out.err != nil {
			return out
		}
		out.judge(s, direct, through)
		if !out.late {
			break
		}
	}
	return out
}

func placedPlan(plan conformance.Plan, home string) (placed conformance.Plan, err error) {
	data, err := json.Marshal(plan)
	if err != nil {
		return placed, err
	}
	return placed, json.Unmarshal([]byte(strings.ReplaceAll(string(data), "HOME", home)), &placed)
}

// write keeps what a client saw for whoever looks into a difference.
func (t *tools) write(c comparison, direct, through map[string]string) error {
	name := strings.NewReplacer("/", "-", " ", "-", "@", "").Replace(c.server + "--" + c.client)
	for how, items := range map[string]map[string]string{"direct": direct, "through": through} {
		data, err := json.MarshalIndent(items, "", " ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(t.out, name+"-"+how+".json"), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// seen is what a client sees, by item: a list, or what one call came to.
func seen(
	ctx context.Context, look conformance.Look, at conformance.Target, plan conformance.Plan,
) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	data, err := look(ctx, at, plan)
	if err != nil {
		return nil, err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("reading what a client saw: %w: %.500s", err, data)
	}
	items := map[string]string{}
	for name, value := range all {
		if err := itemise(items, strings.ToLower(name), value, plan); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// itemise adds what one member of what a client saw has, as texts that can be compared.
func itemise(items map[string]string, name string, value json.RawMessage, plan conformance.Plan) (err error) {
	parts := map[string][]string{
		"called": named("call", plan.Tools), "got": named("prompt", plan.Prompts), "read": plan.Resources,
	}[name]
	var each []json.RawMessage
	if parts == nil && name != together || json.Unmarshal(value, &each) != nil {
		items[name], err = conformance.Normal(value)
		return err
	}
	texts := make([]string, len(each))
	for i := range each {
		if texts[i], err = conformance.Normal(each[i]); err != nil {
			return err
		}
	}
	if name == together { // in which order a server answers is chance
		slices.Sort(texts)
		items[name] = strings.Join(texts, "\n")
		return nil
	}
	if len(texts) != len(parts) {
		return fmt.Errorf("the client has %d answers to %d of %s", len(texts), len(parts), name)
	}
	for i, part := range parts {
		items[part] = texts[i]
	}
	return nil
}

// together is the member that has calls at once.
const together = "together"

func named(kind string, calls []conformance.Named) (names []string) {
	for i, c := range calls {
		names = append(names, fmt.Sprintf("%s %d %s", kind, i, c.Name))
	}
	return names
}
