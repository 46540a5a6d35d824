/** Names of the reserved `_meta` members (basic/index, "`_meta`"), and of our own. */

export const META_PREFIX = 'io.modelcontextprotocol/';
/** Under it stands what this gateway itself says to clients. */
export const OWN_META_PREFIX = 'mrtr-gateway/';
export const Meta = {
  protocolVersion: 'io.modelcontextprotocol/protocolVersion',
  clientCapabilities: 'io.modelcontextprotocol/clientCapabilities',
  clientInfo: 'io.modelcontextprotocol/clientInfo',
  logLevel: 'io.modelcontextprotocol/logLevel',
  serverInfo: 'io.modelcontextprotocol/serverInfo',
  subscriptionId: 'io.modelcontextprotocol/subscriptionId',
  relatedTask: 'io.modelcontextprotocol/related-task',
  reason: 'mrtr-gateway/reason',
  mayHaveActed: 'mrtr-gateway/mayHaveActed',
} as const;
