// Looks at all that a server offers, as a client of the TypeScript SDK, and prints it as JSON.
//
//   node look.mjs v1|v2 '{"url": …}|{"events": …}|{"command": […], "env": {…}}' '{"tools": [{"name": …, "arguments": …}], "prompts": […], "resources": […]}'
//
// With "more": true in the plan it can be asked all that clients can be asked, and does what they do beside calls one after the other.
const [, , sdk, target, plan] = process.argv;

const { Client, Http, Events, Stdio, options } = sdk === 'v1'
	? {
		Client: (await import('@modelcontextprotocol/sdk/client/index.js')).Client,
		Http: (await import('@modelcontextprotocol/sdk/client/streamableHttp.js')).StreamableHTTPClientTransport,
		Events: (await import('@modelcontextprotocol/sdk/client/sse.js')).SSEClientTransport,
		Stdio: (await import('@modelcontextprotocol/sdk/client/stdio.js')).StdioClientTransport,
		options: {},
	}
	: {
		...await import('@modelcontextprotocol/client').then(m => ({ Client: m.Client, Http: m.StreamableHTTPClientTransport, Events: m.SSEClientTransport })),
		Stdio: (await import('@modelcontextprotocol/client/stdio')).StdioClientTransport,
		options: { versionNegotiation: { mode: 'auto' } },
	};

const { url, events, command, env } = JSON.parse(target);
const { tools = [], prompts = [], resources = [], more } = JSON.parse(plan);
const client = new Client({ name: 'look', version: '1' }, { capabilities: more ? { roots: {}, sampling: {}, elicitation: { form: {} } } : {}, ...options });
if (more) {
	const types = sdk === 'v1' ? await import('@modelcontextprotocol/sdk/types.js') : undefined;
	for (const [method, schema, answer] of [
		['roots/list', types?.ListRootsRequestSchema, { roots: [{ uri: 'file:///tmp', name: 'tmp' }] }],
		['sampling/createMessage', types?.CreateMessageRequestSchema, { model: 'look', role: 'assistant', content: { type: 'text', text: 'sampled' } }],
		['elicitation/create', types?.ElicitRequestSchema, { action: 'decline' }],
	]) client.setRequestHandler(schema ?? method, () => answer);
}
await client.connect(url ? new Http(new URL(url)) : events ? new Events(new URL(events)) : new Stdio({ command: command[0], args: command.slice(1), env: { ...process.env, ...env }, stderr: 'ignore' }));

// What a call ends in: a result, or what is wrong.
const end = promise => promise.catch(failed => ({ failed: failed.message }));
// All pages of a list; a server need not have it.
const all = async (name, list) => {
	const items = [];
	for (let cursor; ;) {
		const page = await list.call(client, cursor ? { cursor } : undefined);
		items.push(...page[name]);
		if (!(cursor = page.nextCursor)) return items;
	}
};
// A server that needs a service may not be able to list.
const list = more ? end : promise => promise;
const offers = client.getServerCapabilities() ?? {};
const seen = { instructions: client.getInstructions() ?? '', server: client.getServerVersion()?.name };
if (offers.tools) seen.tools = await list(all('tools', client.listTools));
if (offers.prompts) seen.prompts = await list(all('prompts', client.listPrompts));
if (offers.resources) {
	seen.resources = await list(all('resources', client.listResources));
	seen.templates = await list(all('resourceTemplates', client.listResourceTemplates));
}
seen.called = [];
for (const call of tools) seen.called.push(await end(client.callTool(call)));
seen.got = [];
for (const prompt of prompts) seen.got.push(await end(client.getPrompt(prompt)));
seen.read = [];
for (const uri of resources) seen.read.push(await end(client.readResource({ uri })));
if (more) {
	if (sdk === 'v1') seen.ping = await end(client.ping());
	if (offers.logging && sdk === 'v1') seen.level = await end(client.setLoggingLevel('warning'));
	const [call] = tools;
	if (call) {
		seen.together = await Promise.all(Array.from({ length: 10 }, () => end(client.callTool(call))));
		const left = new AbortController();
		const cancelled = client.callTool(call, ...(sdk === 'v1' ? [undefined] : []), { signal: left.signal }).catch(() => {});
		setTimeout(() => left.abort(), 5);
		await cancelled;
		seen.after = await end(client.callTool(call));
	}
}
await new Promise(written => process.stdout.write(JSON.stringify(seen), written)); // exit does not wait for a pipe
await client.close();
process.exit(0);
