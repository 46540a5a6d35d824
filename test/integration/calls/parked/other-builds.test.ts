/** Calls whose `requestState` another build has sealed. */
import { expect, test } from 'vitest';
import { CARRIED, openBytes, sealBytes } from '../../../../src/seal/envelope.ts';
import { accept, callTool } from '../../../fixtures/clients/modern-client.ts';
import { AUDIENCE, TEST_KEY, testRing, WRITTEN_AT_MS } from '../../../fixtures/formats/format.ts';
import { fixture } from '../../../fixtures/formats/formats.ts';
import { scriptedGateway } from '../../../fixtures/gateways/scripted-gateway.ts';
import { ManualClock } from '../../../fixtures/manual-clock.ts';
import { eventStream } from '../../../fixtures/servers/scripted-server.ts';
import { takeViolations } from '../../../fixtures/wire/schema-check.ts';
import { done, textOf } from '../../../fixtures/wire/asked-calls.ts';

const { text } = fixture('request-state', 1).samples['to a call that asked']!;

/** A gateway with the key of the fixtures, before a server that keeps the stream of the call. */
function laterBuild() {
  let stream: ReturnType<typeof eventStream> | undefined;
  return scriptedGateway(
    () => {
      throw new Error('no new call is expected');
    },
    {
      clock: new ManualClock(WRITTEN_AT_MS + 60_000),
      seal: {
        audience: AUDIENCE,
        keys: [{ kid: TEST_KEY.kid, key: TEST_KEY.secret.toString('base64url') }],
      },
    },
    {
      onGet: ({ headers }, response) => {
        if (headers['last-event-id'] === 'event-1') stream = eventStream(response);
        else response.writeHead(405).end();
      },
      onResponse: ({ body }, response) => {
        response.writeHead(202).end();
        if (body.id === 'one') stream?.send(done(7), 'event-2');
      },
    },
  );
}

/** The server asked in the time of another build, and so does not know its own question here. */
function expectOnlyAnswer(): void {
  expect(takeViolations()).toEqual([expect.stringContaining('a result for no request')]);
}

const retry = (url: string, requestState: string) =>
  callTool(url, 'ask', {
    requestState,
    inputResponses: { 'elicitation-1': accept({ name: 'Ada' }) },
  });

// Rule upgrade-1.
test('a call that an earlier build parked is finished', async () => {
  const { url, gateway } = await laterBuild();
  expect(textOf(await retry(url, text))).toBe('done');
  expect(gateway.log.named('call.resumed')).toMatchObject([{ recoveredBy: 'reattach' }]);
  expectOnlyAnswer();
});

// Rule upgrade-4: A `requestState` of a later build gets 200 with `coordination_unavailable` and `data.retryable`.
test('a call that a later build parked is left to that build', async () => {
  const { url, gateway, server } = await laterBuild();
  const content = openBytes(testRing('seal'), CARRIED, text, 10_000).toString();
  const later = sealBytes(
    testRing('seal'),
    CARRIED,
    Buffer.from(content.replace('"v":1', '"v":4')),
  );
  const refused = await retry(url, later);
  expect(refused.status).toBe(200);
  expect(refused.response.error).toMatchObject({
    message: expect.stringContaining('retry with the same requestState'),
    data: { reason: 'coordination_unavailable', retryable: true, mayHaveActed: 'yes' },
  });
  expect(gateway.log.named('pointer.refused')).toMatchObject([{ reason: 'version' }]);
  expect(server.received.filter(({ body }) => body?.id === 'one')).toEqual([]);
  // It changes nothing for those of this build.
  expect(textOf(await retry(url, text))).toBe('done');
  expectOnlyAnswer();
});
