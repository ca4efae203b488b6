// An OpenID provider for the tests: anybody may register a client, and logs in as who they say they are.
//
//   ISSUER    its URL, for example https://provider.login.svc:8443
//   TLS       the folder with tls.crt and tls.key
//   OPAQUE    resources whose tokens are opaque, separated by spaces
import { generateKeyPairSync } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { Provider } from 'oidc-provider';

const { ISSUER: issuer, TLS: tls, OPAQUE: opaque = '' } = process.env;
const groups = { alice: ['callers'], bob: [] };

const key = kid => ({
	...generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' }),
	kid, use: 'sig', alg: 'RS256',
});

const provider = new Provider(issuer, {
	jwks: { keys: [key('first')] },
	cookies: { keys: ['only for tests'] },
	scopes: ['openid', 'offline_access', 'tools'],
	findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, groups: groups[id] ?? [] }) }),
	extraTokenClaims: (_, token) => ({ groups: groups[token.accountId] ?? [] }),
	clients: [{
		client_id: 'proxy', client_secret: 'of the proxies', redirect_uris: [], response_types: [], grant_types: [],
	}],
	features: {
		devInteractions: { enabled: true },
		registration: { enabled: true },
		introspection: { enabled: true, allowedPolicy: () => true },
		resourceIndicators: {
			enabled: true,
			getResourceServerInfo: (_, resource) => ({
				scope: 'tools', audience: resource, accessTokenTTL: 600,
				...(opaque.split(' ').includes(resource)
					? { accessTokenFormat: 'opaque' }
					: { accessTokenFormat: 'jwt', jwt: { sign: { alg: 'RS256' } } }),
			}),
		},
	},
	clientAuthMethods: ['client_secret_basic', 'client_secret_post', 'none'],
});

createServer({ cert: readFileSync(`${tls}/tls.crt`), key: readFileSync(`${tls}/tls.key`) }, provider.callback())
	.listen(new URL(issuer).port, () => console.log(`serving ${issuer}`));
