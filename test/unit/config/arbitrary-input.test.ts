import fc from 'fast-check';
import { expect, test } from 'vitest';
import { stringify } from 'yaml';
import { ConfigError } from '../../../src/config/load/problem.ts';
import { configOf, FILE } from './problems-of.ts';

const LINE = /^gateway\.yaml:[1-9]\d*:[1-9]\d* [^\n]+$/;

/** Loads, or fails with lines that each have a place. */
function loadsOrSaysWhere(text: string): void {
  try {
    expect(configOf(text, { env: { A: 'x' } }).routes).not.toEqual([]);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    expect(error.code).toBe('config_invalid');
    for (const problem of error.problems) expect(problem, FILE).toMatch(LINE);
    expect(error.problems).not.toEqual([]);
  }
}

const keys = fc.constantFrom(
  ...[
    'listen',
    'admin',
    'routes',
    'upstream',
    'url',
    'headers',
    'seal',
    'keys',
    'kid',
    'key',
    'edge',
  ],
  ...[
    'identity',
    'source',
    'header',
    'limits',
    'maxBody',
    'parking',
    'ttl',
    'questions',
    'keyNames',
  ],
);
const scalars = fc.oneof(
  fc.constantFrom(
    'http://a/',
    '10m',
    '4MiB',
    ':80',
    '${A}',
    '${B}',
    '${A',
    'file:x',
    'none',
    'header',
  ),
  fc.string(),
  fc.double(),
  fc.integer(),
  fc.boolean(),
  fc.constant(null),
);
const { tree } = fc.letrec<{ tree: unknown }>((tie) => ({
  tree: fc.oneof(
    { depthSize: 'medium' },
    scalars,
    fc.array(tie('tree'), { maxLength: 4 }),
    fc.dictionary(
      fc.oneof({ weight: 4, arbitrary: keys }, { weight: 1, arbitrary: fc.string() }),
      tie('tree'),
      {
        maxKeys: 5,
      },
    ),
  ),
}));

test('any data as YAML loads, or every problem has its place', () => {
  fc.assert(
    fc.property(tree, (data) => loadsOrSaysWhere(stringify(data))),
    { numRuns: 300 },
  );
});

test('any data in the place of a field loads, or every problem has its place', () => {
  fc.assert(
    fc.property(keys, tree, tree, (key, value, route) => {
      const upstream = { url: 'http://a/' };
      loadsOrSaysWhere(JSON.stringify({ routes: [{ upstream, [key]: route }], [key]: value }));
    }),
    { numRuns: 300 },
  );
});

test('any text that resembles YAML loads, or every problem has its place', () => {
  const pieces = fc.constantFrom(
    ...[
      'routes',
      ':',
      ': ',
      '\n',
      '  ',
      '- ',
      '[',
      ']',
      '{',
      '}',
      '"',
      "'",
      '&a ',
      '*a',
      '!t ',
      '|',
      '>',
    ],
    ...[
      '? ',
      '#',
      '---',
      '...',
      '%',
      '\t',
      '\r\n',
      '\\',
      '\u0000',
      '\ufeff',
      '\ud800',
      'é',
      '1',
      'null',
      '<<',
    ],
    ...['${A}', ',', '@', '`', '=', '~', '__proto__', 'constructor'],
  );
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 40 }), (texts) => loadsOrSaysWhere(texts.join(''))),
    { numRuns: 1000 },
  );
});

test('any text at all loads, or every problem has its place', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => loadsOrSaysWhere(text)),
    { numRuns: 300 },
  );
});
