package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/freehold-dev/freehold/controllers"
)

// freehold is the subject that everything is measured for.
const freehold = "freehold"

// bench is one run of this program.
type bench struct {
	settings settings
	operator string
	report   Report
}

func main() {
	runSubjectIfAsked()
	log.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// plan is what the flags ask for.
type plan struct {
	scenarios, subjects      []string
	converge, life, memories []int
	configs                  []int
	rounds                   int
	owned, writes, costs     int
	rolled                   int
	tenant                   tenantSizes
	patience                 time.Duration
	out                      string
}

func run(ctx context.Context, args []string) error {
	b := &bench{}
	p, err := b.parse(args)
	if err != nil {
		return err
	}
	b.report.Time, b.report.Machine, b.report.Versions = time.Now().UTC(), machine(),
		versions(os.Getenv("KUBEBUILDER_ASSETS"))
	b.report.Settings = b.settings
	failed := b.measureAll(ctx, p)
	b.report.judge()
	fmt.Println(b.report.String())
	return errors.Join(failed, b.report.write(p.out))
}

func (b *bench) parse(args []string) (plan, error) {
	p := plan{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	scenarios := flags.String("scenarios", "converge,life,memory",
		"which to measure, of these and config, ownership, rollout, cost, tenant and watch")
	subjects := flags.String("subjects", "freehold,floor,reference",
		"who brings servers up in converge; freehold and floor change and delete them in life")
	converge := flags.String("servers", "1,100,500,2000", "how many servers converge")
	life := flags.String("life", "100,601", "how many servers are changed and deleted")
	configs := flags.String("configs", "100", "how many servers refer to the MCPAuthzConfig that is changed")
	memories := flags.String("memory", "600", "how many servers memory is measured with")
	flags.IntVar(&p.rounds, "rounds", 1, "how often converge is measured; the table shows medians")
	flags.IntVar(&p.owned, "owned", 10, "how many servers ownership writes to")
	flags.IntVar(&p.writes, "writes", 300, "how many foreign writes ownership makes beside each subject")
	flags.IntVar(&p.rolled, "rolled", 20, "how many servers get new content in rollout")
	flags.Uint64Var(&b.report.Seed, "seed", 1, "what the foreign writes of ownership, and their order, are drawn by")
	flags.IntVar(&p.costs, "objects", 200, "of how many servers cost writes the Deployment and the Service")
	flags.IntVar(&p.tenant.made, "tenant-made", 300, "how many servers tenant makes at once, and then edits")
	flags.IntVar(&p.tenant.more, "tenant-more", 800, "how many servers tenant makes at once beside them")
	flags.IntVar(&p.tenant.follow, "tenant-follow", 500, "how many servers of tenant follow one MCPAuthzConfig")
	flags.IntVar(&p.tenant.edits, "tenant-edits", 23, "how many edits tenant makes a second")
	flags.IntVar(&p.tenant.large, "tenant-large", 100,
		"how many of the largest objects of each kind tenant makes, and watch servers")
	flags.DurationVar(&p.patience, "patience", 10*time.Minute, "how long one scenario may take")
	flags.StringVar(&p.out, "out", filepath.Join("bin", "bench"), "directory of the JSON")
	flags.StringVar(&b.operator, "operator", filepath.Join("bin", "operator"),
		"the operator's binary, whose memory is measured")
	flags.IntVar(&b.settings.Workers, "workers", controllers.DefaultConcurrency, "servers worked on at once")
	flags.Float64Var(&b.settings.QPS, "qps", controllers.DefaultQPS, "requests a second of a subject; -1 for no limit")
	flags.IntVar(&b.settings.Burst, "burst", controllers.DefaultBurst, "requests at once of a subject")
	flags.BoolVar(&b.settings.PriorityQueue, "priority-queue", true,
		"let what was listed at the start give way to what changes")
	flags.StringVar(&b.settings.Profiles, "profiles", "",
		"directory for a profile of processor time and memory of each subject")
	if err := flags.Parse(args); err != nil {
		return p, err
	}
	p.scenarios, p.subjects = strings.Split(*scenarios, ","), strings.Split(*subjects, ",")
	var err error
	for text, into := range map[*string]*[]int{
		converge: &p.converge, life: &p.life, memories: &p.memories,
		configs: &p.configs,
	} {
		if *into, err = numbers(*text); err != nil {
			return p, err
		}
	}
	return p, nil
}

func numbers(text string) ([]int, error) {
	var all []int
	for _, word := range strings.Split(text, ",") {
		n, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("reading a number of servers: %w", err)
		}
		all = append(all, n)
	}
	return all, nil
}

// measureAll runs the scenarios in turn. One that fails does not keep the others from being measured.
func (b *bench) measureAll(ctx context.Context, p plan) error {
	var errs []error
	do := func(scenario string, measure func(context.Context) error) {
		if !slices.Contains(p.scenarios, scenario) || ctx.Err() != nil {
			return
		}
		limited, cancel := context.WithTimeout(ctx, p.patience)
		defer cancel()
		errs = append(errs, measure(limited))
	}
	// Subjects take turns, so that whatever else the machine does meets all.
	for range p.rounds {
		for _, n := range p.converge {
			for _, name := range p.subjects {
				do("converge", func(ctx context.Context) error { return b.converge(ctx, name, n) })
			}
		}
	}
	for _, n := range p.life {
		for _, name := range p.subjects {
			if _, ok := references()[name]; !ok {
				do("life", func(ctx context.Context) error { return b.life(ctx, name, n) })
			}
		}
	}
	for range p.rounds {
		for _, n := range p.configs {
			for _, c := range changes {
				do("config", func(ctx context.Context) error { return b.config(ctx, c, n) })
			}
		}
	}
	for _, n := range p.memories {
		do("memory", func(ctx context.Context) error { return b.memory(ctx, n) })
	}
	for _, name := range owners {
		do("ownership", func(ctx context.Context) error { return b.ownership(ctx, name, p.owned, p.writes) })
	}
	for _, name := range rollers {
		do("rollout", func(ctx context.Context) error { return b.rollOut(ctx, name, p.rolled) })
	}
	do("tenant", func(ctx context.Context) error { return b.tenant(ctx, p.tenant) })
	do("watch", func(ctx context.Context) error { return b.watches(ctx, p.tenant.large) })
	do("cost", func(ctx context.Context) error { return b.cost(ctx, p.costs) })
	return errors.Join(errs...)
}

// on measures on a world of its own with one subject, for which the world may be prepared.
func (b *bench) on(
	ctx context.Context, name string, measure func(context.Context, *world, *subject) error,
	prepare ...func(*world, context.Context) error,
) error {
	return b.onWorld(ctx, func(ctx context.Context, w *world) error {
		if isReference(name) {
			prepare = append(prepare, func(w *world, ctx context.Context) error { return w.allow(ctx, rights()) })
		}
		for _, do := range prepare {
			if err := do(w, ctx); err != nil {
				return err
			}
		}
		p, err := b.subject(ctx, w, name)
		if err != nil {
			return err
		}
		return errors.Join(measure(ctx, w, p), p.stop())
	})
}

func (b *bench) onWorld(ctx context.Context, measure func(context.Context, *world) error) error {
	dir, err := os.MkdirTemp("", "freehold-bench-")
	if err != nil {
		return fmt.Errorf("making a directory: %w", err)
	}
	defer os.RemoveAll(dir)
	w, err := newWorld(ctx, dir)
	if err == nil {
		err = measure(ctx, w)
	}
	return errors.Join(err, w.stop())
}

func (b *bench) subject(ctx context.Context, w *world, name string) (*subject, error) {
	s := b.settings
	s.Subject, s.Kubeconfig = name, w.kubeconfig
	if isReference(name) {
		s.Kubeconfig = w.reference
	}
	return startSubject(ctx, s)
}

func (b *bench) record(s Step) { b.report.Steps = append(b.report.Steps, s) }

// say tells the person at the terminal how far it is.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s  "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}
