// Logs in to an MCP server as a client of the TypeScript SDK does, and calls a tool.
//
//   node client.mjs v1|v2 URL USER TOOL
//
// It prints what the tool answers, or ends with 1 and what was refused. NODE_EXTRA_CA_CERTS names the provider's CA.
const [, , sdk, url, user, tool] = process.argv;

// Signs in at the provider's pages as a person with a browser does, and returns where they lead in the end.
async function browse(page, redirect) {
	const cookies = new Map();
	const visit = async (url, form) => {
		const response = await fetch(url, {
			redirect: 'manual',
			method: form ? 'POST' : 'GET',
			body: form && new URLSearchParams(form),
			headers: { cookie: [...cookies].map(pair => pair.join('=')).join('; ') },
		});
		for (const line of response.headers.getSetCookie()) {
			const [, name, value] = line.match(/^([^=]+)=([^;]*)/);
			cookies.set(name, value);
		}
		return response;
	};
	for (let step = 0, form; step < 20; step++) {
		const response = await visit(page, form);
		form = undefined;
		const next = response.headers.get('location');
		if (next) {
			page = new URL(next, page).href;
			if (page.startsWith(redirect)) return new URL(page);
			continue;
		}
		const text = await response.text();
		const action = text.match(/<form[^>]* action="([^"]+)"/);
		if (!action) throw new Error(`the provider's page has no form: HTTP ${response.status} ${text.slice(0, 500)}`);
		page = new URL(action[1], page).href;
		form = { prompt: /name="login"/.test(text) ? 'login' : 'consent', login: user, password: 'any' };
	}
	throw new Error('the provider asks for ever');
}

const redirectUrl = 'http://127.0.0.1:1/callback';

// What an application gives the SDK: where it keeps things, and how it shows a page.
class Browser {
	redirectUrl = redirectUrl;
	clientMetadata = {
		client_name: 'e2e', redirect_uris: [redirectUrl], grant_types: ['authorization_code', 'refresh_token'],
		response_types: ['code'], token_endpoint_auth_method: 'none',
	};
	clientInformation() { return this.information; }
	saveClientInformation(information) { this.information = information; }
	tokens() { return this.stored; }
	saveTokens(tokens) { this.stored = tokens; }
	saveCodeVerifier(verifier) { this.verifier = verifier; }
	codeVerifier() { return this.verifier; }
	async redirectToAuthorization(page) { this.back = await browse(page.href, redirectUrl); }
}

const { Client, Transport, Unauthorized } = sdk === 'v1'
	? {
		Client: (await import('@modelcontextprotocol/sdk/client/index.js')).Client,
		Transport: (await import('@modelcontextprotocol/sdk/client/streamableHttp.js')).StreamableHTTPClientTransport,
		Unauthorized: (await import('@modelcontextprotocol/sdk/client/auth.js')).UnauthorizedError,
	}
	: await import('@modelcontextprotocol/client').then(m => ({
		Client: m.Client, Transport: m.StreamableHTTPClientTransport, Unauthorized: m.UnauthorizedError,
	}));

const authProvider = new Browser();
const connect = async () => {
	const client = new Client({ name: 'e2e', version: '1' });
	const transport = new Transport(new URL(url), { authProvider });
	try {
		await client.connect(transport);
	} catch (failed) {
		failed.transport = transport;
		throw failed;
	}
	return client;
};

const client = await connect().catch(async failed => {
	if (!(failed instanceof Unauthorized)) throw failed;
	await failed.transport.finishAuth(sdk === 'v1' ? authProvider.back.searchParams.get('code') : authProvider.back.searchParams);
	return connect();
});
try {
	const answer = await client.callTool({ name: tool, arguments: {} });
	if (answer.isError) throw new Error(answer.content[0].text);
	console.log(JSON.stringify(answer.content));
} catch (refused) {
	console.log(`refused: ${refused.message}`);
	process.exitCode = 1;
} finally {
	await client.close();
}
