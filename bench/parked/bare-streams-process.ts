/**
 * The floor for the memory of a parked call: the very streams that a legacy server holds open while it
 * waits for an answer, read by undici and nothing else. The parent says how many more to open.
 */
import { Agent, request } from 'undici';
import { legacyCall, type HttpCall } from '../clients/messages.ts';

const [url, session] = process.argv.slice(2);
if (url === undefined || session === undefined) throw new Error('url or session was not given');
const agent = new Agent({ bodyTimeout: 0, headersTimeout: 0 });
const held: unknown[] = [];

/** Resolves when the question has come; the stream stays open. */
async function hold(call: HttpCall): Promise<void> {
  const { headers, body } = call;
  const answer = await request(url ?? '', { dispatcher: agent, method: 'POST', headers, body });
  await new Promise<void>((resolve, reject) => {
    answer.body.once('data', () => resolve()).once('error', reject);
  });
  answer.body.on('error', () => {});
  held.push(answer.body);
}

process.on('message', (asked) => {
  if (typeof asked !== 'object' || asked === null || !('hold' in asked)) return;
  const more = Number(asked.hold);
  void (async () => {
    for (let index = 0; index < more; index += 1) {
      await hold(legacyCall('ask', held.length + 1, session ?? ''));
    }
    process.send?.({ held: held.length });
  })();
});
process.channel?.ref();
process.send?.({ ready: true });
