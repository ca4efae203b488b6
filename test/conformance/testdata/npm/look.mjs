// Looks at all that a server offers, as a client of the TypeScript SDK, and prints it as JSON.
//
//   node look.mjs v1|v2 '{"url": …}|{"events": …}|{"command": […], "env": {…}}' '{"tools": [{"name": …, "arguments": …}], "prompts": […], "resources": […]}'
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
const { tools = [], prompts = [], resources = [] } = JSON.parse(plan);
const client = new Client({ name: 'look', version: '1' }, { capabilities: {}, ...options });
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
const offers = client.getServerCapabilities() ?? {};
const seen = { instructions: client.getInstructions() ?? '', server: client.getServerVersion()?.name };
if (offers.tools) seen.tools = await all('tools', client.listTools);
if (offers.prompts) seen.prompts = await all('prompts', client.listPrompts);
if (offers.resources) {
	seen.resources = await all('resources', client.listResources);
	seen.templates = await all('resourceTemplates', client.listResourceTemplates);
}
seen.called = [];
for (const call of tools) seen.called.push(await end(client.callTool(call)));
seen.got = [];
for (const prompt of prompts) seen.got.push(await end(client.getPrompt(prompt)));
seen.read = [];
for (const uri of resources) seen.read.push(await end(client.readResource({ uri })));
console.log(JSON.stringify(seen));
await client.close();
process.exit(0);
