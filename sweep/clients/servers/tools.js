/** The two tools that both servers have, and what they ask and answer. */
const NO_ARGUMENTS = { type: 'object', properties: {} };

export const TOOLS = [
  {
    name: 'echo',
    description: 'Repeats a text.',
    inputSchema: {
      type: 'object',
      properties: { text: { type: 'string' } },
      required: ['text'],
    },
  },
  { name: 'ask', description: 'Asks the user for a name.', inputSchema: NO_ARGUMENTS },
];

export const FORM = {
  message: 'What is your name?',
  requestedSchema: {
    type: 'object',
    properties: { name: { type: 'string', title: 'Name' } },
    required: ['name'],
  },
};

export function echoOf(parameters) {
  return { content: [{ type: 'text', text: `echo: ${parameters?.text}` }] };
}

export function answerOf({ action, content }) {
  return { content: [{ type: 'text', text: `${action}: ${content?.name ?? 'nothing'}` }] };
}
