/** A replica that relays a retry and stalls, while its owner goes on giving signs of life. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { expect, test } from 'vitest';
import { OWNER_TIMEOUT_MS } from '../../../src/fleet/relay/liveness.ts';
import { directReplica } from '../../fixtures/direct-replica.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';
import { RETRY } from '../../fixtures/clients/edge-request.ts';

const REQUEST = { ...RETRY, progressToken: 'token' };

/** An owner in another process, which does not stall with this one. */
async function ownerElsewhere() {
  const child = fork(new URL('../../fixtures/gateways/relay-owner-process.ts', import.meta.url));
  stopAfterTest(async () => void child.kill());
  const [address] = (await once(child, 'message')) as [string];
  const said: unknown[] = [];
  child.on('message', (message) => said.push(message));
  return { owner: { id: 'owner', instance: 'owner', address }, child, said };
}

/** Nothing runs in this process for so long. */
function stall(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

test('a replica that stalled reads what came meanwhile before it counts an owner as dead', async () => {
  const { owner, child, said } = await ownerElsewhere();
  const requester = await directReplica('requester');
  stopAfterTest(requester.stop);
  const notified = Promise.withResolvers<void>();
  const relayed = requester.relay.for('route').relay(owner, REQUEST, {
    closed: new AbortController().signal,
    backlog: null,
    // Here what came from the owner is being read: the next that the process does is look at its timers.
    notify: () => {
      stall(OWNER_TIMEOUT_MS + 500);
      notified.resolve();
    },
  });
  await notified.promise;
  child.send('answer');
  expect(await relayed).toMatchObject({ type: 'replied' });
  expect(said).toEqual([]);
});
