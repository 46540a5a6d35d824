import tseslint from 'typescript-eslint';

// Import directions and cycles: .dependency-cruiser.js. Unused exports and dependencies: knip.json.
export default tseslint.config(
  { ignores: ['node_modules', 'dist', 'coverage', 'results', '.sweep'] },
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
    files: ['src/**'],
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      'max-lines': ['error', 350],
      // What nobody waits for goes into `inBackground`, which reports what fails there (src/lib/background.ts).
      '@typescript-eslint/no-floating-promises': ['error', { ignoreVoid: false }],
      '@typescript-eslint/switch-exhaustiveness-check': [
        'error',
        { considerDefaultExhaustiveForUnions: true },
      ],
    },
  },
  {
    // The script of a page, which has no modules of src.
    files: ['src/ops/live/page/**'],
    rules: { '@typescript-eslint/no-floating-promises': ['error', { ignoreVoid: true }] },
  },
  {
    files: ['demo/**', 'bench/**', 'scripts/**', 'soak/**', 'sweep/**', 'test/**', 'bin/**'],
    rules: { 'no-console': 'off' },
  },
);
