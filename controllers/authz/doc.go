// Package authz reads Cedar policies (https://docs.cedarpolicy.com) over the calls of MCP. The operator uses it to tell
// what is wrong with a policy, the runner to decide. It is pure.
//
// The vocabulary:
//
//   - principal: Client::"SUBJECT", with the claims of the token as claim_NAME, in
//     Group::"NAME" for each of its groups
//   - action: Action::"call_tool", "get_prompt", "read_resource", "list_tools",
//     "list_prompts", "list_resources"
//   - resource: Tool::"NAME", Prompt::"NAME", Resource::"URI" with name, uri,
//     operation, feature and the call's arguments as arg_NAME; of a list
//     FeatureType::"tool", "prompt" or "resource"
//   - context: claim_NAME and arg_NAME once more
//
// Read Parse and Policies.Decide first.
package authz
