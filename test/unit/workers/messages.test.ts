import { expect, test } from 'vitest';
import { readConfig, writeConfig } from '../../../src/workers/messages.ts';
import { configOf, withRoute } from '../config/problems-of.ts';

test('a worker gets the configuration as the primary has it', () => {
  const config = configOf(`
routes:
  - upstream: { url: "http://127.0.0.1:3001/mcp?key=1", headers: { url: "http://a/" } }
    questions: { keyNames: { url: [one] } }
seal: { keys: [{ kid: a, key: ${'A'.repeat(43)} }] }
redis: { url: "redis://user:secret@redis:6379", mode: cluster, nodes: ["redis-2:6379"] }
relay: { via: redis }
`);
  expect(readConfig(writeConfig(config))).toEqual(config);
});

test('nothing of a configuration with defaults is lost', () => {
  const config = configOf(withRoute());
  expect(readConfig(writeConfig(config))).toEqual(config);
});
