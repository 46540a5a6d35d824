/** Owners whose pointers name an address at which something else answers. */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import {
  answersOf,
  greeter,
  legacyServer,
  reasonOf,
  replicas,
} from '../../fixtures/gateways/replica-testbed.ts';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

/** How long an operator is told that a retry takes at most whose owner does not answer, in ms. */
const MOST_MS = 5_000;
const CHUNK = 'x'.repeat(64 * 1024);

/** Writes the chunk for as long as anybody is there to read it. */
function pour(response: ServerResponse, chunk: string): void {
  response.writeHead(200);
  const write = () => {
    if (response.destroyed) return;
    if (response.write(chunk)) setImmediate(write);
    else response.once('drain', write);
  };
  write();
}

// Rule relay-5: Something that is no replica, or sends an unreadable or endless response, is given up within 5 s.
test.each<[string, Answer]>([
  ['never ends a line', (response) => pour(response, CHUNK)],
  ['says nothing', () => {}],
])(
  'a retry is given up soon when what answers at the address of the owner %s',
  { timeout: 90_000 },
  (_, answer) => expectGivenUp(answer),
);

// Rule relay-5.
test.each<[string, Answer]>([
  ['sends empty lines for ever', (response) => pour(response, '\n'.repeat(1_000))],
  [
    'sends a byte now and then',
    (response) => {
      response.writeHead(200);
      const dripping = setInterval(() => response.write('x'), 100);
      response.once('close', () => clearInterval(dripping));
    },
  ],
  ['does not know the call', (response) => void response.writeHead(404).end()],
])(
  'a retry is given up soon when what answers at the address of the owner %s',
  { tags: ['long'], timeout: 90_000 },
  (_, answer) => expectGivenUp(answer),
);

type Answer = (response: ServerResponse) => void;

async function expectGivenUp(answer: Answer): Promise<void> {
  const { effects, tools } = greeter();
  const stranger = createServer((_request, response) => answer(response));
  await new Promise<void>((resolve) => stranger.listen(0, '127.0.0.1', resolve));
  stopAfterTest(async () => {
    stranger.closeAllConnections();
    stranger.close();
  });
  const advertise = `http://127.0.0.1:${(stranger.address() as AddressInfo).port}`;
  const config = { relay: { listen: '127.0.0.1:0', advertise } };
  const legacy = await legacyServer({ tools });
  const [one] = await replicas(legacy, 1, { relay: false, config });
  const [other] = await replicas(legacy, 1);
  const asked = await callTool(one.url, 'greet');
  const began = performance.now();
  const refused = await callTool(other.url, 'greet', answersOf(asked, 'Ada'));
  expect(performance.now() - began).toBeLessThan(MOST_MS);
  // The owner lives, for all that is known here.
  expect(reasonOf(refused)).toBe('coordination_unavailable');
  expect(effects).toEqual([]);
}
