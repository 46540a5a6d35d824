/** What a caller must not get: of another caller, with a retry that is wrong, or without reading. */
import http from 'node:http';
import type { DialectName } from '../../../../src/dialects/dialects.ts';
import { simulation } from '../../engine/simulation.ts';
import { OUTCOME_WITHIN_MS } from '../checker.ts';
import { network } from '../../network/tcp-model.ts';
import { headersOf, messageOf, type ModernRequest, send } from '../client.ts';
import type { Surroundings } from '../caller.ts';
import { WRONG, wrongToken } from '../tokens.ts';

/** Another caller, who knows what is on the wire. */
export const STRANGER = 'mallory';

/** Law 4: a pointer is of use to its caller only. Another caller sends the retry of a call. */
export async function forge(
  call: string,
  params: ModernRequest['params'],
  { pick, checker }: Surroundings,
  dialect: DialectName | null,
): Promise<void> {
  const request = { caller: STRANGER, method: 'tools/call', params, dialect };
  const outcome = await send(pick(`${call}:forged`).port, request, soon());
  if (outcome.type === 'asks' || outcome.type === 'done') {
    checker.break(4, `a stranger goes on with ${call}`);
  }
}

/** Law 9: a token that is wrong, or over, is of no use, not even to its caller. */
export async function sendWithWrongToken(
  call: string,
  sent: Omit<ModernRequest, 'method'>,
  { pick, checker }: Surroundings,
): Promise<void> {
  for (const wrong of WRONG) {
    const token = wrongToken(sent.caller, wrong);
    const request = { ...sent, token, method: 'tools/call' };
    const { type } = await send(pick(`${call}:${wrong}`).port, request, soon());
    if (type !== 'failed' && type !== 'broken') {
      checker.break(9, `a request of ${call} is served, with a token that is wrong: ${wrong}`);
    }
  }
}

/**
 * Law 4: a pointer is of use for its request only, and its round for the answers that were given first.
 * @param isUsedUp whether the round is, and nobody can have lost that
 */
export async function confuse(
  call: string,
  sent: Omit<ModernRequest, 'method'>,
  isUsedUp: boolean,
  { pick, checker }: Surroundings,
): Promise<void> {
  const { params } = sent;
  const wrong: Record<string, ModernRequest['params']> = {
    arguments: { ...params, arguments: { call: 'another' } },
    tool: { ...params, name: 'another' },
    ...(isUsedUp && { answers: { ...params, inputResponses: { none: { action: 'decline' } } } }),
  };
  for (const [what, changed] of Object.entries(wrong)) {
    const request = { ...sent, method: 'tools/call', params: changed };
    const outcome = await send(pick(`${call}:confused:${what}`).port, request, soon());
    if (outcome.type !== 'asks' && outcome.type !== 'done') continue;
    checker.break(4, `a retry of ${call} with other ${what} is served`);
  }
}

/** Law 9: what a server says to one caller is shown to no other. What it says to everybody may be. */
export async function lookAround(
  call: string,
  caller: string,
  { pick, checker }: Surroundings,
): Promise<void> {
  for (const method of ['server/discover', 'tools/list']) {
    const { port } = pick(`${call}:${method}`);
    const outcome = await send(port, { caller, method, params: {} }, soon());
    if (outcome.type === 'failed' && /not found/i.test(outcome.reason)) {
      checker.break(9, `${caller} is refused ${method}, which the server has`);
    }
    if (outcome.type !== 'done') continue;
    const others = [...outcome.text.matchAll(/caller=(\w+);/g)].map(([, other]) => other);
    const other = others.find((one) => one !== caller && one !== 'nobody');
    if (other === undefined) continue;
    checker.break(9, `${caller} is shown what the server said to ${other}: ${method}`);
  }
}

/** A process looks twelve times a minute whether a client has read, and a tool has to report first. */
const CUT_WITHIN_MS = 75_000;

/** Law 7: who reads nothing is not waited for. */
export async function readNothing(
  call: string,
  sent: ModernRequest,
  { pick, checker }: Surroundings,
): Promise<void> {
  const { name, port } = pick(`${call}:unread`);
  const to = { agent: false, host: '127.0.0.1', port, path: '/mcp', method: 'POST' } as const;
  const request = http.request({ ...to, headers: headersOf(sent) }, (response) => response.pause());
  let from = 0;
  request.on('error', () => {});
  request.on('socket', (socket) => socket.on('connect', () => (from = socket.localPort ?? 0)));
  request.end(JSON.stringify(messageOf(sent)));
  await simulation().sleep(CUT_WITHIN_MS);
  if (network().isHeld(from)) checker.break(7, `${name} waits for the client of ${call}`);
  request.destroy();
}

function soon(): () => number {
  const untilMs = simulation().nowMs + OUTCOME_WITHIN_MS;
  return () => untilMs;
}
