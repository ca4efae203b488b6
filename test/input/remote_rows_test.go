package input

// remoteProxy is an MCPRemoteProxy.
func remoteProxy(spec string) string {
	return whole(version, "MCPRemoteProxy", "{name: far}", "spec: "+spec)
}

const (
	headerWords = "the proxy or the client sets this header: remove it; credentials go into Authorization or a header " +
		"of their own, for example X-Api-Key"
	urlWords = "url must hold no user, query or fragment, and its path only letters, digits and . _ ~ / -: write for " +
		"example https://mcp.example.com/mcp, and credentials into headers"
)

var remoteRows = []subject{
	{"MCPRemoteProxy", []row{
		{mistake: "no url", whole: remoteProxy("{path: /mcp}"), field: "spec.url", says: "Required value"},
		{
			mistake: "a host without scheme", whole: remoteProxy("{url: mcp.example.com, allowHTTP: true}"), field: "spec.url",
			says: "Invalid value: \"mcp.example.com\": url must be an absolute URL: write for example " +
				"https://mcp.example.com/mcp",
		},
		{
			mistake: "http", whole: remoteProxy("{url: 'http://mcp.example.com/mcp'}"), field: "spec",
			says: "Invalid value: url must begin with https://: write https://, or set allowHTTP to true if calls and headers " +
				"may cross the network unencrypted",
		},
		{
			mistake: "a password in the url", whole: remoteProxy("{url: 'https://me:secret@mcp.example.com/mcp'}"),
			field: "spec.url", says: "Invalid value: \"https://me:secret@mcp.example.com/mcp\": " + urlWords,
		},
		{
			mistake: "a key in the query", whole: remoteProxy("{url: 'https://mcp.example.com/mcp?key=a'}"), field: "spec.url",
			says: "Invalid value: \"https://mcp.example.com/mcp?key=a\": " + urlWords,
		},
		{
			mistake: "certificates for http",
			whole:   remoteProxy("{url: 'http://mcp.example.com/mcp', allowHTTP: true, caBundleRef: {name: a}}"), field: "spec",
			says: "Invalid value: caBundleRef is for a url that begins with https://: write https://, or remove caBundleRef",
		},
		{
			mistake: "sse at the port between proxies",
			whole:   remoteProxy("{url: 'https://mcp.example.com/sse', transport: sse, proxy: {port: 9442}}"), field: "spec",
			says: "Invalid value: port 9442 is where proxies in front of a server of transport sse call each other: choose " +
				"another port in proxy.port",
		},
		{
			mistake: "a host for a server elsewhere",
			whole:   remoteProxy("{url: 'https://mcp.example.com/mcp', proxy: {hostHeader: Client}}"), field: "spec",
			says: "Invalid value: a server elsewhere sees its own host, that of url: remove proxy.hostHeader",
		},
		{
			mistake: "stdio", whole: remoteProxy("{url: 'https://mcp.example.com/mcp', transport: stdio}"),
			field: "spec.transport", says: "Unsupported value: \"stdio\": supported values: \"streamable-http\", \"sse\"",
		},
		{
			mistake: "an address in place of a network",
			whole:   remoteProxy("{url: 'https://mcp.example.com/mcp', allowedNetworks: [10.1.2.3]}"),
			field:   "spec.allowedNetworks",
			says: "Invalid value: allowedNetworks must be CIDRs without host bits: write for example 10.0.0.0/8 or fd00::/8, " +
				"and 10.1.2.3/32 for one address",
		},
		{
			mistake: "a network with host bits",
			whole:   remoteProxy("{url: 'https://mcp.example.com/mcp', allowedNetworks: [10.1.2.3/8]}"),
			field:   "spec.allowedNetworks",
			says: "Invalid value: allowedNetworks must be CIDRs without host bits: write for example 10.0.0.0/8 or fd00::/8, " +
				"and 10.1.2.3/32 for one address",
		},
		{
			mistake: "a header without a value",
			whole:   remoteProxy("{url: 'https://mcp.example.com/mcp', headers: [{name: Authorization}]}"),
			field:   "spec.headers[0]", says: "Invalid value: a header has either value or valueFrom: write one of them",
		},
		{
			mistake: "a header with two values",
			whole: remoteProxy("{url: 'https://mcp.example.com/mcp', headers: [{name: Authorization, value: a, valueFrom: " +
				"{secretKeyRef: {name: a, key: b}}}]}"), field: "spec.headers[0]",
			says: "Invalid value: a header has either value or valueFrom: write one of them",
		},
		{
			mistake: "a header of the protocol",
			whole:   remoteProxy("{url: 'https://mcp.example.com/mcp', headers: [{name: Mcp-Session-Id, value: a}]}"),
			field:   "spec.headers[0].name", says: "Invalid value: \"Mcp-Session-Id\": " + headerWords,
		},
		{
			mistake: "the Host header", whole: remoteProxy(
				"{url: 'https://mcp.example.com/mcp', headers: [{name: host, value: a}]}"), field: "spec.headers[0].name",
			says: "Invalid value: \"host\": " + headerWords,
		},
		{
			mistake: "a header twice", whole: remoteProxy(
				"{url: 'https://mcp.example.com/mcp', headers: [{name: X-Team, value: a}, {name: x-team, value: b}]}"),
			field: "spec.headers", says: "Invalid value: two headers have one name: names of headers differ in more than " +
				"upper and lower case; keep one of them",
		},
		{
			mistake: "a line break in a value",
			whole:   remoteProxy("{url: 'https://mcp.example.com/mcp', headers: [{name: X-Team, value: \"a\\nb\"}]}"),
			field:   "spec.headers[0].value",
			says: "Invalid value: \"a\\nb\": the value of a header holds only visible ASCII characters, with spaces between " +
				"them: remove what is not",
		},
		{
			mistake: "a day without progress",
			whole:   remoteProxy("{url: 'https://mcp.example.com/mcp', progressDeadlineSeconds: 86400}"),
			field:   "spec.progressDeadlineSeconds", says: "Invalid value: 86400: write how many seconds may pass, 1 to 3600",
		},
		{
			mistake: "a word as restart", whole: remoteProxy("{url: 'https://mcp.example.com/mcp', restartedAt: now}"),
			field: "spec.restartedAt", says: "Invalid value: \"now\": spec.restartedAt in body must be of type date-time: " +
				"\"now\"",
		},
		{
			mistake: "policies twice", whole: remoteProxy(
				"{url: 'https://mcp.example.com/mcp', authzConfigRef: {name: a}, authzConfig: {policies: [{name: a, policy: b}]}}"),
			field: "spec", says: "Invalid value: authzConfig and authzConfigRef exclude each other: keep one of them",
		},
	}},
}
