/** Which folder of `src` imports which. `npm run check` runs it; docs/architecture.md draws it. */

/** From the bottom to the top: a folder imports only folders that stand before it. */
const FOLDERS = [
  'lib',
  'protocol',
  'dialects',
  'seal',
  'ops',
  'model',
  'upstream',
  'limits',
  'sessions',
  'replicas',
  'catalogue',
  'calls',
  'tasks',
  'subscriptions',
  'identity',
  'edge',
  'config',
  'probe',
  'routes',
  'front',
  'app',
  'workers',
  'cli',
];

/** Folders that stand side by side: they meet in `routes`, and do not know each other. */
const STRANGERS = {
  upstream: ['seal'],
  sessions: ['ops'],
  calls: ['replicas', 'catalogue'],
  catalogue: ['replicas', 'seal'],
  tasks: ['upstream', 'sessions', 'replicas', 'catalogue', 'calls'],
  subscriptions: ['replicas', 'calls', 'tasks', 'catalogue', 'seal'],
  identity: ['upstream', 'sessions', 'replicas', 'catalogue', 'calls', 'tasks', 'subscriptions'],
  edge: ['upstream', 'sessions', 'seal', 'replicas', 'calls', 'tasks', 'catalogue'],
  config: ['edge', 'upstream', 'sessions', 'calls', 'tasks', 'catalogue', 'subscriptions'],
  replicas: ['upstream', 'sessions'],
  routes: ['probe'],
  front: ['probe', 'replicas', 'sessions', 'calls', 'upstream'],
  'front/passthrough': ['config', 'identity', 'limits', 'ops', 'seal', 'routes'],
  app: ['probe'],
  workers: ['probe', 'front'],
};

/** What these folders must not touch: they are pure. */
const PURE = {
  protocol: {
    path: '^src/protocol/',
    mayUse: '^src/protocol/|^node_modules/(?:secure-json-parse|zod)/',
  },
  'the codecs of dialects': {
    path: '^src/dialects/',
    mayUse: '^src/(?:dialects|protocol)/',
  },
  'the table of a parked call': {
    path: '^src/calls/machine/',
    mayUse: '^src/(?:calls/machine|model|protocol)/',
  },
};

const folder = (name) => `^src/${name}/`;
const anyOf = (names) => `^src/(?:${names.join('|')})/`;

export default {
  forbidden: [
    {
      name: 'no-cycle',
      comment: 'Files that import each other are one file, or hide a third one.',
      severity: 'error',
      from: {},
      to: { circular: true },
    },
    {
      name: 'only-what-is-declared',
      comment: 'A package that the program imports is a dependency in package.json.',
      severity: 'error',
      from: { path: '^src/' },
      to: {
        dependencyTypes: ['npm-dev', 'npm-no-pkg', 'npm-unknown', 'unknown'],
        dependencyTypesNot: ['type-only'],
      },
    },
    ...FOLDERS.slice(0, -1).map((name, at) => ({
      name: `${name}-imports-nothing-above-it`,
      severity: 'error',
      from: { path: folder(name) },
      to: { path: anyOf(FOLDERS.slice(at + 1)) },
    })),
    ...Object.entries(STRANGERS).map(([name, others]) => ({
      name: `${name.replaceAll('/', '-')}-does-not-know-its-neighbours`,
      severity: 'error',
      from: { path: folder(name) },
      to: { path: anyOf(others) },
    })),
    ...Object.entries(PURE).map(([name, { path, mayUse }]) => ({
      name: `${name.replaceAll(' ', '-')}-is-pure`,
      comment: 'No I/O, no clock, no randomness.',
      severity: 'error',
      from: { path },
      to: { pathNot: mayUse },
    })),
  ],
  options: {
    tsConfig: { fileName: 'tsconfig.json' },
    tsPreCompilationDeps: true,
    doNotFollow: { path: 'node_modules' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'node', 'default'],
    },
  },
};
