import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { diffOf } from '../../../src/connect/diff.ts';
import { tomlText, withJsonEntry, withTomlEntry } from '../../../src/connect/edit.ts';

const entry = { servers: 'mcpServers', name: 'gateway', value: { type: 'http', url: 'http://a/' } };
const written = (text: string) => withJsonEntry(text, entry);

describe('an entry is put into JSON, and every other byte stays', () => {
  test.each([
    [
      'no file',
      '',
      '{\n  "mcpServers": {\n    "gateway": {\n      "type": "http",\n      "url": "http://a/"\n    }\n  }\n}\n',
    ],
    [
      'a file of one line',
      '{"a":1.0,"mcpServers":{"x":{}}}',
      '{"a":1.0,"mcpServers":{"x":{},"gateway": {"type":"http","url":"http://a/"}}}',
    ],
    [
      'tabs and CRLF',
      '{\r\n\t"a": 1e2,\r\n\t"mcpServers": {}\r\n}\r\n',
      '{\r\n\t"a": 1e2,\r\n\t"mcpServers": {\r\n\t\t"gateway": {\r\n\t\t\t"type": "http",\r\n\t\t\t"url": "http://a/"\r\n\t\t}\r\n\t}\r\n}\r\n',
    ],
    [
      'an entry of the same name',
      '{\n  "mcpServers": {\n    "gateway": { "url": "old" },\n    "b": {}\n  }\n}',
      '{\n  "mcpServers": {\n    "gateway": {\n      "type": "http",\n      "url": "http://a/"\n    },\n    "b": {}\n  }\n}',
    ],
    [
      'braces and quotes in texts',
      '{\n  "}\\"{": "{\\"mcpServers\\": {",\n  "n": 12345678901234567890\n}',
      '{\n  "}\\"{": "{\\"mcpServers\\": {",\n  "n": 12345678901234567890,\n  "mcpServers": {\n    "gateway": {\n      "type": "http",\n      "url": "http://a/"\n    }\n  }\n}',
    ],
  ])('%s', (_what, before, after) => {
    expect(written(before)).toBe(after);
  });

  test('in whatever a client has written there', () => {
    const json = fc.dictionary(fc.string(), fc.jsonValue()).map((map) => ({ ...map }));
    const indentation = fc.constantFrom(undefined, 1, 2, 4, '\t');
    const file = fc.record({ data: json, servers: fc.option(json), indentation });
    fc.assert(
      fc.property(file, ({ data, servers, indentation }) => {
        const whole = servers === null ? data : { ...data, mcpServers: servers };
        const before = JSON.stringify(whole, null, indentation);
        const isMap = typeof (data as { mcpServers?: unknown }).mcpServers;
        fc.pre(servers !== null || isMap === 'undefined');
        const after = written(before);
        // Such as a key `__proto__`: it is left to its user.
        if (after === null) return;
        const others = servers ?? {};
        expect(JSON.parse(after)).toEqual(
          JSON.parse(JSON.stringify({ ...whole, mcpServers: { ...others, gateway: entry.value } })),
        );
      }),
    );
  });
});

test.each([
  ['comments', '{\n  // mine\n  "a": 1\n}'],
  ['a comma at the end', '{ "a": 1, }'],
  ['a list', '[]'],
  ['a map that is no map', '{ "mcpServers": [] }'],
  ['a key twice', '{ "mcpServers": {}, "mcpServers": { "a": {} } }'],
  ['no JSON', 'mcpServers: {}'],
])('a file with %s is left to its user', (_what, text) => {
  expect(written(text)).toBeNull();
});

describe('TOML gets tables at its end', () => {
  const codex = { servers: 'mcp_servers', name: 'gateway', value: { url: 'http://a/' } };
  const feature = 'mcp_2026_07_28 = true';

  test('with the switch', () => {
    expect(withTomlEntry('model = "x" # mine\n', codex, feature)).toBe(
      'model = "x" # mine\n\n[mcp_servers.gateway]\nurl = "http://a/"\n\n[features]\nmcp_2026_07_28 = true\n',
    );
  });

  test.each([
    '[features]\nweb = true\n',
    '[mcp_servers.gateway]\nurl = "b"\n',
    '[mcp_servers."gateway"]\n',
    'mcp_servers = { a = {} }\n',
    'mcp_servers.gateway.url = "b"\n',
    'features.web = true\n',
  ])('and is left to its user if a table is there: %j', (text) => {
    expect(withTomlEntry(text, codex, feature)).toBeNull();
  });

  test.each(['other', 'gateway-2'])('beside another server, %s', (name) => {
    const text = `[mcp_servers.${name}]\nurl = "b"\n`;
    expect(withTomlEntry(text, codex, null)).toBe(`${text}\n${tomlText(codex, null)}`);
  });

  test.each(['\n', '\r\n'])('once: a file that has them stays, with %j between lines', (end) => {
    const written = withTomlEntry('model = "x"\n', codex, feature) ?? '';
    const text = written.replaceAll('\n', end);
    expect(withTomlEntry(text, codex, feature)).toBe(text);
  });

  test('and a file that has the entry without the switch is left to its user', () => {
    const text = `${tomlText(codex, null)}\n[features]\n# ${feature}\n`;
    expect(withTomlEntry(text, codex, feature)).toBeNull();
  });
});

test('the diff shows the entry, and no value of others', () => {
  const before = `{
  "mcpServers": {
    "gateway": {
      "url": "https://user:secret1@a/mcp?key=secret2",
      "headers": { "Authorization": "Bearer secret3" },
      "args": ["--token=secret4"]
    },
    "b": { "env": { "KEY": "secret5" } }
  }
}
`;
  const lines = diffOf(before, written);
  expect(lines.join('\n')).not.toMatch(/secret/);
  expect(lines).toContain('-       "url": "https://a/…",');
  expect(lines).toContain('+       "type": "http",');
});

test.each([
  [
    'a file of one line',
    '{"mcpServers":{"a":{"url":"https://a/s/secret1","headers":{"X":"secret2"},"n":"\\"secret3"}}}',
  ],
  [
    'a line that the entry breaks',
    '{\n  "mcpServers": { "a": { "env": { "K": "secret1" } } }\n}\n',
  ],
  [
    'a list of a program and its arguments',
    '{\n  "mcpServers": {\n    "a": { "command": ["npx", "--key", "secret1"] },\n    "b": { "command": "npx --key secret2" }\n  }\n}\n',
  ],
  [
    'a value that is written with escapes',
    '{"mcpServers":{"a":{"url":"https:\\/\\/user:secret1\\u0040a\\/","port":19210311}}}',
  ],
])('the diff shows no value of others in %s', (_what, before) => {
  const diff = diffOf(before, written).join('\n');
  expect(diff).toContain('"gateway"');
  expect(diff).toContain('http://a/');
  expect(diff).not.toMatch(/secret|19210311/);
});
