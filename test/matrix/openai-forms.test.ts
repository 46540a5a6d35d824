/** Forms of OpenAI's extension, from servers of every revision over every transport that can ask. */
import { describe, expect, test } from 'vitest';
import { accept, callTool } from '../fixtures/clients/modern-client.ts';
import { askedAndTold, revisionStage, textOf } from '../fixtures/revisions/testbed.ts';
import { SERVERS, streamsOf, TITLE } from '../fixtures/revisions/table.ts';
import {
  OPENAI_CAPABILITIES,
  OPENAI_CONTENT,
  OPENAI_FORM,
  shownOpenaiForm,
} from '../fixtures/servers/openai-form.ts';

const ASKING = { question: OPENAI_FORM, answer: accept(OPENAI_CONTENT) };
const SHOWS_THEM = { capabilities: OPENAI_CAPABILITIES };

describe.each(SERVERS)(TITLE, (shape) => {
  const stage = revisionStage(shape);
  const streams = streamsOf(shape);
  const [on = 'own'] = streams;

  // Rule openai-1.
  // Rule openai-4.
  test.each(streams)(
    'a form of the extension on the %s stream comes as it is, and so do its answers',
    async (stream) => {
      const other = { question: OPENAI_FORM, answer: { action: 'decline' } };
      const rounds = [[ASKING, other], [ASKING]];
      const { requests, told } = await askedAndTold(stage.url, stream, rounds, SHOWS_THEM);
      expect(requests).toEqual(rounds.map((round) => round.map(() => shownOpenaiForm())));
      expect(told).toEqual(rounds.map((round) => round.map(({ answer }) => ({ result: answer }))));
    },
  );

  // Rule handshake-6.
  test('the server is told of the extension by a client that declares it beside plain forms', async () => {
    const { extensions } = OPENAI_CAPABILITIES;
    await callTool(stage.url, 'echo', {}, SHOWS_THEM);
    await callTool(stage.url, 'echo', {}, { capabilities: { extensions } });
    const told = stage.server.all('initialize').map(({ body }) => body.params.capabilities);
    expect(told).toEqual([OPENAI_CAPABILITIES, {}]);
  });

  // Rule openai-3.
  test('a client without the extension is not asked', async () => {
    const args = { arguments: { rounds: [[OPENAI_FORM]], on } };
    const done = await callTool(stage.url, 'ask', args);
    expect(JSON.parse(textOf(done))).toEqual([[{ error: -32601 }]]);
  });
});
