/** The published form example of the first SDK behind the gateway: forms on the standalone stream, and two rounds in one call. */
import { describe, expect, test } from 'vitest';
import { askedStage } from '../fixtures/real-servers/asked-testbed.ts';
import { startFormExample } from '../fixtures/real-servers/node-server.ts';
import { onlyText } from '../fixtures/real-servers/tool-text.ts';

const FIRST_STEP = { title: 'Launch', description: 'With cake' };
const SECOND_STEP = { date: '2026-07-28', startTime: '09:30', duration: 45 };

describe('the elicitation form example of the v1 SDK', () => {
  const stage = askedStage(startFormExample, '/mcp');

  test('two forms in one call are asked one after the other, and both answers count', async () => {
    const { client, questions, wire } = await stage.connect({
      elicitation: ({ message }) => ({
        action: 'accept',
        content: message.startsWith('Step 1') ? FIRST_STEP : SECOND_STEP,
      }),
    });

    const result = await client.callTool({ name: 'create_event' });

    expect(questions).toMatchObject([
      { params: { message: 'Step 1: Enter basic event information' } },
      {
        params: {
          message: 'Step 2: Enter date and time',
          requestedSchema: { properties: { duration: { minimum: 15, maximum: 480 } } },
        },
      },
    ]);
    const [said, json = ''] = onlyText(result).split('\n\n');
    expect(said).toBe('Event created successfully!');
    expect(JSON.parse(json)).toEqual({ ...FIRST_STEP, ...SECOND_STEP });
    expect(await wire.resultTypes('tools/call')).toEqual([
      'input_required',
      'input_required',
      'complete',
    ]);
  });

  test('a refusal in the second round ends the call that the first round began', async () => {
    const { client, questions } = await stage.connect({
      elicitation: ({ message }) =>
        message.startsWith('Step 1')
          ? { action: 'accept', content: FIRST_STEP }
          : { action: 'decline' },
    });

    const result = await client.callTool({ name: 'create_event' });

    expect(questions).toHaveLength(2);
    expect(onlyText(result)).toBe('Event creation cancelled.');
  });

  test('each round has a state of its own, and no state is sent before a question', async () => {
    const { client, wire } = await stage.connect({
      elicitation: ({ message }) => ({
        action: 'accept',
        content: message.startsWith('Step 1') ? FIRST_STEP : SECOND_STEP,
      }),
    });

    await client.callTool({ name: 'create_event' });

    const [first, second, third] = await wire.of('tools/call');
    expect(first?.params).not.toHaveProperty('requestState');
    expect(second?.params['requestState']).toEqual(expect.any(String));
    expect(third?.params['requestState']).toEqual(expect.any(String));
    expect(third?.params['requestState']).not.toBe(second?.params['requestState']);
  });

  test('a form with defaults, a choice and a list keeps them, and its answers are used', async () => {
    const { client, questions } = await stage.connect({
      elicitation: () => ({
        action: 'accept',
        content: {
          username: 'ada',
          email: 'ada@example.org',
          password: 'correct horse',
          newsletter: true,
        },
      }),
    });

    const result = await client.callTool({ name: 'register_user' });

    expect(questions[0]?.params).toMatchObject({
      requestedSchema: {
        properties: {
          username: { minLength: 3, maxLength: 20 },
          email: { format: 'email' },
          newsletter: { default: false },
          role: { default: 'developer', oneOf: expect.any(Array) },
          interests: { minItems: 1, maxItems: 3 },
        },
      },
    });
    expect(onlyText(result)).toBe(
      'Registration successful!\n\nUsername: ada\nEmail: ada@example.org\nNewsletter: Yes',
    );
  });

  // Rule answers-2.
  test('what the server finds wrong with an answer comes back as its own error', async () => {
    const { client } = await stage.connect({
      elicitation: () => ({ action: 'accept', content: { name: 'Ada' } }),
    });

    const result = await client.callTool({ name: 'update_shipping_address' });

    expect(result.isError).toBe(true);
    expect(onlyText(result)).toMatch(/^Address update failed: .*does not match/);
  });
});
