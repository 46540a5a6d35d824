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
      // "void promise" says that nobody waits for it; what can fail there must be caught.
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': [
        'error',
        { considerDefaultExhaustiveForUnions: true },
      ],
    },
  },
  {
    files: ['demo/**', 'bench/**', 'scripts/**', 'soak/**', 'sweep/**', 'test/**', 'bin/**'],
    rules: { 'no-console': 'off' },
  },
);
