// Connects as a client of the TypeScript SDK, calls the tool "say", and prints what its caller sees.
//
//   node ask.mjs v1|v2 URL TOKEN BYTES
const [, , sdk, url, token, bytes] = process.argv;
const { Client, Http, options } = sdk === 'v1'
	? {
		Client: (await import('@modelcontextprotocol/sdk/client/index.js')).Client,
		Http: (await import('@modelcontextprotocol/sdk/client/streamableHttp.js')).StreamableHTTPClientTransport,
		options: {},
	}
	: await import('@modelcontextprotocol/client').then(m => ({
		Client: m.Client, Http: m.StreamableHTTPClientTransport, options: { versionNegotiation: { mode: 'auto' } },
	}));
const client = new Client({ name: 'ask', version: '1' }, { capabilities: {}, ...options });
const requestInit = token ? { headers: { Authorization: `Bearer ${token}` } } : {};
let said;
try {
	await client.connect(new Http(new URL(url), { requestInit }));
	said = JSON.stringify(await client.callTool({ name: 'say', arguments: { words: 'a'.repeat(Number(bytes)) } }));
} catch (failed) {
	said = `${failed.constructor.name}${failed.code === undefined ? '' : ` ${failed.code}`}: ${failed.message}`;
}
await new Promise(written => process.stdout.write(said, written));
process.exit(0);
