package apply

import (
	"fmt"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Impersonate makes the applier write as the contract's identities, which are ServiceAccounts in namespace, instead
// of as the client of New. The process that config belongs to needs the right to impersonate them
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation). The clients share
// config's transport and its RateLimiter. Call it before the first Apply; it returns an error if config is unusable.
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

func (a *Applier) as(identity string) client.Client {
	if c, ok := a.clients[identity]; ok {
		return c
	}
	return a.client
}
