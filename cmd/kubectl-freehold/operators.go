package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/freehold-dev/freehold/apis/contract"
)

type operatorStatus struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Ready     int32  `json:"ready"`
	Replicas  int32  `json:"replicas"`
	// Version is the tag or digest of the operator's image, Runner that of the proxies'.
	Version string `json:"version"`
	Runner  string `json:"runner"`
	// Leader holds the Lease; Renewed is its last renewal.
	Leader  string                `json:"leader,omitempty"`
	Renewed string                `json:"renewed,omitempty"`
	lease   *coordinationv1.Lease `json:"-"`
}

// operatorSelector finds the operator's Deployment by the chart's label.
const operatorSelector = "app.kubernetes.io/component=operator"

// operatorDeployments are the Deployments of Freehold's operators, without other products that use the label. Without
// the right to list all namespaces it reads only the user's, and everywhere is false.
func (c *cli) operatorDeployments() (found []*unstructured.Unstructured, everywhere bool, err error) {
	deployments, err := c.selected(true, operatorSelector, "deployments.v1.apps")
	everywhere = err == nil
	if err != nil {
		if deployments, err = c.selected(false, operatorSelector, "deployments.v1.apps"); err != nil {
			return nil, false, err
		}
	}
	var unread error
	ours := slices.DeleteFunc(deployments, func(u *unstructured.Unstructured) bool {
		var d appsv1.Deployment
		if err := decode(u, &d); err != nil {
			unread = errors.Join(unread, err)
			return true
		}
		_, ours := operatorOf(&d)
		return !ours
	})
	return ours, everywhere, unread
}

// operators are the installations in the cluster, nil if the user may not see them.
func (c *cli) operators() ([]operatorStatus, error) {
	deployments, everywhere, unread := c.operatorDeployments()
	if !everywhere && len(deployments) == 0 {
		return nil, unread
	}
	found := []operatorStatus{}
	for _, u := range deployments {
		var d appsv1.Deployment
		if err := decode(u, &d); err != nil {
			unread = errors.Join(unread, err)
			continue
		}
		found = append(found, c.operator(&d))
	}
	return found, unread
}

// operator is one installation, with who leads.
func (c *cli) operator(d *appsv1.Deployment) operatorStatus {
	o, _ := operatorOf(d)
	leases, err := all(resource.NewBuilder(c.flags).Unstructured().
		NamespaceParam(o.Namespace).ResourceTypeOrNameArgs(false, "leases.v1.coordination.k8s.io",
		contract.LeaseName).Flatten().Do())
	if err == nil && len(leases) == 1 {
		err = o.holds(leases[0])
	}
	if err != nil {
		o.Leader = "unknown"
	}
	return o
}

// runnerFlag is a flag that only our operator has.
const runnerFlag = "--runner-image="

// operatorOf reads a Deployment, and reports whether it is an operator of ours.
func operatorOf(d *appsv1.Deployment) (operatorStatus, bool) {
	o := operatorStatus{Namespace: d.Namespace, Name: d.Name, Ready: d.Status.ReadyReplicas, Replicas: 1}
	if d.Spec.Replicas != nil {
		o.Replicas = *d.Spec.Replicas
	}
	for _, container := range d.Spec.Template.Spec.Containers {
		for _, arg := range container.Args {
			if image, is := strings.CutPrefix(arg, runnerFlag); is {
				o.Version, o.Runner = tagOf(container.Image), tagOf(image)
				return o, true
			}
		}
	}
	return o, false
}

func tagOf(image string) string {
	if _, digest, pinned := strings.Cut(image, "@"); pinned {
		return digest[:min(len(digest), len("sha256:")+12)]
	}
	name := image[strings.LastIndex(image, "/")+1:]
	if _, tag, tagged := strings.Cut(name, ":"); tagged {
		return tag
	}
	return "latest"
}

func (o *operatorStatus) holds(u *unstructured.Unstructured) error {
	o.lease = &coordinationv1.Lease{}
	if err := decode(u, o.lease); err != nil {
		return err
	}
	if holder := o.lease.Spec.HolderIdentity; holder != nil {
		o.Leader, _, _ = strings.Cut(*holder, "_")
	}
	if renewed := o.lease.Spec.RenewTime; renewed != nil {
		o.Renewed = renewed.UTC().Format(time.RFC3339)
	}
	return nil
}

func (o operatorStatus) leader(now time.Time) string {
	if o.lease == nil {
		return o.Leader
	}
	renewed, lasts := o.lease.Spec.RenewTime, o.lease.Spec.LeaseDurationSeconds
	switch {
	case o.Leader == "" || renewed == nil || lasts == nil:
		return "nobody"
	case now.Sub(renewed.Time) > time.Duration(*lasts)*time.Second:
		return fmt.Sprintf("nobody; %s stopped %s ago", o.Leader, duration.HumanDuration(now.Sub(renewed.Time)))
	}
	return o.Leader
}
