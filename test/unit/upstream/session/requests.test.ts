import { expect, test } from 'vitest';
import { upstreamRequestId } from '../../../../src/protocol/ids.ts';
import type { JsonObject } from '../../../../src/protocol/json.ts';
import { SessionRequests } from '../../../../src/upstream/session/requests.ts';
import { ClientLeft, UpstreamFailure } from '../../../../src/model/upstream-failure.ts';
import { ManualClock } from '../../../fixtures/manual-clock.ts';

const TIMEOUT_MS = 60_000;

/** A server that takes everything and answers nothing. */
function silentServer() {
  const clock = new ManualClock();
  const sent: string[] = [];
  const reasons: unknown[] = [];
  const transport = {
    request: ({ method }: { readonly method: string }) => void sent.push(method),
    notify: async (method: string, params: JsonObject) => {
      sent.push(method);
      reasons.push(params['reason']);
    },
    abandon: () => {},
  };
  return { clock, sent, reasons, requests: new SessionRequests(transport, TIMEOUT_MS, clock) };
}

const LIST = { id: upstreamRequestId(1), method: 'tools/list', params: {} };

test('a request that nobody waits for is not sent', async () => {
  const { clock, sent, requests } = silentServer();
  await expect(requests.send(LIST, {}, AbortSignal.abort())).rejects.toThrow(ClientLeft);
  expect(sent).toEqual([]);
  expect(clock.pending).toBe(0);
});

test('a request is cancelled at once when its client leaves, and that is not the fault of the server', async () => {
  const { clock, sent, reasons, requests } = silentServer();
  const leaving = new AbortController();
  const answer = requests.send(LIST, {}, leaving.signal);
  leaving.abort();
  await expect(answer).rejects.toThrow(ClientLeft);
  expect(sent).toEqual(['tools/list', 'notifications/cancelled']);
  expect(reasons).toEqual(['the client left before the reply']);
  expect(clock.pending).toBe(0);
});

test('a request is cancelled when its time is over, and that is the fault of the server', async () => {
  const { clock, sent, reasons, requests } = silentServer();
  const answer = requests.send(LIST, {});
  clock.advance(TIMEOUT_MS);
  expect(await answer).toBeInstanceOf(UpstreamFailure);
  expect(sent).toEqual(['tools/list', 'notifications/cancelled']);
  expect(reasons).toEqual(['no reply within 60000 ms']);
});
