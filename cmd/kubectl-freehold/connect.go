package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/cmd/kubectl-freehold/internal/clients"
	"github.com/freehold-dev/freehold/controllers/kinds"
)

// asJSON is the client for programs, and inCluster are clients that need no published URL.
const (
	asJSON    = "json"
	inCluster = "in-cluster"
)

type connecting struct {
	client   string
	clientID string
	forward  bool
}

func (c *cli) connect() *cobra.Command {
	k := connecting{client: "claude-code"}
	cmd := &cobra.Command{
		Use:   "connect (NAME | KIND NAME | KIND/NAME)",
		Short: "Print what connects a client to a server",
		Long: `Print how an MCPServer or an MCPRemoteProxy is reached, and what to run or to paste
so that a client calls it: complete, and without secrets. Where callers need a token it
comes from the variable FREEHOLD_TOKEN, and the command that fills it is printed. Where
they log in, the redirect URIs to register at the provider are printed. A NAME without
a kind is that of an MCPServer. What is printed says with which version of the client
it was run, and when.

A server that is not published has no URL for clients outside the cluster. With
--forward the command opens a port of this machine, the same each time, and carries
calls to a ready pod of the proxy until it is ended; a login needs the published URL.

The exit code is 0 if the server is ready, 1 if it is not, and 2 after an error.`,
		Example: `  # Claude Code
  kubectl freehold connect everything

  # Another client
  kubectl freehold connect everything --client codex

  # A server that is not published, while the command runs
  kubectl freehold connect everything --forward

  # A login with a client that is registered at the provider
  kubectl freehold connect mcprp/search --client-id 0oa1b2c3

  # For a program
  kubectl freehold connect everything --client json`,
		Args: oneWorkload, ValidArgsFunction: c.completeServer,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.connectTo(cmd.Context(), args, k)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&k.client, "client", k.client, "what to connect: "+strings.Join(clientNames(), ", "))
	flags.StringVar(&k.clientID, "client-id", "", "client ID that is registered at the provider for this client")
	flags.BoolVar(&k.forward, "forward", false, "carry calls from a port of this machine to the server's proxy")
	err := cmd.RegisterFlagCompletionFunc("client",
		cobra.FixedCompletions(clientNames(), cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag is registered above
	}
	return cmd
}

func clientNames() []string {
	var names []string
	for _, client := range clients.All {
		names = append(names, client.Name)
	}
	return append(names, asJSON)
}

// reached is a workload as its clients see it.
type reached struct {
	clients.Server
	object *unstructured.Unstructured
	status *v1alpha1.ProxyWorkloadStatus
}

func (c *cli) connectTo(ctx context.Context, args []string, k connecting) error {
	client, known := clients.Named(k.client)
	if !known && k.client != asJSON {
		return fmt.Errorf("unknown client %q: write one of %s", k.client, strings.Join(clientNames(), ", "))
	}
	r, err := c.reached(args)
	if err != nil {
		return err
	}
	port := 0
	if k.forward {
		port = r.port()
	}
	endpoint, err := r.Endpoint(k.clientID, port)
	if err != nil {
		return err
	}
	ready, why := r.ready()
	if ready && !k.forward && k.client != inCluster {
		ready, why = r.published()
	}
	switch {
	case known:
		err = c.printClient(r, client, endpoint, why)
	case ready:
		err = (&output{format: asJSON}).print(c.Out, "Endpoint", &endpoint)
	default:
		fmt.Fprintf(c.ErrOut, "%s\n", safe(why))
	}
	switch {
	case err != nil:
		return err
	case !ready:
		return errWrong
	case k.forward:
		return c.forward(ctx, r)
	}
	return nil
}

// reached reads what the arguments name, and its login.
func (c *cli) reached(args []string) (*reached, error) {
	u, _, err := c.workload(args)
	if err != nil {
		return nil, err
	}
	r, err := reachedOf(u)
	if err != nil {
		return nil, err
	}
	kind, name := r.LoginRef()
	if name == "" {
		return r, nil
	}
	login, err := c.object(kind, name)
	if err != nil {
		return nil, fmt.Errorf("reading whose tokens %s accepts: %w", title(u), err)
	}
	return r, r.AcceptTokensOf(login)
}

func reachedOf(u *unstructured.Unstructured) (*reached, error) {
	r := &reached{object: u}
	r.Namespace, r.Name = u.GetNamespace(), u.GetName()
	if u.GetKind() == contract.MCPRemoteProxy.Kind {
		proxy := &v1alpha1.MCPRemoteProxy{}
		err := decode(u, proxy)
		r.of(proxy)
		return r, err
	}
	server := &v1alpha1.MCPServer{}
	err := decode(u, server)
	r.of(server)
	return r, err
}

func (r *reached) of(object kinds.Object) {
	r.Spec, r.status = object.GetProxySpec(), object.GetProxyStatus()
	r.URL, r.Public = r.status.URL, r.status.PublicURL
}

// ready reports whether calls are answered, and if not why.
func (r *reached) ready() (ready bool, why string) {
	if r.object.GetDeletionTimestamp() != nil {
		return false, title(r.object) + " is being deleted"
	}
	for _, t := range []string{v1alpha1.ConditionSuspended, v1alpha1.ConditionAvailable, v1alpha1.ConditionReady} {
		switch found := meta.FindStatusCondition(r.status.Conditions, t); {
		case found == nil:
		case t == v1alpha1.ConditionSuspended && found.Status == metav1.ConditionTrue:
			return false, fmt.Sprintf("%s is suspended: set spec.suspend to false", title(r.object))
		case t != v1alpha1.ConditionSuspended && found.Status == metav1.ConditionTrue:
			return true, ""
		case t == v1alpha1.ConditionReady:
			return false, fmt.Sprintf("%s is not ready: %s: %s", title(r.object), found.Reason, found.Message)
		}
	}
	return false, title(r.object) + " is not ready: no operator has reported on it yet"
}

// published reports whether nothing keeps clients from the public URL, and if not what. Where the spec names the URL,
// another way may lead there than the HTTPRoute.
func (r *reached) published() (published bool, why string) {
	found := meta.FindStatusCondition(r.status.Conditions, v1alpha1.ConditionPublished)
	if found == nil || found.Status != metav1.ConditionFalse || r.Spec.Proxy != nil && r.Spec.Proxy.PublicURL != "" {
		return true, ""
	}
	return false, fmt.Sprintf("%s is ready, and not published: %s: %s. Until then use --forward.", title(r.object),
		found.Reason, found.Message)
}

// printClient says how a server is, and what connects a client to it.
func (c *cli) printClient(r *reached, client clients.Client, e clients.Endpoint, why string) error {
	if why != "" {
		fmt.Fprintln(c.Out, safe(why))
		return nil
	}
	for _, line := range r.state(client, e) {
		fmt.Fprintln(c.Out, "# "+safe(line))
	}
	for i, text := range []string{client.Text, client.Fails, client.Forget} {
		said, err := client.Says(text, e)
		if err != nil {
			return err
		}
		if i == 0 && e.Account != "" && strings.Contains(said, clients.TokenVariable) {
			said = "export " + clients.TokenVariable + "=$(" + e.Account + ")\n" + said
		}
		part(c.Out, []string{"", "# If it fails: ", "# Forget a login that is out of date: "}[i], said)
	}
	return nil
}

// state are the lines about how a server is reached, before what a client needs.
func (r *reached) state(client clients.Client, e clients.Endpoint) []string {
	lines := []string{fmt.Sprintf("%s is ready, and answers at %s.", title(r.object), e.URL)}
	if e.URL == e.InCluster {
		lines[0] += " This URL is for programs in the cluster: publish it (spec.proxy.publicURL), or use --forward."
	}
	if c := meta.FindStatusCondition(r.status.Conditions, v1alpha1.ConditionPublished); c != nil &&
		c.Status != metav1.ConditionTrue && e.URL == r.Published() {
		lines = append(lines, fmt.Sprintf("Calls may not arrive there: %s: %s.", c.Reason,
			strings.TrimSuffix(c.Message, ".")))
	}
	switch e.Access {
	case clients.Login:
		lines = append(lines, "Callers log in at "+e.Issuer+".")
		if e.ClientID == "" {
			lines = append(lines, "If it registers no clients by itself, register one and name it with --client-id.")
		}
		if len(client.RedirectURIs) > 0 {
			lines = append(lines, "Redirect URIs to register: "+strings.Join(client.RedirectURIs, " "))
		}
	case clients.Token:
		if e.Account == "" {
			lines = append(lines, "A login is for the published URL. Fill "+clients.TokenVariable+
				" with a token for "+r.Audience()+".")
			break
		}
		lines = append(lines, "Callers send a token of a service account, which is good for an hour.")
	case clients.Open:
	}
	about := "by its documentation"
	if client.Tested != "" {
		about = "run on " + client.Tested
	}
	return append(lines, fmt.Sprintf("For %s (%s, %s):", client.Title, client.Version, about))
}

func part(out io.Writer, begin, text string) {
	if begin == "" {
		fmt.Fprintln(out)
	}
	for line := range strings.Lines(text) {
		fmt.Fprintln(out, begin+safe(strings.TrimRight(line, "\n")))
	}
	if begin == "" {
		fmt.Fprintln(out)
	}
}
