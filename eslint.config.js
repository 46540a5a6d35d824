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
    [...IO, '**/lib/**', '**/seal/**', '**/ops/**', '**/upstream/**', '**/model/**', '**/calls/**'],
    'protocol is pure: it imports nothing but its own room',
  ),
  mayNotImport(
    ['src/calls/machine/**', 'src/model/outcome.ts'],
    [...IO, '**/upstream/**', '**/edge/**', '**/seal/**', '**/ops/**', '**/lib/**', '../call/**'],
    'the parked-call machine is pure: no I/O, no clock, no randomness',
  ),
  mayNotImport(
    ['src/edge/**'],
    ['**/upstream/**', '**/seal/**', '**/replicas/**', '**/calls/**', '**/catalogue/**'],
    'the edge does not know the upstream; they meet in app',
  ),
  mayNotImport(
    ['src/calls/**', 'src/catalogue/**', 'src/subscriptions/**'],
    ['**/replicas/**', '**/edge/**', '**/config/**', '**/app/**'],
    'calls know neither the edge nor the replicas; they meet in app',
  ),
  mayNotImport(
    ['src/upstream/**'],
    ['**/edge/**', '**/model/**', '**/calls/**', '**/seal/**', '**/replicas/**', '**/app/**'],
    'the upstream does not know who uses it',
  ),
  mayNotImport(
    ['src/seal/**', 'src/replicas/**', 'src/identity/**', 'src/ops/**', 'src/config/**'],
    ['**/edge/**', '**/upstream/**', '**/app/**'],
    'only the composition root sees all rooms',
  ),
);
