package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/freehold-dev/freehold/apis/contract"
)

// oldestKubernetes is the oldest release that Freehold is tested on (docs/versions.md).
const oldestKubernetes = "1.34"

// named is how many objects a check names.
const named = 3

// installation checks what Freehold needs to run.
func (c *cli) installation(ctx context.Context) *checks {
	list := &checks{}
	c.checkVersion(list)
	c.checkKinds(list)
	deployments, everywhere, err := c.operatorDeployments()
	if err != nil {
		list.add("operator", unknown, err.Error())
	}
	for _, u := range deployments {
		var d appsv1.Deployment
		if err := decode(u, &d); err != nil {
			list.add("operator", unknown, err.Error())
			continue
		}
		c.checkOperator(ctx, list, &d, c.operator(&d))
		c.checkRights(ctx, list, &d)
		c.checkMetrics(ctx, list, &d)
	}
	switch {
	case len(deployments) > 0 || err != nil:
	case everywhere:
		list.add("operator", failed, "no operator of Freehold is found: install one with its chart")
	default:
		list.add("operator", unknown, "you may not list Deployments of all namespaces: name the operator's with -n")
	}
	c.checkPolicies(ctx, list)
	c.checkImages(list)
	list.add("network", unknown, "not measured: kubectl freehold check NAME --network runs a pod that tries to reach a "+
		"server past its proxy")
	return list
}

func (c *cli) checkVersion(list *checks) {
	client, err := c.flags.ToDiscoveryClient()
	if err != nil {
		list.add("kubernetes", failed, err.Error())
		return
	}
	server, err := client.ServerVersion()
	if err != nil {
		list.add("kubernetes", failed, err.Error())
		return
	}
	runs, err := utilversion.ParseGeneric(server.GitVersion)
	switch {
	case err != nil:
		list.add("kubernetes", unknown, fmt.Sprintf("%q is no version: %v", server.GitVersion, err))
	case runs.LessThan(utilversion.MustParseGeneric(oldestKubernetes)):
		list.add("kubernetes", failed, fmt.Sprintf("%s: Freehold needs %s or later", server.GitVersion, oldestKubernetes))
	default:
		list.add("kubernetes", passed, server.GitVersion)
	}
}

func (c *cli) checkKinds(list *checks) {
	var lacks []string
	for _, kind := range contract.Kinds() {
		if !c.serves(kind) {
			lacks = append(lacks, kind.Kind)
		}
	}
	if len(lacks) > 0 {
		list.add("crds", failed, fmt.Sprintf("the API server does not serve %s: apply the CRDs of the operator's release",
			strings.Join(lacks, ", ")))
		return
	}
	list.add("crds", passed, "all kinds are served")
}

// checkOperator says whether an operator runs and leads, and if not why, also where its ReplicaSet makes no pod.
func (c *cli) checkOperator(ctx context.Context, list *checks, d *appsv1.Deployment, o operatorStatus) {
	name, why := d.Namespace+"/"+d.Name, ""
	for _, condition := range d.Status.Conditions {
		if condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue {
			why = condition.Message
		}
	}
	if why == "" && o.Ready < o.Replicas {
		pods, err := c.podsOf(ctx, d)
		if err != nil {
			why = err.Error()
		}
		for _, pod := range pods {
			if !takesCalls(&pod) {
				why = fmt.Sprintf("pod %s: %s", pod.Name, whyWaits(&pod))
			}
		}
	}
	leads := o.leader(c.now())
	switch {
	case o.Replicas == 0:
		list.add("operator", failed, name+" has no replicas: scale it up")
	case o.Ready == 0:
		list.add("operator", failed, name+" has no ready pod: "+why)
	case strings.HasPrefix(leads, "nobody"):
		list.add("operator", failed, fmt.Sprintf("%s: nobody holds the Lease %s (%s): see its logs", name, contract.LeaseName,
			leads))
	case o.Ready < o.Replicas:
		list.add("operator", warned, fmt.Sprintf("%s has %d of %d ready pods: %s", name, o.Ready, o.Replicas, why))
	case strings.HasPrefix(version, "v") && strings.HasPrefix(o.Version, "v") && version != o.Version:
		list.add("operator", warned, fmt.Sprintf("%s is %s, and this command %s: use the one of its release", name, o.Version,
			version))
	default:
		list.add("operator", passed, fmt.Sprintf("%s, %s, %d of %d pods ready, led by %s", name, o.Version, o.Ready,
			o.Replicas, leads))
	}
}

// checkMetrics asks an operator's pod for its metrics, without a token. Who is refused has reached them.
func (c *cli) checkMetrics(ctx context.Context, list *checks, d *appsv1.Deployment) {
	port, secure := int32(0), false
	for _, container := range d.Spec.Template.Spec.Containers {
		secure = secure || slices.Contains(container.Args, "--metrics-secure")
		for _, p := range container.Ports {
			if p.Name == "metrics" {
				port = p.ContainerPort
			}
		}
	}
	if port == 0 {
		list.add("metrics", warned, "the operator serves none: set the chart's metrics.port")
		return
	}
	pods, err := c.podsOf(ctx, d)
	if err != nil {
		list.add("metrics", unknown, err.Error())
		return
	}
	i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return takesCalls(&p) })
	if i < 0 {
		list.add("metrics", unknown, "no pod of the operator is ready")
		return
	}
	to, err := c.tunnelToPod(&pods[i], port)
	if err != nil {
		list.add("metrics", unknown, err.Error())
		return
	}
	defer to.end()
	result, message := metricsAt(ctx, to.address, secure)
	list.add("metrics", result, fmt.Sprintf("port %d of pod %s: %s", port, to.pod, message))
}

