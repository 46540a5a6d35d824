import { describe, expect, test } from 'vitest';
import { MessagePaths } from '../../../../src/upstream/transport/http-sse/message-paths.ts';

const SERVER = new URL('http://server.test/v/7/sse?tenant=12');
const UUID = '0f0e1b9e-6a5b-4f3c-9d2e-1a2b3c4d5e6f';
const OTHER_UUID = '7A0E1B9E-6A5B-4F3C-9D2E-1A2B3C4D5E60';

const pathsTold = (ownPath: string) => {
  const paths = new MessagePaths(SERVER);
  paths.toldUs(new URL(ownPath, SERVER));
  return paths;
};

describe('a path that was told', () => {
  test('to the gateway holds until the gateway is told another', () => {
    const paths = pathsTold('/message?sessionId=1');
    expect([paths.has('/message'), paths.has('/message/')]).toEqual([true, false]);
    paths.toldUs(new URL('/other', SERVER));
    expect([paths.has('/message'), paths.has('/other')]).toEqual([false, true]);
  });

  test('to clients holds for as long as one of their streams is open', () => {
    const paths = new MessagePaths(SERVER);
    const [one, other] = [paths.toldClient('/m/1'), paths.toldClient('/m/1?again')];
    one();
    expect(paths.has('/m/1')).toBe(true);
    other();
    expect(paths.has('/m/1')).toBe(false);
  });

  test.each([
    ['message', '/v/7/message'],
    ['../message?x#y', '/v/message'],
    ['http://server.test/absolute', '/absolute'],
    ['//server.test/%6dessage', '/%6dessage'],
  ])('as %s is %s', (endpoint, path) => {
    const paths = new MessagePaths(SERVER);
    paths.toldClient(endpoint);
    expect(paths.has(path)).toBe(true);
  });

  test.each([
    ['http://elsewhere.test/message', '/message'],
    ['https://server.test/message', '/message'],
    ['//elsewhere.test/message', '/message'],
    ['http://', '/'],
    [`/${'m'.repeat(2000)}`, `/${'m'.repeat(2000)}`],
  ])('as %s is none of the server’s', (endpoint, path) => {
    const paths = new MessagePaths(SERVER);
    paths.toldClient(endpoint)();
    paths.toldClient(endpoint);
    expect(paths.has(path)).toBe(false);
  });
});

describe('a path resembles that of the gateway’s own session', () => {
  test.each([
    ['/messages/1', '/messages/2000'],
    [`/messages/${UUID}`, `/messages/${OTHER_UUID}`],
    [`/s/${UUID}/message`, `/s/${OTHER_UUID}/message`],
    ['/m/V1StGXR8_Z5jdHi6B-myT', '/m/aaaaaaaaaaaaaaaaaaaAB'],
  ])('with another id in its place: %s and %s', (own, path) => {
    expect(pathsTold(own).resembles(path)).toBe(true);
  });

  test.each([
    ['/message', '/messages'],
    ['/message', '/admin'],
    ['/messages/1', '/messages/reset'],
    ['/messages/1', '/messages/'],
    ['/messages/1', '/messages/2/delete'],
    ['/messages/1', '/messages'],
    ['/messages/1', '/admin/2'],
    ['/messages/1', `/messages/${UUID}`],
    [`/messages/${UUID}`, '/messages/1'],
    ['/messages/notification-center', '/messages/acknowledge-center'],
    ['/m/V1StGXR8_Z5jdHi6B-myT', '/m/V1StGXR8_Z5jdHi6B-my'],
    [`/t/1/${UUID}`, `/t/2/${OTHER_UUID}`],
  ])('and not otherwise: %s and %s', (own, path) => {
    expect(pathsTold(own).resembles(path)).toBe(false);
  });

  // Rule passthrough-10.
  test.each([
    ['/v/7/message', '/v/8/message'],
    ['/v/9/message', '/v/7/message'],
    ['/tenants/12/message', '/tenants/13/message'],
  ])('and not where the operator’s URL names what differs: %s and %s', (own, path) => {
    expect(pathsTold(own).resembles(path)).toBe(false);
  });

  test('and not before there was one, whatever clients were told', () => {
    const paths = new MessagePaths(SERVER);
    paths.toldClient('/messages/1');
    expect(paths.resembles('/messages/2')).toBe(false);
  });
});
