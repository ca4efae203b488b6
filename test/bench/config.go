package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// change is how one MCPAuthzConfig is changed to which all servers refer.
type change struct {
	step, subject string
	// share is how many of a hundred servers take it at a time.
	share int
}

// changes are Freehold beside the floor, which lets no server wait, and in turns as it is installed.
var changes = []change{{"policy", freehold, 100}, {"policy", "floor", 100}, {"turns", freehold, 0}}

// config measures how n servers take the changed policies of one MCPAuthzConfig. In each case Freehold brought them up.
func (b *bench) config(ctx context.Context, c change, n int) error {
	b.settings.Share = c.share
	defer func() { b.settings.Share = 0 }()
	return b.on(ctx, freehold, func(ctx context.Context, w *world, p *subject) error { return b.retake(ctx, w, p, c, n) })
}

// retake measures it once p has brought the servers up.
func (b *bench) retake(ctx context.Context, w *world, p *subject, c change, n int) error {
	if err := w.refer(ctx, n); err != nil {
		return err
	}
	if _, err := p.rest(ctx, w.calm); err != nil {
		return err
	}
	return b.instead(ctx, w, p, c.subject, func(p *subject) error { return b.policy(ctx, w, p, c, n) })
}

// instead measures with another subject than the one that brought the servers up, if it is
// not Freehold that is measured.
func (b *bench) instead(ctx context.Context, w *world, p *subject, name string, measure func(*subject) error) error {
	if name == freehold {
		return measure(p)
	}
	if err := p.stop(); err != nil {
		return err
	}
	p, err := b.subject(ctx, w, floorOfAChange)
	if err != nil {
		return err
	}
	return errors.Join(measure(p), p.stop())
}

// refer brings up n servers that refer to one MCPAuthzConfig.
func (w *world) refer(ctx context.Context, n int) error {
	if err := w.permit(ctx, "principal"); err != nil {
		return err
	}
	err := w.apply(ctx, n, func(name string) string {
		return inPlace(name, image(1), "authzConfigRef: {name: company}")
	})
	if err != nil {
		return err
	}
	_, err = w.tracker.await(ctx, n, "servers are ready", settled(1))
	return err
}

// policy changes who is permitted.
func (b *bench) policy(ctx context.Context, w *world, p *subject, c change, n int) error {
	before := w.sent.read()
	step, err := w.measure(ctx, p, Step{Scenario: "config", Step: c.step, Subject: c.subject, Servers: n}, func() error {
		return w.permit(ctx, `principal == Client::"ann"`)
	}, question{n, "servers are ready with the other policy", settled(2)})
	if err != nil {
		return err
	}
	step.Values = map[string]float64{"runner writes": float64(w.sent.read().since(before).writes().sum().Requests)}
	b.record(step)
	return nil
}

// permit applies the MCPAuthzConfig as its team does.
func (w *world) permit(ctx context.Context, who string) error {
	text := fmt.Sprintf("apiVersion: freehold.dev/v1alpha1\nkind: MCPAuthzConfig\nmetadata: {name: company}\n"+
		"spec: {policies: [{name: all, policy: 'permit(%s, action, resource);'}]}\n", who)
	object, err := w.read(text)
	if err != nil {
		return err
	}
	return w.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(user))
}

// toServers counts the writes of a step but for those to the configuration itself.
func toServers(s Step) float64 {
	return float64(s.Counts.writes().
		where(func(c Count) bool { return !strings.HasPrefix(c.Resource, "mcpauthzconfigs") }).sum().Requests)
}