func (c *cli) podsOf(ctx context.Context, d *appsv1.Deployment) ([]corev1.Pod, error) {
	return c.pods(ctx, d.Namespace, metav1.FormatLabelSelector(d.Spec.Selector))
}

func (c *cli) pods(ctx context.Context, namespace, selector string) ([]corev1.Pod, error) {
	_, client, err := c.clientset()
	if err != nil {
		return nil, err
	}
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	return pods.Items, nil
}

func (c *cli) tunnelToPod(pod *corev1.Pod, port int32) (*tunnel, error) {
	config, client, err := c.clientset()
	if err != nil {
		return nil, err
	}
	return openTunnel(config, client, pod.Namespace, pod.Name, int(port))
}

func metricsAt(ctx context.Context, address string, secure bool) (result, message string) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	scheme := "http"
	if secure {
		scheme = "https"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+address+"/metrics", nil)
	if err != nil {
		return failed, err.Error()
	}
	// The tunnel leads to the pod, whose certificate names the Service. Nothing secret is sent.
	through := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // see above
	defer through.CloseIdleConnections()
	answer, err := through.RoundTrip(request)
	if err != nil {
		return failed, err.Error()
	}
	answer.Body.Close() //nolint:errcheck // the status is all
	switch answer.StatusCode {
	case http.StatusOK:
		return passed, "served to everybody who reaches the pod"
	case http.StatusUnauthorized, http.StatusForbidden:
		return passed, "served to callers with a token that may read them (metrics.readers)"
	}
	return failed, answer.Status
}

// checkPolicies looks for the admission policies about Freehold's kinds, and for bindings that enforce them.
func (c *cli) checkPolicies(ctx context.Context, list *checks) {
	_, client, err := c.clientset()
	if err != nil {
		list.add("policies", unknown, err.Error())
		return
	}
	policies, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(ctx, metav1.ListOptions{})
	if err != nil {
		list.add("policies", unknown, err.Error())
		return
	}
	bindings, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		list.add("policies", unknown, err.Error())
		return
	}
	denies := map[string]bool{}
	for _, b := range bindings.Items {
		denies[b.Spec.PolicyName] = denies[b.Spec.PolicyName] ||
			slices.Contains(b.Spec.ValidationActions, admissionregistrationv1.Deny)
	}
	var holds int
	var loose, wrong []string
	for _, p := range policies.Items {
		if !strings.HasPrefix(p.Name, "freehold-") || p.Spec.MatchConstraints == nil {
			continue
		}
		switch {
		case p.Status.TypeChecking != nil && len(p.Status.TypeChecking.ExpressionWarnings) > 0:
			wrong = append(wrong, p.Name+": "+p.Status.TypeChecking.ExpressionWarnings[0].Warning)
		case denies[p.Name]:
			holds++
		default:
			loose = append(loose, p.Name)
		}
	}
	switch {
	case len(wrong) > 0:
		list.add("policies", failed, "the API server cannot check "+some(wrong))
	case len(loose) > 0:
		list.add("policies", warned, "no binding denies by "+some(loose))
	case holds == 0:
		list.add("policies", warned, "none is installed, so only RBAC narrows what Freehold's accounts write: set the "+
			"chart's policy.install")
	default:
		list.add("policies", passed, fmt.Sprintf("%d are enforced", holds))
	}
}

// checkImages looks for pods of servers whose image cannot be pulled.
func (c *cli) checkImages(list *checks) {
	pods, err := c.selected(true, serverLabel, "pods.v1.")
	scope := "all namespaces"
	if apierrors.IsForbidden(err) {
		scope = "this namespace"
		pods, err = c.selected(false, serverLabel, "pods.v1.")
	}
	if err != nil {
		list.add("images", unknown, err.Error())
		return
	}
	var waits []string
	for _, u := range pods {
		var pod corev1.Pod
		if decode(u, &pod) != nil {
			continue
		}
		for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if waiting := status.State.Waiting; waiting != nil && slices.Contains(
				[]string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}, waiting.Reason) {
				waits = append(waits, fmt.Sprintf("%s/%s %s: %s", pod.Namespace, pod.Name, waiting.Reason, waiting.Message))
			}
		}
	}
	if len(waits) > 0 {
		list.add("images", failed, some(waits))
		return
	}
	list.add("images", passed, fmt.Sprintf("%d pods of servers in %s, none waits for its image", len(pods), scope))
}

// some are the first of many.
func some(all []string) string {
	if len(all) <= named {
		return strings.Join(all, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(all[:named], "; "), len(all)-named)
}
