import { describe, expect, test } from 'vitest';
import { configOf, problemsOf, withRoute } from './problems-of.ts';

const KEY = 'A'.repeat(43);
const KEYS = `seal: {keys: [{kid: a, key: ${KEY}}]}\n`;
const OTHER_KEY = 'B'.repeat(43);

describe('each wrong field has one line with its place, its name, what was expected and what was found', () => {
  test.each([
    ['listen: 8080\n', /^3:9 listen: expected an address such as .*, got 8080$/],
    ['listen: "1.2.3.4:99999"\n', /listen: expected an address .*, got "1\.2\.3\.4:99999"$/],
    ['admin: no\n', /^3:8 admin: expected an address .*, or off, got "no"$/],
    ['admin: 127.0.0.1:8080\n', /^3:8 admin: expected a port other than that of listen/],
    [
      'identity: {source: jwks}\n',
      /^3:20 identity\.source: expected none, header or jwt, got "jwks"$/,
    ],
    [
      'identity: {source: jwt, issuer: auth, audiences: [a], jwks: {file: /keys}}\n',
      /^3:33 identity\.issuer: expected the issuer as the tokens name it/,
    ],
    [
      'identity: {source: jwt, issuer: "https://a", audiences: [], jwks: {file: /keys}}\n',
      /^3:57 identity\.audiences: expected a list of at least one audience, got an empty list$/,
    ],
    [
      'identity: {source: jwt, issuer: "https://a", audiences: [a], jwks: {url: "http://a", file: /a}}\n',
      /^3:92 identity\.jwks\.file: expected no file, since there is url, got "\/a"$/,
    ],
    [
      'identity: {source: jwt, issuer: "https://a", audiences: [a], jwks: {}}\n',
      /^3:62 identity\.jwks\.url: expected the URL of the keys, or file instead, got nothing$/,
    ],
    [
      'identity: {source: jwt, issuer: "https://a", audiences: [a], jwks: {file: keys}}\n',
      /identity\.jwks\.file: expected an absolute path, got "keys"$/,
    ],
    [
      'identity: {source: jwt, issuer: "https://a", audiences: [a], jwks: {url: "http://a", flie: /a}}\n',
      /identity\.jwks\.flie: unknown key; did you mean "file"\?$/,
    ],
    ['identity: {source: header}\n', /^3:1 identity\.header: expected .*, got nothing$/],
    ['identity: {source: header, header: Cookie}\n', /identity\.header: .* trusted proxy/],
    ['identity: {source: none, header: X-A}\n', /^3:26 identity\.header: unknown key; /],
    [
      'identity: {credentialHeaders: [Host]}\n',
      /^3:32 identity\.credentialHeaders\[0\]: expected another header \(the gateway sets it, see upstream\.hostHeader\), got "Host"$/,
    ],
    [
      'identity: {credentialHeaders: [Mcp-Session-Id]}\n',
      /expected another header \(MCP defines it\), got "Mcp-/,
    ],
    [
      'identity: {credentialHeaders: [Content-Type]}\n',
      /another header \(it describes one message\)/,
    ],
    ['identity: {credentialHeaders: [TE]}\n', /another header \(it belongs to one connection\)/],
    [
      'identity: {credentialHeaders: [Authorization]}\n',
      /another header \(upstream\.authorization decides/,
    ],
    ['identity: {credentialHeaders: [X-Forwarded-For]}\n', /another header \(proxies set it\)/],
    ['identity: {credentialHeaders: ["a b"]}\n', /expected the name of an HTTP header, got "a b"$/],
    [
      'identity: {source: header, header: X-A, credentialHeaders: [x-a]}\n',
      /credentialHeaders\[0\]: expected a header other than identity\.header, which names/,
    ],
    [`seal: {keys: [{kid: a b, key: ${KEY}}]}\n`, /seal\.keys\[0\]\.kid: expected a name/],
    ['seal: {audience: ""}\n', /^3:18 seal\.audience: expected a name .*, got ""$/],
    ['drain: {delay: 11m}\n', /drain\.delay: expected a duration from 0s to 10m, .*"11m"$/],
    ['drain: {delay: -1}\n', /drain\.delay: expected a duration from 0s .*, got -1$/],
    ['edge: {allowedOrigins: ["*"]}\n', /^3:25 edge\.allowedOrigins\[0\]: .*, got "\*"$/],
    ['edge: {allowedOrigins: [https://a/]}\n', /expected an origin .*, got "https:\/\/a\/"$/],
    ['edge: {trustedProxies: [10.0.0.0/33]}\n', /trustedProxies\[0\]: expected an IP address or/],
    ['edge: {trustedProxies: [proxy.example]}\n', /trustedProxies\[0\]: expected an IP address or/],
    ['edge: {allowedOrigins: https://a}\n', /allowedOrigins: expected a list of origins, got/],
    [
      'limits: {maxBody: 4MB}\n',
      /limits\.maxBody: expected a size from 1KiB .*, got "4MB"; did you mean "4MiB"\?$/,
    ],
    ['limits: {maxParkedCalls: 1.5}\n', /limits\.maxParkedCalls: expected a whole number .*1\.5$/],
    [
      'limits: {maxParkedCalls: 5}\n',
      /maxParkedCallsPerPrincipal: expected at most .*\(5\), got 100$/,
    ],
    [`relay: {}\n${KEYS}`, /relay\.listen: expected an address .*via is http, got nothing$/],
    [`relay: {via: redis}\n${KEYS}`, /^3:14 relay\.via: expected http, since there is no redis/],
    ['relay: {listen: "127.0.0.1:8081"}\n', /seal\.keys: .* relay needs one .*keygen.*, got none$/],
    ['redis: {url: "redis://r"}\n', /seal\.keys: .* redis needs one .*keygen.*, got none$/],
    [
      `relay: {listen: ":8081"}\n${KEYS}`,
      /relay\.advertise: .*http:\/\/\$\{POD_IP\}:8081, got nothing$/,
    ],
    [
      `relay: {listen: ":9464", advertise: "http://a:1"}\n${KEYS}`,
      /^3:17 relay\.listen: expected a port other than that of admin/,
    ],
    [
      `relay: {listen: "127.0.0.1:0", advertise: "https://a"}\n${KEYS}`,
      /relay\.advertise: expected an http URL/,
    ],
    [
      `relay: {listen: "127.0.0.1:0", advertise: "http://a/b"}\n${KEYS}`,
      /relay\.advertise: expected an http URL/,
    ],
    [
      `redis: {url: "http://r"}\n${KEYS}`,
      /^3:14 redis\.url: expected a redis:\/\/ or rediss:\/\/ URL/,
    ],
    [`redis: {url: "redis://r/x"}\n${KEYS}`, /redis\.url: the path of a Redis URL is the number/],
    [`redis: {url: "redis://r/1", mode: cluster}\n${KEYS}`, /redis\.url: .* only database 0$/],
    [`redis: {url: "redis://r", mode: sentinel}\n${KEYS}`, /redis\.sentinel\.name: .*got nothing$/],
    [`redis: {url: "redis://r", nodes: [a]}\n${KEYS}`, /redis\.nodes\[0\]: expected an address/],
    [`redis: {url: "redis://r", nodes: ["a:65536"]}\n${KEYS}`, /redis\.nodes\[0\]: expected an/],
    ['limits:\n', /^3:8 limits: expected a map, got nothing$/],
    ['drain: {timeout: -1}\n', /drain\.timeout: expected a duration .*, got -1$/],
    ['drain: {timeout: .inf}\n', /drain\.timeout: expected a duration .*, got Infinity$/],
    ['log: {level: INFO}\n', /log\.level: expected one of trace, .*, got "INFO"$/],
    ['log: {format: [a]}\n', /log\.format: expected one of auto, json, pretty, got a list$/],
    ['lgo: {}\n', /^3:1 lgo: unknown key; did you mean "log"\?$/],
    [
      'telemetry: {}\n',
      /^3:1 telemetry: unknown key; expected one of listen, admin, adminActions, workers, routes/,
    ],
    ['"a\\nb": 1\n', /^3:1 \["a\\nb"\]: unknown key; /],
  ])('%j', (text, line) => {
    const problems = problemsOf(withRoute(text));
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatch(line);
  });

  test.each([
    ['    path: mcp\n', /^3:11 routes\[0\]\.path: expected a path .*, got "mcp"$/],
    ['    path: /mcp/\n', /routes\[0\]\.path: .*without a slash at its end/],
    ['    path: /a/../b\n', /routes\[0\]\.path: expected a path/],
    ['    path: "/:tenant"\n', /routes\[0\]\.path: expected a path/],
    ['    path: /healthz\n', /routes\[0\]\.path: path ".*" is reserved; use another/],
    ['    path: /.well-known/mcp\n', /routes\[0\]\.path: path ".*" is reserved; use another/],
    [
      '    dialects: {sagas: /healthz}\n',
      /^3:23 routes\[0\]\.dialects\.sagas: path "\/healthz" is reserved; use another/,
    ],
    [
      '    dialects: {rewritten: /.well-known/mcp}\n',
      /^3:27 routes\[0\]\.dialects\.rewritten: path ".*" is reserved; use another/,
    ],
    [
      '    dialects: {sagas: /mcp}\n',
      /^3:23 routes\[0\]\.dialects\.sagas: expected a unique path, got "\/mcp", which routes\[0\] has, too$/,
    ],
    [
      '    dialects: {sagas: /d, rewritten: /d}\n',
      /dialects\.\w+: expected a unique path, got "\/d", which routes\[0\]\.dialects\.\w+ has, too$/,
    ],
    ['    dialects: {saga: /d}\n', /^3:16 routes\[0\]\.dialects\.saga: .*"sagas"\?$/],
    ['    dialects: {sagas: drafts}\n', /dialects\.sagas: expected a path such as .*"drafts"$/],
    [
      '    publicUrl: mcp.example\n',
      /publicUrl: expected an http or https URL without .*, got "mcp/,
    ],
    [
      '    publicUrl: https://a/b\n  - {path: /c, publicUrl: https://a/c, upstream: {url: "http://c/", authorization: strip}}\n',
      /^4:\d+ routes\[1\]\.publicUrl: expected no publicUrl, since the server does not get the tokens/,
    ],
    ['    publicUrl: https://a/?b\n', /publicUrl: expected .* without credentials, query and/],
    [
      '    publicUrl: https://a/b\n  - {path: /c, publicUrl: https://a/b, upstream: {url: "http://c/"}}\n',
      /routes\[1\]\.publicUrl: expected a unique URL, .* which routes\[0\] has, too$/,
    ],
    ['    id: 7\n', /routes\[0\]\.id: expected a name .*, in quotes, got 7$/],
    ['    sessions: {scope: user}\n', /sessions\.scope: expected one of principal, call, shared/],
    ['    sessions: {Max: 1}\n', /^3:16 routes\[0\]\.sessions\.Max: .*"max"\?$/],
    [
      '    sessions: {concurrency: all}\n',
      /sessions\.concurrency: expected one of auto, together, separate, queue, got "all"$/,
    ],
    [
      '    limits: {rate: 5}\n',
      /limits\.rate: expected requests in a time of at most a day, such as 100\/s or 60\/1m, or off, got 5$/,
    ],
    [
      '    limits: {tools: {mail: {maxRunning: 0}}}\n',
      /limits\.tools\.mail\.maxRunning: expected a whole number from 1 to 1000000, or off, got 0$/,
    ],
    ['    parking: {ttl: 2h}\n', /parking\.ttl: expected at most parking\.callTtl \(1h\), got 2h$/],
    [
      '    calls: {maxHold: 1}\n',
      /calls\.maxHold: expected a duration from 1s to 1d, or off, got 1$/,
    ],
    [
      '    parking: {release: always}\n',
      /parking\.release: expected one of never, when-resumable, auto/,
    ],
    [
      '    parking: {release: when-resumable}\n    continuation: {reattach: false}\n',
      /parking\.release: expected never, since continuation\.reattach is false, got when-resumable/,
    ],
    [
      '    parking: {release: auto}\n    continuation: {reattach: false}\n',
      /parking\.release: expected never, since continuation\.reattach is false, got auto/,
    ],
    ['    continuation: {replay: {tools: a}}\n', /replay\.tools: expected a list of tool names/],
    ['    parking: {ttl: 8d}\n', /parking\.ttl: expected a duration from 1s to 7d, .*, got "8d"$/],
    ['    questions: {keyNames: {t: [1a]}}\n', /keyNames\.t\[0\]: expected a name .*, got "1a"$/],
    ['    questions: {keyNames: {t: a}}\n', /keyNames\.t: expected a list of names, got "a"$/],
    ['    continuation: {reattach: yes}\n', /: expected true or false, got "yes"$/],
    [
      '    tools: {allow: read}\n',
      /^3:20 routes\[0\]\.tools\.allow: expected a list of names of tools, got "read"$/,
    ],
    [
      '    tools: {allow: ["a*b"]}\n',
      /^3:21 .*tools\.allow\[0\]: expected names of tools, with "\*" only at the end, got "a\*b"$/,
    ],
    [
      '    prompts: {deny: [a, ""]}\n',
      /^3:25 .*prompts\.deny\[1\]: expected names of prompts, .*, got ""$/,
    ],
    [
      '    resources: {deny: ["x\\u200b"]}\n',
      /resources\.deny\[0\]: expected URIs of resources, with/,
    ],
    [
      '    tools: {alow: []}\n',
      /^3:13 routes\[0\]\.tools\.alow: unknown key; did you mean "allow"\?$/,
    ],
    [
      '    tools: {rules: []}\n',
      /tools\.rules: expected a list of at least one rule, got an empty list$/,
    ],
    [
      '    tools: {rules: [{tools: [a]}]}\n',
      /^3:21 .*tools\.rules\[0\]: expected a map with tools, and with scopes, claims or both \(allow has no conditions\), got a map$/,
    ],
    [
      '    tools: {rules: [{tools: [], scopes: [a]}]}\n',
      /^3:29 .*tools\.rules\[0\]\.tools: expected at least one of the tools, got an empty list$/,
    ],
    [
      '    tools: {rules: [{tools: [a], scopes: ["a b"]}]}\n',
      /tools\.rules\[0\]\.scopes\[0\]: expected a scope, got "a b"$/,
    ],
    [
      '    tools: {rules: [{tools: [a], claims: {g: {a: 1}}}]}\n',
      /tools\.rules\[0\]\.claims\.g: expected a text, a number, true or false, or a list of these, got a map$/,
    ],
    [
      '    tools: {rules: [{tools: [a], claims: {g: []}}]}\n',
      /rules\[0\]\.claims\.g: expected a text, a number/,
    ],
    [
      '    tools: {rules: [{tools: [a], scopes: [a]}]}\n',
      /^3:20 routes\[0\]\.tools\.rules: expected identity\.source: jwt, since only tokens have scopes and claims, got none$/,
    ],
  ])('in a route: %j', (text, line) => {
    const problems = problemsOf(withRoute('', text));
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatch(line);
  });

  test.each([
    ['url: ftp://x', /^1:27 .*upstream\.url: expected an http or https URL, got "ftp:\/\/x"$/],
    ['url: example.com/mcp', /upstream\.url: expected an http or https URL/],
    ['url: 5', /upstream\.url: expected an http or https URL, got 5$/],
    ['url: "http://a/#b"', /upstream\.url: expected a URL without a fragment/],
    [
      'transport: auto',
      /^1:11 .*upstream\.url: expected an http or https URL, or upstream\.command, got nothing$/,
    ],
    ['url: "http://localhost:8080/mcp"', /upstream\.url: .* got that of the gateway itself/],
    ['url: "http://a", headers: [A]', /upstream\.headers: expected a map of header names/],
    ['url: "http://a", headers: {Host: b}', /upstream\.headers: expected no header host/],
    [
      'url: "http://a", headers: {A: b, a: c}',
      /upstream\.headers: expected the header a only once/,
    ],
    ['url: "http://a", headers: {A: 5}', /headers\.A: .*in quotes, got an invalid value/],
    ['url: "http://a", headers: {A: "x\\r\\ny"}', /headers\.A: expected a header value/],
    [
      'url: "http://a", command: b',
      /upstream\.url: expected no url, since upstream\.command names/,
    ],
    ['command: a, transport: auto', /upstream\.transport: expected no transport, since .* stdio/],
    ['url: "http://a", args: [b]', /upstream\.args: expected no args without upstream\.command/],
    ['url: "http://a", cwd: /a', /cwd: expected no cwd without /],
    ['command: ""', /upstream\.command: expected the path or the name of a program, got ""$/],
    ['command: a, args: b', /upstream\.args: expected a list of texts, got "b"$/],
    [
      'command: a, args: [1]',
      /upstream\.args\[0\]: expected a text without NUL, in quotes, got 1$/,
    ],
    ['command: a, env: {A-B: c}', /upstream\.env: expected names of environment variables/],
    ['command: a, env: {A: 5}', /env\.A: expected a text without NUL, in quotes, got an invalid/],
  ])('in an upstream: %s', (text, line) => {
    const problems = problemsOf(`routes: [{upstream: {${text}}}]`);
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatch(line);
  });
});

describe('what must not occur twice', () => {
  const twice = (first: string, second: string) =>
    `routes:\n  - {upstream: {url: "http://a/"}, ${first}}\n  - {upstream: {url: "http://b/"}, ${second}}\n`;

  test('paths', () => {
    expect(problemsOf(twice('path: /a', 'path: /a'))).toEqual([
      '3:42 routes[1].path: expected a unique path, got "/a", which routes[0] has, too',
    ]);
  });

  test('paths of dialects', () => {
    expect(problemsOf(twice('path: /a', 'path: /b, dialects: {sagas: /a}'))).toEqual([
      '3:64 routes[1].dialects.sagas: expected a unique path, got "/a", which routes[0] has, too',
    ]);
  });

  test('ids, also those made from paths', () => {
    expect(problemsOf(twice('path: /a/b', 'path: /a-b'))).toEqual([
      '3:5 routes[1].id: expected a unique id, got "a-b", which routes[0] has, too',
    ]);
  });

  test('names of keys', () => {
    const keys = `seal: {keys: [{kid: a, key: ${KEY}}, {kid: a, key: ${OTHER_KEY}}]}\n`;
    expect(problemsOf(withRoute(keys))).toEqual([
      expect.stringMatching(/^3:\d+ seal\.keys\[1\]\.kid: expected a unique kid/),
    ]);
  });

  test('keys themselves', () => {
    const keys = `seal: {keys: [{kid: a, key: ${KEY}}, {kid: b, key: ${KEY}}]}\n`;
    expect(problemsOf(withRoute(keys))).toEqual([
      expect.stringMatching(/^3:\d+ seal\.keys\[1\]\.key: expected a new key/),
    ]);
  });

  test('keys of a map', () => {
    expect(problemsOf('log: {}\nlog: {}\n')).toEqual([
      '2:1 log: duplicate key; remove one of them',
    ]);
  });
});

describe('a file that is not a configuration at all', () => {
  test.each([
    ['', '1:1 routes: expected a list of at least one route, got nothing'],
    ['routes: []', '1:9 routes: expected a list of at least one route, got an empty list'],
    ['5', '1:1 expected a map with at least routes, got 5'],
    ['a: [1', '1:6 not valid YAML: wrong indentation, or a bracket that is not closed'],
    ['a: [\n  - b\n', '2:3 not valid YAML: bracket that is not closed, or a list with dashes'],
    ['a: &x *y', '1:7 not valid YAML (ALIAS_PROPS)'],
    ['a: 1\n---\nb: 1', '2:1 not valid YAML: more than one document'],
    ['listen: [::1]:80', '1:14 not valid YAML: unexpected text after the value'],
    ['\tlisten: a', '1:1 not valid YAML: tab as indentation'],
    ['a: "\\q"', '1:5 not valid YAML: unknown escape'],
    ['a: &x 1\nb: *x', '2:4 b: expected a value, got an alias'],
    ['a: !secret x', '1:4 not valid YAML: tag'],
    ['? [a]\n: 1', '1:3 expected a string as key'],
    ['1: 2', '1:1 expected a string as key'],
    ['__proto__: {listen: a}', '1:1 expected a string as key'],
    [`a: ${'['.repeat(40)}${']'.repeat(40)}`, 'nested too deep'],
    ['['.repeat(5_000), 'nested too deep'],
  ])('%j', (text, line) => {
    expect(problemsOf(text)[0]).toContain(line);
  });
});

test('a mistake in the syntax has one line, though the parser reports what follows from it', () => {
  const file =
    'routes:\n  - upstream: {url: ${UPSTREAM}}\n    parking: {ttl: 10m}\nlog: {level: info}\n';
  expect(problemsOf(file)).toEqual([
    '2:22 not valid YAML: unexpected text after the value; put the whole text in quotes',
  ]);
});

test('what else is wrong with an upstream is said beside a URL that is missing or too much', () => {
  expect(problemsOf('routes: [{upstream: {urll: "http://a/mcp", maxEvent: 4mb}}]\n')).toEqual([
    expect.stringMatching(
      /^1:11 routes\[0\]\.upstream\.url: expected an http or https URL, or .*, got nothing$/,
    ),
    expect.stringMatching(/^1:22 routes\[0\]\.upstream\.urll: unknown key; did you mean "url"\?$/),
    expect.stringMatching(/^1:54 routes\[0\]\.upstream\.maxEvent: expected a size from 1KiB/),
  ]);
  expect(problemsOf('routes: [{upstream: {command: a, url: "http://a/mcp", arg: [b]}}]\n')).toEqual(
    [
      expect.stringMatching(/upstream\.url: expected no url, since upstream\.command/),
      expect.stringMatching(/upstream\.arg: unknown key; did you mean "args"\?$/),
    ],
  );
});

describe('references that lead nowhere', () => {
  test('a variable that is not set is named, with what to do', () => {
    expect(problemsOf(withRoute('log: {level: "${LEVEL}"}\n'))).toEqual([
      '3:14 log.level: expected the environment variable LEVEL, which is not set (or write ${LEVEL:-default})',
    ]);
  });

  test.each(['${', '${}', '${A', '${A-B}', '${1A}', '${A:b}'])('%s is not understood', (text) => {
    expect(problemsOf(withRoute(`log: {level: "${text}"}\n`), { env: { A: 'info' } })[0]).toMatch(
      /^3:14 log\.level: expected \$\{NAME\} or /,
    );
  });

  test('members that every object has are no variables', () => {
    expect(problemsOf(withRoute('log: {level: "${constructor}"}\n'))[0]).toContain('is not set');
  });

  test('a file that cannot be read is a problem of the field that names it', () => {
    const text = withRoute('seal: {keys: [{kid: a, key: "file:/nope"}]}\n');
    expect(problemsOf(text)).toEqual([
      '3:29 seal.keys[0].key: expected a readable file, got "/nope"',
    ]);
  });
});

test('problems come in the order of the file, and all at once', () => {
  expect(
    problemsOf('log: {level: x}\nlisten: 5\nrouts: []\n').map((line) => line.slice(0, 4)),
  ).toEqual(['1:1 ', '1:14', '2:9 ', '3:1 ']);
});

test('of very many problems the first are shown and the rest is counted', () => {
  const text = withRoute(Array.from({ length: 50 }, (_, index) => `key${index}: 1\n`).join(''));
  const problems = problemsOf(text);
  expect(problems).toHaveLength(21);
  expect(problems.at(-1)).toBe('and 30 more problems');
});

describe('a server over stdio on an open listener', () => {
  const STDIO = 'listen: ":8080"\nroutes: [{upstream: {command: a}';

  test.each([
    ['', 'nothing'],
    [', sessions: {scope: principal}', 'principal'],
    [', sessions: {scope: call}', 'call'],
  ])('needs callers that can be told apart: %j', (sessions, got) => {
    const problems = problemsOf(`${STDIO}${sessions}}]\n`);
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatch(/routes\[0\]\.sessions.*: expected shared, or an identity, since /);
    expect(problems[0]).toMatch(new RegExp(`, got ${got}$`));
  });

  test.each([
    `${STDIO}, sessions: {scope: shared}}]\n`,
    `${STDIO}}]\nidentity: {source: header, header: X-User}\n`,
    'routes: [{upstream: {command: a}}]\n',
  ])('is accepted otherwise: %j', (text) => {
    expect(configOf(text).routes[0]?.upstream).toMatchObject({
      url: null,
      process: { command: 'a', args: [], env: {}, cwd: null },
    });
  });
});

describe('token exchange', () => {
  const TOKENS =
    'tokenExchange: {tokenEndpoint: "http://a/token", clientId: b, clientSecret: "canary"}';
  const JWT =
    'identity: {source: jwt, issuer: "https://a", audiences: [b], jwks: {url: "https://a/k"}}\n';

  test.each([
    ['authorization: exchange', JWT, /tokenExchange: expected a map with tokenEndpoint/],
    [TOKENS, JWT, /authorization: expected exchange, since there is a tokenExchange, got strip$/],
    [`authorization: exchange, ${TOKENS}`, '', /expected identity\.source: jwt/],
    [
      `authorization: exchange, headers: {Authorization: a}, ${TOKENS}`,
      JWT,
      /headers: expected no Authorization/,
    ],
    [
      `authorization: exchange, ${TOKENS.replace('//a/', '//b:canary@a/')}`,
      JWT,
      /tokenEndpoint: expected a URL without credentials \(use clientId and clientSecret\)/,
    ],
  ])('with %s', (upstream, rest, problem) => {
    const problems = problemsOf(
      `routes: [{upstream: {url: "http://s:1/mcp", ${upstream}}}]\n${rest}`,
    );
    expect(problems).toEqual([expect.stringMatching(problem)]);
    expect(problems.join()).not.toContain('canary');
  });
});
