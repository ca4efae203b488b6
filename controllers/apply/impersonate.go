package apply

import (
	"fmt"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Impersonate has the applier write what the contract gives to identities as
// the ServiceAccounts of those names in namespace, instead of as whoever c of
// New is. config is that of the process, which must have the right to
// impersonate them
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation).
// The connections share config's transport, and its RateLimiter where it has
// one. It is to be called before the first Apply, and returns an error if config
// cannot be used.
func (a *Applier) Impersonate(config *rest.Config, namespace string, identities ...string) error {
	for _, identity := range identities {
		as := rest.CopyConfig(config)
		as.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":" + identity}
		c, err := client.New(as, client.Options{Scheme: a.client.Scheme(), Mapper: a.client.RESTMapper()})
		if err != nil {
			return fmt.Errorf("connecting as %s: %w", as.Impersonate.UserName, err)
		}
		a.clients[identity] = c
	}
	return nil
}

// as is the client that writes for an identity of the contract.
func (a *Applier) as(identity string) client.Client {
	if c, ok := a.clients[identity]; ok {
		return c
	}
	return a.client
}
