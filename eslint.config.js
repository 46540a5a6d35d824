import { defineConfig } from 'eslint/config';
import tseslint from 'typescript-eslint';

/** Rules of the presets that find nothing but noise here, and why. */
const OFF = Object.fromEntries(
  [
    // A listener that does nothing is a value.
    'no-empty-function',
    // An interface asks for a promise, and what fails at once has to reject it.
    'require-await',
    // The indices of loops are in bounds.
    'no-non-null-assertion',
    // It does not see that a field changes during a call or an `await`.
    'no-unnecessary-condition',
    // It does not know `Promise.withResolvers<void>()`.
    'no-invalid-void-type',
    // Members of JSON that were checked before are `unknown` to it.
    'no-base-to-string',
    // Maps that become JSON are objects.
    'no-dynamic-delete',
    // `return refuse(response)` ends a function early.
    'no-confusing-void-expression',
    // Texts that are spread are ASCII, or meant to be split by code points.
    'no-misused-spread',
    // Services here are objects of closures.
    'unbound-method',
    // A type alias is a JSON object to the compiler, and an interface is not.
    'consistent-type-definitions',
    // It asks for `!` where a type says more.
    'non-nullable-type-assertion-style',
  ].map((rule) => [`@typescript-eslint/${rule}`, 'off']),
);

/** Rules for the product that tests and tools need not keep, and why. */
const OFF_BESIDE_SOURCES = Object.fromEntries(
  [
    // They read what came over the wire as they expect it.
    'no-unsafe-argument',
    'no-unsafe-assignment',
    'no-unsafe-call',
    'no-unsafe-member-access',
    'no-unsafe-return',
    'restrict-plus-operands',
    'restrict-template-expressions',
    // HTTP+SSE is deprecated, and served.
    'no-deprecated',
    // What the compiler of one version of an SDK needs, and of another does not.
    'no-unnecessary-type-assertion',
  ].map((rule) => [`@typescript-eslint/${rule}`, 'off']),
);

// Import directions and cycles: .dependency-cruiser.js. Unused exports and dependencies: knip.json.
export default defineConfig(
  { ignores: ['node_modules', 'dist', 'coverage', 'results', '.sweep', 'site'] },
  ...tseslint.configs.strictTypeChecked,
  ...tseslint.configs.stylisticTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: true } },
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    rules: {
      ...OFF,
      '@typescript-eslint/no-unused-vars': [
        'error',
        { argsIgnorePattern: '^_', varsIgnorePattern: '^_', caughtErrors: 'all' },
      ],
      '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'inline-type-imports' }],
      // An empty variable of the environment counts as none.
      '@typescript-eslint/prefer-nullish-coalescing': [
        'error',
        { ignorePrimitives: { string: true, boolean: true, number: true } },
      ],
      '@typescript-eslint/only-throw-error': ['error', { allowThrowingUnknown: true }],
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      '@typescript-eslint/switch-exhaustiveness-check': [
        'error',
        { considerDefaultExhaustiveForUnions: true },
      ],
      eqeqeq: 'error',
      'max-depth': ['error', 4],
      'no-console': 'error',
    },
  },
  {
    files: ['src/**'],
    rules: {
      complexity: ['error', { max: 20, variant: 'modified' }],
      'max-lines-per-function': ['error', { max: 100, skipComments: true, skipBlankLines: true }],
      'max-params': ['error', 6],
      // What nobody waits for goes into `inBackground`, which reports what fails there (src/lib/background.ts).
      '@typescript-eslint/no-floating-promises': ['error', { ignoreVoid: false }],
    },
  },
  {
    files: ['demo/**', 'bench/**', 'scripts/**', 'soak/**', 'sweep/**', 'test/**'],
    rules: {
      ...OFF_BESIDE_SOURCES,
      // A listener that rejects fails the run.
      '@typescript-eslint/no-misused-promises': [
        'error',
        { checksVoidReturn: { arguments: false } },
      ],
      'no-console': 'off',
    },
  },
  {
    // Fault tests hold whatever the code is made of.
    files: ['test/faults/**'],
    rules: { 'no-restricted-imports': ['error', { patterns: ['**/src/**'] }] },
  },
  {
    // The script of a page, which has no modules of src.
    files: ['src/ops/live/page/**'],
    rules: {
      '@typescript-eslint/no-floating-promises': ['error', { ignoreVoid: true }],
      // It does not see types that comments give.
      '@typescript-eslint/no-unsafe-argument': 'off',
    },
  },
  {
    // Plain JavaScript, which every Node.js runs. The page has a tsconfig.json.
    files: ['**/*.js'],
    ignores: ['src/ops/live/page/**'],
    ...tseslint.configs.disableTypeChecked,
  },
  { files: ['bin/**', 'demo/**'], rules: { 'no-console': 'off' } },
);
