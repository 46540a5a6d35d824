import { expect, test } from 'vitest';
import {
  networkHint,
  variablesHint,
} from '../../../../../src/upstream/transport/stdio/passed-variables.ts';

test.each([
  [{ PATH: '/bin', NO_PROXY: 'a' }, {}, ''],
  [{ HTTPS_PROXY: '', https_proxy: undefined }, {}, ''],
  [{ HTTPS_PROXY: 'http://ada:hunter2@a' }, { https_proxy: 'http://b' }, ''],
  [{ node_extra_ca_certs: 'a' }, {}, ''],
  [
    { HTTPS_PROXY: 'http://ada:hunter2@a' },
    {},
    '; HTTPS_PROXY of the gateway is not passed on to it: --env NAME passes it on (upstream.env in a file)',
  ],
  [
    { http_proxy: 'a', NPM_CONFIG_REGISTRY: 'b', NODE_EXTRA_CA_CERTS: 'c' },
    { HTTPS_PROXY: 'd' },
    '; NODE_EXTRA_CA_CERTS, NPM_CONFIG_REGISTRY, http_proxy of the gateway are not passed on to it: --env NAME passes one on (upstream.env in a file)',
  ],
])('the variables of %j that %j lacks are named, without their values', (own, passed, hint) => {
  expect(networkHint(own, passed)).toBe(hint);
});

test.each([
  [
    { API_KEY: 'hunter2', PATH: '/bin' },
    { PATH: '/bin' },
    "KeyError: 'API_KEY'",
    '; API_KEY of the gateway is not passed on to it: --env NAME passes it on (upstream.env in a file)',
  ],
  [
    { TENANT: 'a', API_KEY: 'hunter2' },
    {},
    'set API_KEY and TENANT',
    '; API_KEY, TENANT of the gateway are not passed on to it: --env NAME passes one on (upstream.env in a file)',
  ],
  [
    { PATH: '/bin', HOME: '/' },
    { PATH: '/bin', HOME: '/', LEVEL: 'x' },
    "KeyError: 'API_KEY'",
    '; of variables it got HOME, LEVEL, PATH: --env NAME passes another one on (upstream.env in a file)',
  ],
  [
    {},
    {},
    '',
    '; of variables it got none: --env NAME passes another one on (upstream.env in a file)',
  ],
])('of %j, a server that got %j and wrote %j is told of: %s', (own, passed, words, hint) => {
  expect(variablesHint(own, passed, words)).toBe(hint);
});
