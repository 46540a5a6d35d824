import tseslint from 'typescript-eslint';

/** Which rooms a room must not import: the direction of dependencies, checked and not remembered. */
function mayNotImport(files, groups, message) {
  return {
    files,
    rules: {
      'no-restricted-imports': ['error', { patterns: [{ group: groups, message }] }],
    },
  };
}

const IO = ['node:*', 'undici', 'fastify', 'ioredis', '@fastify/*', 'eventsource-parser', 'pino*'];

export default tseslint.config(
  { ignores: ['node_modules', 'dist', 'coverage', 'results'] },
  ...tseslint.configs.recommended,
  {
    rules: {
      '@typescript-eslint/no-unused-vars': [
        'error',
        { argsIgnorePattern: '^_', varsIgnorePattern: '^_', caughtErrors: 'all' },
      ],
      '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'inline-type-imports' }],
      eqeqeq: 'error',
      'no-console': 'error',
    },
  },
  {
    files: ['demo/**', 'bench/**', 'scripts/**', 'test/**', 'bin/**'],
    rules: { 'no-console': 'off' },
  },
  mayNotImport(
    ['src/protocol/**'],
    [...IO, '../*/**', '../clock.ts'],
    'protocol is pure: it imports nothing but its own room',
  ),
  mayNotImport(
    [
      'src/bridge/transitions.ts',
      'src/bridge/transitions/**',
      'src/bridge/call-state.ts',
      'src/bridge/outcome.ts',
    ],
    [...IO, '**/upstream/**', '**/edge/**', '**/seal/**', '**/ops/**', '**/clock.ts'],
    'the parked-call machine is pure: no I/O, no clock, no randomness',
  ),
  mayNotImport(
    ['src/edge/**'],
    ['../upstream/**', '../seal/**', '../lot/**'],
    'the edge does not know the upstream; they meet in bridge',
  ),
  mayNotImport(
    ['src/upstream/**'],
    ['../edge/**', '../bridge/**', '../seal/**', '../lot/**'],
    'the upstream does not know who uses it',
  ),
  mayNotImport(
    ['src/seal/**', 'src/lot/**', 'src/identity/**', 'src/ops/**', 'src/config/**'],
    ['../edge/**', '../upstream/**', '../wiring/**', '../gateway.ts'],
    'only the wiring sees all rooms',
  ),
);
