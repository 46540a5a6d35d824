/** The reference server of the protocol's authors behind the gateway: everything that it has reaches the official client. */
import type { ReadResourceResult } from '@modelcontextprotocol/client';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { startTestGateway } from '../fixtures/gateways/gateway.ts';
import { EVERYTHING_STDIO, startEverything } from '../fixtures/processes.ts';
import { connectAskedClient } from '../fixtures/real-servers/asked-client.ts';
import { askedStage } from '../fixtures/real-servers/asked-testbed.ts';
import { PROMPTS } from '../fixtures/real-servers/everything/everything-prompts.ts';
import { PLAIN_TOOLS, unpacked } from '../fixtures/real-servers/everything/everything-tools.ts';
import { sampled } from '../fixtures/real-servers/sampled.ts';

const EVERYTHING_TRANSPORTS = [
  { transport: 'streamableHttp', path: '/mcp' },
  { transport: 'sse', path: '/sse' },
] as const;

const ASKING_TOOLS = [
  'get-roots-list',
  'trigger-elicitation-request',
  'trigger-sampling-request',
  'trigger-url-elicitation',
];

/** The server serves its own documentation as its static resources. */
function documentation(name: string): Promise<string> {
  const url = import.meta.resolve(`@modelcontextprotocol/server-everything/dist/docs/${name}`);
  return readFile(fileURLToPath(url), 'utf8');
}

function blobOf(content: ReadResourceResult['contents'][number] | undefined): string {
  if (content === undefined || !('blob' in content)) throw new Error('no bytes came');
  return content.blob;
}

describe.each(EVERYTHING_TRANSPORTS)('server-everything over $transport', (over) => {
  everythingArrives(over);
});

// Each client has a process, and each test a client.
describe('server-everything over stdio', { tags: ['long'] }, () => {
  everythingArrives({ transport: 'stdio', path: '' });
});

function everythingArrives({
  transport,
  path,
}:
  | (typeof EVERYTHING_TRANSPORTS)[number]
  | { readonly transport: 'stdio'; readonly path: '' }): void {
  const stage = askedStage(
    transport === 'stdio' ? EVERYTHING_STDIO : () => startEverything(transport),
    path,
  );

  test('a client that can answer everything sees every tool', async () => {
    const { client } = await stage.connect({
      elicitation: () => ({ action: 'cancel' }),
      sampling: () => sampled('unused'),
      roots: [],
    });

    const { tools } = await client.listTools();

    const known = [...Object.keys(PLAIN_TOOLS), ...ASKING_TOOLS];
    expect(tools.map(({ name }) => name).sort()).toEqual(known.sort());
  });

  test('a client that can answer nothing sees the tools that ask nothing', async () => {
    const { client } = await stage.connect();

    const { tools } = await client.listTools();

    expect(tools.map(({ name }) => name).sort()).toEqual(Object.keys(PLAIN_TOOLS).sort());
  });

  test.each(Object.entries(PLAIN_TOOLS))(
    'the result of %s arrives whole',
    async (name, { args, judge }) => {
      const { client, wire } = await stage.connect();

      const port = transport === 'stdio' ? Number(EVERYTHING_STDIO.env.PORT) : stage.server.port;
      judge(await client.callTool({ name, arguments: args }), port);

      expect(await wire.resultTypes('tools/call')).toEqual(['complete']);
    },
  );

  test('a tool reports its progress while it runs', async () => {
    const { client } = await stage.connect();
    const seen: unknown[] = [];

    await client.callTool(
      { name: 'trigger-long-running-operation', arguments: { duration: 0.1, steps: 4 } },
      { onprogress: ({ progress, total }) => seen.push([progress, total]) },
    );

    expect(seen).toEqual([
      [1, 4],
      [2, 4],
      [3, 4],
      [4, 4],
    ]);
  });

  test('every prompt is listed and got with its arguments', async () => {
    const { client } = await stage.connect();

    const { prompts } = await client.listPrompts();
    const got = await Promise.all(
      PROMPTS.map(({ name, args }) => client.getPrompt({ name, arguments: args })),
    );

    expect(prompts.map(({ name }) => name)).toEqual(PROMPTS.map(({ name }) => name));
    expect(got.map(({ messages }) => messages.at(-1)?.content)).toEqual(
      PROMPTS.map(({ content }) => content),
    );
  });

  test('every resource is listed and read', async () => {
    const { client } = await stage.connect();

    const { resources } = await client.listResources();

    expect(resources.map(({ name }) => name)).toContain('architecture.md');
    for (const { uri, name, mimeType } of resources) {
      const { contents } = await client.readResource({ uri });
      expect(contents).toEqual([{ uri, mimeType, text: await documentation(name) }]);
    }
  });

  test('every resource template is listed and its resources are read', async () => {
    const { client } = await stage.connect();

    const { resourceTemplates } = await client.listResourceTemplates();
    const [asText] = (await client.readResource({ uri: 'demo://resource/dynamic/text/3' }))
      .contents;
    const [asBlob] = (await client.readResource({ uri: 'demo://resource/dynamic/blob/4' }))
      .contents;

    expect(resourceTemplates.map(({ uriTemplate }) => uriTemplate)).toEqual([
      'demo://resource/dynamic/text/{resourceId}',
      'demo://resource/dynamic/blob/{resourceId}',
    ]);
    expect(asText).toMatchObject({ text: expect.stringMatching(/^Resource 3: /) });
    expect(Buffer.from(blobOf(asBlob), 'base64').toString()).toMatch(/^Resource 4: /);
  });

  test('a resource that a tool made stays for later requests where sessions are kept', async () => {
    const keeping = await startTestGateway(stage.upstream, {
      sessions: { scope: 'principal' },
    });
    const { client, close } = await connectAskedClient(keeping.url, {});
    const uri = `demo://resource/session/${transport}.gz`;
    try {
      const made = await client.callTool({
        name: 'gzip-file-as-resource',
        arguments: { name: `${transport}.gz`, data: 'data:text/plain,kept' },
      });
      const { contents } = await client.readResource({ uri });

      expect(made.content).toMatchObject([{ type: 'resource_link', uri }]);
      expect(unpacked(blobOf(contents[0]))).toBe('kept');
    } finally {
      await close();
      await keeping.close();
    }
  });

  test('arguments of prompts and templates are completed', async () => {
    const { client } = await stage.connect();
    const prompt = { type: 'ref/prompt', name: 'completable-prompt' } as const;
    const template = {
      type: 'ref/resource',
      uri: 'demo://resource/dynamic/text/{resourceId}',
    } as const;

    const departments = await client.complete({
      ref: prompt,
      argument: { name: 'department', value: 'S' },
    });
    const names = await client.complete({
      ref: prompt,
      argument: { name: 'name', value: '' },
      context: { arguments: { department: 'Sales' } },
    });
    const ids = await client.complete({
      ref: template,
      argument: { name: 'resourceId', value: '12' },
    });

    expect(departments.completion.values).toEqual(['Sales', 'Support']);
    expect(names.completion.values).toEqual(['David', 'Eve', 'Frank']);
    expect(ids.completion.values).toEqual(['12']);
  });

  test('what the server refuses is refused to the client in the words of the server', async () => {
    const { client } = await stage.connect();

    await expect(
      client.getPrompt({
        name: 'resource-prompt',
        arguments: { resourceType: 'x', resourceId: '1' },
      }),
    ).rejects.toThrow('Invalid resourceType: x. Must be Text or Blob.');
    await expect(client.readResource({ uri: 'demo://resource/dynamic/text/none' })).rejects.toThrow(
      'demo://resource/dynamic/text/none',
    );
  });
}
