import { describe, expect, test } from 'vitest';
import { namedRoute, protectedResource } from '../../../src/identity/protected-resource.ts';

const WELL_KNOWN = '/.well-known/oauth-protected-resource';
const ISSUER = 'https://auth.example.com';

function described(resource: string, path: string, paths: readonly string[]) {
  const metadata = {
    resource,
    scopesSupported: [],
  };
  const { metadataUrl, paths: at, document } = protectedResource(metadata, ISSUER, path, paths);
  return { metadataUrl, at, resource: document['resource'] };
}

// Rule tokens-10.
describe('the metadata of a route', () => {
  test.each([
    ['https://a.example/mcp', '/mcp', ['/mcp'], 'https://a.example/mcp', ['/mcp', '']],
    ['https://a.example', '/', ['/'], 'https://a.example', ['']],
    // A proxy in front adds a prefix, or has paths of its own.
    [
      'https://a.example/x/mcp',
      '/mcp',
      ['/mcp'],
      'https://a.example/x/mcp',
      ['/x/mcp', '/mcp', ''],
    ],
    [
      'https://a.example/tools',
      '/mcp',
      ['/mcp'],
      'https://a.example/tools',
      ['/tools', '/mcp', ''],
    ],
    // The URL of one route gives those of the others.
    [
      'https://a.example/x/one',
      '/one',
      ['/one', '/two'],
      'https://a.example/x/one',
      ['/x/one', '/one', ''],
    ],
    [
      'https://a.example/x/one',
      '/two',
      ['/one', '/two'],
      'https://a.example/x/two',
      ['/x/two', '/two'],
    ],
    ['https://a.example/one', '/', ['/one', '/'], 'https://a.example', ['']],
    ['https://a.example', '/one', ['/', '/one'], 'https://a.example/one', ['/one']],
  ])('with %s for %s of %j is that of %s, at %j', (configured, path, paths, resource, suffixes) => {
    const { pathname } = new URL(resource);
    expect(described(configured, path, paths)).toEqual({
      resource,
      metadataUrl: `https://a.example${WELL_KNOWN}${pathname === '/' ? '' : pathname}`,
      at: suffixes.map((suffix) => `${WELL_KNOWN}${suffix}`),
    });
  });

  test('leaves out what is not configured, and names the authorization server', () => {
    const metadata = {
      resource: 'https://a.example/mcp',
      scopesSupported: [],
    };
    expect(protectedResource(metadata, ISSUER, '/mcp', ['/mcp']).document).toEqual({
      resource: 'https://a.example/mcp',
      authorization_servers: [ISSUER],
      bearer_methods_supported: ['header'],
    });
  });

  test('of several routes needs the path of one of them', () => {
    expect(namedRoute('https://a.example/x', ['/one', '/two'])).toBeNull();
    expect(namedRoute('https://a.example/x/one', ['/', '/one'])).toBe('/one');
  });
});
