/**
 * How two replicas agree on the keys of a connection: an HTTP upgrade (RFC 9110, section 7.8) on the port of the
 * relay, in which each sends the other a secret, sealed for it. A recorded handshake is worth nothing, since the keys
 * come from both secrets.
 */
import { createSecretKey, hkdfSync, randomBytes, type KeyObject } from 'node:crypto';
import { request, type IncomingMessage, type Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { z } from 'zod';
import { parseJson } from '../../../protocol/json.ts';
import { openBytes, sealBytes } from '../../../seal/envelope.ts';
import { SECRET_BYTES, type KeyRing } from '../../../seal/key-ring.ts';

/** The version of the frames and of the texts in them. */
const PROTOCOL = 'mrtr-relay/1';
const PATH = '/relay/';
const HELLO_HEADER = 'mrtr-relay-hello';
const MAX_HELLO_LENGTH = 1_024;
const CONNECT_TIMEOUT_MS = 1_000;
/** How long the other side can take to answer, in ms. */
const HANDSHAKE_TIMEOUT_MS = 3_000;

/** This process. */
export interface Local {
  readonly ring: KeyRing<'frames'>;
  /** The name of the deployment. */
  readonly audience: string;
  /** Its name in pointers. */
  readonly instance: string;
}

/** A connection on whose keys both sides agree. */
export interface Agreed {
  readonly socket: Socket;
  /** The process at the other end. */
  readonly peer: string;
  readonly readKey: KeyObject;
  readonly writeKey: KeyObject;
}

/**
 * Why there is no connection.
 * - `gone`: nobody listens there, or another process does
 * - `broken`: the connection broke, and may be tried again
 * - `silent`: nothing answered in time
 */
export interface NotConnected {
  readonly type: 'gone' | 'broken' | 'silent';
  readonly problem: string;
}

/** A replica that wants to connect. A listener can hand it to the process that it names. */
export interface Arrival {
  /** The process that it wants to reach, as its name in pointers. Nobody has checked it. */
  readonly to: string;
  readonly hello: string;
  readonly socket: Socket;
  /** Bytes that arrived with the request. */
  readonly head: Buffer;
}

const hello = z.strictObject({
  v: z.literal(1),
  from: z.string().min(1).max(64),
  secret: z.base64url().length(43),
});

/** Connects to a process at an address. Never throws. */
export function connect(
  to: { readonly instance: string; readonly address: string },
  local: Local,
): Promise<Agreed | NotConnected> {
  const secret = randomBytes(SECRET_BYTES);
  const connecting = new Promise<Agreed | NotConnected>((resolve) => {
    const asking = request(new URL(PATH + encodeURIComponent(to.instance), to.address), {
      agent: false,
      headers: {
        connection: 'Upgrade',
        upgrade: PROTOCOL,
        [HELLO_HEADER]: writeHello(local, to.instance, secret),
      },
      signal: AbortSignal.timeout(HANDSHAKE_TIMEOUT_MS),
    });
    asking.on('socket', (socket) => {
      socket.setTimeout(CONNECT_TIMEOUT_MS, () => {
        if (socket.connecting) asking.destroy(new Error('no connection in time'));
      });
    });
    asking.on('upgrade', ({ headers }, socket, head) => {
      const answer = readHello(local, headers[HELLO_HEADER]);
      if (answer?.from === to.instance && isSocket(socket)) {
        const { readKey, writeKey } = keysOf(secret, answer.secret, 'requester');
        socket.unshift(head);
        resolve({ socket, peer: to.instance, readKey, writeKey });
      } else {
        socket.destroy();
        resolve({ type: 'silent', problem: 'it sent an invalid hello' });
      }
    });
    asking.on('response', (response) => {
      response.on('error', () => {}).destroy();
      const problem = `it responded with HTTP ${response.statusCode}`;
      // 421: another process has this address now.
      resolve({ type: response.statusCode === 421 ? 'gone' : 'silent', problem });
    });
    asking.on('error', (error) => resolve(failureOf(error)));
    asking.end();
  });
  // Addresses come from other replicas, and this one cannot send a request to every text.
  return connecting.catch(failureOf);
}

function failureOf(error: Error): NotConnected {
  const code = 'code' in error ? error.code : '';
  if (code === 'ECONNREFUSED') return { type: 'gone', problem: error.message };
  const isBroken = code === 'ECONNRESET' || code === 'EPIPE';
  // All that the error of a signal says is that it was one.
  const problem =
    code === 'ABORT_ERR' ? `it did not answer within ${HANDSHAKE_TIMEOUT_MS} ms` : error.message;
  return { type: isBroken ? 'broken' : 'silent', problem };
}

/** Passes each replica that wants to connect on, and refuses all other upgrades. */
export function takeArrivals(server: Server, onArrival: (arrival: Arrival) => void): void {
  server.on('upgrade', (asked, socket, head) => {
    // Nobody else listens while it waits for a worker, and an error without a listener ends the process.
    socket.on('error', () => {});
    const arrival = readArrival(asked, socket, head);
    if (arrival === null) refuse(socket);
    else onArrival(arrival);
  });
}

function readArrival(
  { url, headers }: IncomingMessage,
  socket: Duplex,
  head: Buffer,
): Arrival | null {
  const offered = headers.upgrade?.split(',').map((name) => name.trim()) ?? [];
  const sealed = headers[HELLO_HEADER];
  const isAsked = offered.includes(PROTOCOL) && url?.startsWith(PATH) === true;
  if (!isAsked || typeof sealed !== 'string' || !isSocket(socket)) return null;
  return { to: url.slice(PATH.length), hello: sealed, socket, head };
}

/** Answers a replica that wants to connect. @returns `null` if it was refused */
export function accept({ hello: sealed, socket, head }: Arrival, local: Local): Agreed | null {
  const requester = readHello(local, sealed);
  if (requester === null) {
    refuse(socket);
    return null;
  }
  const secret = randomBytes(SECRET_BYTES);
  const answer = writeHello(local, requester.from, secret);
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${PROTOCOL}\r\n` +
      `${HELLO_HEADER}: ${answer}\r\n\r\n`,
  );
  const { readKey, writeKey } = keysOf(requester.secret, secret, 'owner');
  socket.unshift(head);
  return { socket, peer: requester.from, readKey, writeKey };
}

const REFUSAL =
  'HTTP/1.1 421 Misdirected Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n';

/** Refuses a replica that is none of this deployment, or wants to reach a process that is not here. */
export function refuse(socket: Duplex): void {
  socket.end(REFUSAL, () => socket.destroy());
}

function writeHello({ ring, audience, instance }: Local, to: string, secret: Buffer): string {
  const content: z.infer<typeof hello> = {
    v: 1,
    from: instance,
    secret: secret.toString('base64url'),
  };
  return sealBytes(ring, { audience, key: to }, Buffer.from(JSON.stringify(content)));
}

/** @returns `null` if it is not from a replica of this deployment to this process */
function readHello({ ring, audience, instance }: Local, sealed: unknown) {
  try {
    const bytes = openBytes(ring, { audience, key: instance }, sealed, MAX_HELLO_LENGTH);
    const { from, secret } = hello.parse(parseJson(bytes.toString('utf8')));
    return { from, secret: Buffer.from(secret, 'base64url') };
  } catch {
    return null;
  }
}

/** Derives a key for each direction with HKDF-SHA256 (RFC 5869). */
function keysOf(requesterSecret: Buffer, ownerSecret: Buffer, side: 'requester' | 'owner') {
  const secrets = Buffer.concat([requesterSecret, ownerSecret]);
  const info = `mrtr-gateway/frames/${PROTOCOL}`;
  const keys = Buffer.from(hkdfSync('sha256', secrets, '', info, 2 * SECRET_BYTES));
  const ofRequester = createSecretKey(keys.subarray(0, SECRET_BYTES));
  const ofOwner = createSecretKey(keys.subarray(SECRET_BYTES));
  return side === 'requester'
    ? { writeKey: ofRequester, readKey: ofOwner }
    : { writeKey: ofOwner, readKey: ofRequester };
}

function isSocket(stream: Duplex): stream is Socket {
  return 'setNoDelay' in stream;
}
