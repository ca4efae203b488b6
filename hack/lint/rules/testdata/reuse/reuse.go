// Package reuse is bad input: intents that live on after their apply.
package reuse

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/controllers/apply"
)

type wanted struct {
	config, other *corev1ac.ConfigMapApplyConfiguration
}

func note() *corev1ac.ConfigMapApplyConfiguration { return corev1ac.ConfigMap("a", "ns") }

func twice(ctx context.Context, w *apply.Writer, c client.Client) {
	intent := note().WithData(map[string]string{"a": "1"})
	_, _ = w.Apply(ctx, nil, intent)
	_, _ = w.Apply(ctx, nil, intent) // want `this intent was applied in line 25 and is used again`

	answered := note()
	_ = c.Apply(ctx, answered) // want `only controllers/apply may`
	answered.WithData(nil)     // want `was applied`

	status := note()
	_ = c.Status().Apply(ctx, status) // want `only controllers/apply may`
	_ = *status.Name                  // want `was applied`
}

func typed(ctx context.Context, c corev1.ConfigMapInterface) *corev1ac.ConfigMapApplyConfiguration {
	intent := note()
	if _, err := c.Apply(ctx, intent, metav1.ApplyOptions{}); err != nil { // want `only controllers/apply may`
		return nil
	}
	return intent // want `was applied`
}

func underAnotherName(ctx context.Context, w *apply.Writer) {
	intent := note()
	other := intent.WithData(map[string]string{"a": "1"})
	var applied runtime.ApplyConfiguration = intent
	_, _ = w.Apply(ctx, nil, applied)
	_, _ = w.Apply(ctx, nil, other) // want `was applied`
}

func again(ctx context.Context, w *apply.Writer) {
	intent := note()
	for {
		if _, err := w.Apply(ctx, nil, intent); !errors.Is(err, apply.ErrExists) { // want `was applied`
			return
		}
	}
}

func onOneWay(ctx context.Context, w *apply.Writer, late bool) {
	intent := note()
	if late {
		_, _ = w.Apply(ctx, nil, intent)
	} else {
		intent = note()
	}
	intent.WithImmutable(true) // want `was applied`
}

func ofAStruct(ctx context.Context, w *apply.Writer, want wanted, shared *wanted) {
	_, _ = w.Apply(ctx, nil, want.config)
	_, _ = w.Apply(ctx, nil, want.other)
	_, _ = w.Apply(ctx, nil, want.config) // want `was applied`
	_, _ = w.Apply(ctx, nil, shared.config)
	_, _ = w.Apply(ctx, nil, shared.config) // want `was applied`
}

func ofAStructAgain(ctx context.Context, w *apply.Writer, shared *wanted) {
	for range 2 {
		_, _ = w.Apply(ctx, nil, shared.config) // want `was applied`
	}
}

func captured(ctx context.Context, w *apply.Writer) func() {
	intent := note()
	again := func() { intent = note() }
	_, _ = w.Apply(ctx, nil, intent)
	_, _ = w.Apply(ctx, nil, intent) // want `was applied`
	return again
}

// once is how it is done.
func once(ctx context.Context, w *apply.Writer, wants []wanted, shared *wanted) error {
	intent := note()
	_, err := w.Apply(ctx, nil, intent)
	if errors.Is(err, apply.ErrExists) {
		intent = note()
		_, err = w.Apply(ctx, nil, intent)
	}
	for _, want := range wants {
		_, failed := w.Apply(ctx, nil, want.config)
		err = errors.Join(err, failed)
	}
	for range 2 {
		each := note()
		_, failed := w.Apply(ctx, nil, each)
		err = errors.Join(err, failed)
	}
	next := note()
	for range 2 {
		_, failed := w.Apply(ctx, nil, next)
		next = note()
		err = errors.Join(err, failed)
	}
	whole := *shared
	keep := func() *wanted { return &whole }
	_, failed := w.Apply(ctx, nil, whole.config)
	whole = *keep()
	whole.config.WithImmutable(true)
	_, failed = w.Apply(ctx, nil, shared.other)
	shared.other = note()
	shared.other.WithImmutable(true)
	return errors.Join(err, failed)
}

// before an apply it may be read as often as one likes.
func before(ctx context.Context, w *apply.Writer, absent bool) error {
	intent := note()
	if intent.Data == nil {
		intent.WithImmutable(true)
	}
	if absent {
		_, err := w.Apply(ctx, nil, intent)
		return err
	}
	_, err := w.Apply(ctx, nil, intent.WithData(nil))
	return err
}
