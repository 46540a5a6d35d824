/** Two calls of the official modern client, each of a tool of the legacy server that asks before it answers. */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { texts, type Transcript } from './transcript.ts';
import { watchedFetch } from './wire.ts';

interface Act {
  readonly title: string;
  readonly tool: string;
  readonly arguments: Record<string, unknown>;
  /** What the result must contain: the answer went all the way to the tool and back. */
  readonly expected: string;
}

const NAME = 'Ada Lovelace';
const COMPLETION = 'The Analytical Engine weaves algebraic patterns.';

const ACTS: readonly Act[] = [
  {
    title: '1  A tool that asks the user (elicitation)',
    tool: 'trigger-elicitation-request',
    arguments: {},
    expected: NAME,
  },
  {
    title: "2  A tool that asks the client's language model (sampling)",
    tool: 'trigger-sampling-request',
    arguments: { prompt: 'What does it weave?', maxTokens: 50 },
    expected: COMPLETION,
  },
];

/**
 * Calls the tools through the gateway and shows the wire.
 * @returns whether each asked once and came back with what it was told
 * @throws Error if the client cannot connect or a call fails
 */
export async function show(gatewayUrl: string, transcript: Transcript): Promise<boolean> {
  const client = clientOf(transcript);
  transcript.heading('0  The client connects: one request, no session');
  const options = { fetch: watchedFetch(transcript) };
  await client.connect(new StreamableHTTPClientTransport(new URL(gatewayUrl), options));
  try {
    let asExpected = true;
    for (const act of ACTS) {
      transcript.heading(act.title);
      const result = await client.callTool({ name: act.tool, arguments: act.arguments });
      const said = texts(result).join('\n').includes(act.expected);
      asExpected &&= said && transcript.rounds === 1;
    }
    return asExpected;
  } finally {
    await client.close();
  }
}

/** The handlers that any client has; that the questions come as results is the client's own affair. */
function clientOf(transcript: Transcript): Client {
  const client = new Client(
    { name: 'mrtr-gateway-demo', version: '1.0.0' },
    {
      versionNegotiation: { mode: { pin: '2026-07-28' } },
      capabilities: { elicitation: { form: {} }, sampling: {} },
    },
  );
  client.setRequestHandler('elicitation/create', () => {
    transcript.answers('the user answers', `name: ${NAME}, check: yes`);
    return { action: 'accept', content: { name: NAME, check: true } };
  });
  client.setRequestHandler('sampling/createMessage', () => {
    transcript.answers('the model answers', COMPLETION);
    return {
      role: 'assistant',
      content: { type: 'text', text: COMPLETION },
      model: 'demo-model',
      stopReason: 'endTurn',
    };
  });
  return client;
}
