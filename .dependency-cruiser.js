/** Which folder of `src` imports which. `npm run check` runs it; a test compares it with docs/architecture.md and with the code. */

/** From the bottom to the top, with what each folder imports: only folders that stand before it. */
export const FOLDERS = {
  lib: [],
  protocol: [],
  dialects: ['protocol'],
  seal: ['lib', 'protocol'],
  ops: ['lib', 'protocol', 'seal'],
  model: ['lib', 'ops', 'protocol', 'seal'],
  connect: ['lib', 'model', 'protocol'],
  upstream: ['lib', 'model', 'ops', 'protocol'],
  limits: ['lib', 'model', 'protocol'],
  sessions: ['lib', 'model', 'protocol', 'seal', 'upstream'],
  fleet: ['lib', 'model', 'protocol', 'seal'],
  catalogue: ['lib', 'model', 'ops', 'protocol', 'sessions', 'upstream'],
  calls: ['lib', 'model', 'ops', 'protocol', 'seal', 'sessions', 'upstream'],
  tasks: ['lib', 'model', 'ops', 'protocol', 'seal'],
  subscriptions: ['lib', 'model', 'ops', 'protocol', 'sessions', 'upstream'],
  identity: ['lib', 'model', 'ops', 'protocol'],
  edge: ['dialects', 'lib', 'model', 'ops', 'protocol', 'subscriptions'],
  config: ['dialects', 'fleet', 'identity', 'lib', 'limits', 'model', 'protocol'],
  probe: ['config', 'lib', 'model', 'protocol', 'upstream'],
  doctor: ['config', 'fleet', 'identity', 'lib', 'model', 'ops', 'probe'],
  routes: [
    'calls',
    'catalogue',
    'config',
    'edge',
    'identity',
    'lib',
    'limits',
    'model',
    'ops',
    'protocol',
    'seal',
    'sessions',
    'subscriptions',
    'tasks',
    'upstream',
  ],
  front: [
    'catalogue',
    'config',
    'dialects',
    'edge',
    'identity',
    'lib',
    'limits',
    'model',
    'ops',
    'protocol',
    'routes',
    'seal',
    'tasks',
  ],
  app: [
    'calls',
    'config',
    'edge',
    'fleet',
    'front',
    'identity',
    'lib',
    'limits',
    'model',
    'ops',
    'routes',
    'seal',
  ],
  workers: ['app', 'config', 'fleet', 'lib', 'ops', 'routes', 'seal'],
  cli: ['app', 'config', 'connect', 'doctor', 'lib', 'ops', 'probe', 'routes', 'seal', 'workers'],
};

/** Folders in a folder that know less than the rest of it. */
const PARTS = {
  'front/passthrough': ['edge', 'lib', 'model'],
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
    ...Object.entries({ ...FOLDERS, ...PARTS }).map(([name, imports]) => ({
      name: `${name.replaceAll('/', '-')}-imports-what-it-may`,
      comment: 'Folders that do not know each other meet in `routes`, which puts a route together.',
      severity: 'error',
      from: { path: `^src/${name}/` },
      to: { path: '^src/', pathNot: `^src/(?:${[name, ...imports].join('|')})/` },
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
