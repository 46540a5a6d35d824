/** The keys and certificates that the configuration names: whether they can be read, and for how long they are valid. */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { formatPath, type FieldPath } from '../config/load/problem.ts';
import type { Config } from '../config/schema.ts';
import { readKeys, type JwksSource } from '../identity/key-set.ts';
import type { Clock } from '../lib/clock.ts';
import type { Environment } from '../lib/program.ts';
import { messageOf } from '../lib/shown-text.ts';
import { finder, type Finding } from './finding.ts';

/** As the gateway takes them: issuers add members of their own. A private key is a mistake. */
const publicKeys = z.looseObject({
  keys: z.array(
    z.looseObject({
      kty: z.string().regex(/^(?!oct$)/),
      use: z.string().optional(),
      d: z.undefined().optional(),
    }),
  ),
});

/** Reads the keys that access tokens are verified with. */
export async function checkJwks({ url, file }: JwksSource, clock: Clock): Promise<Finding> {
  const { ok, warning, failed } = finder('jwks');
  const name = url === null ? (file ?? '') : `${url.origin}${url.pathname}`;
  const without = 'without keys every token is refused';
  try {
    const { data, error } = publicKeys.safeParse(await readKeys({ url, file }, clock));
    if (error !== undefined) return failed(`${name} is not a set of public keys; ${without}`);
    const usable = data.keys.filter(({ use }) => use === undefined || use === 'sig').length;
    if (usable === 0) return failed(`${name} has no key for signatures; ${without}`);
    const text = `${name} has ${usable} key${usable === 1 ? '' : 's'}`;
    return url?.protocol === 'http:'
      ? warning(`${text}, fetched without TLS: use https`)
      : ok(text);
  } catch (error) {
    return failed(`${name} cannot be read (${messageOf(error)}); ${without}`);
  }
}

const DAY_MS = 86_400_000;
/** Time to order a new certificate. */
const SOON_DAYS = 21;
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** Looks at all certificates that are in the configuration, and those of NODE_EXTRA_CA_CERTS. Files of the configuration are read already. */
export async function checkCertificates(
  config: Config,
  env: Environment,
  nowMs: number,
): Promise<Finding[]> {
  const own = [...textsIn(config, [])].flatMap(({ path, text, beside }) => {
    const isCertificate = path.at(-1) === 'cert' || path.at(-1) === 'ca';
    if (!isCertificate && !text.includes('-----BEGIN CERTIFICATE-----')) return [];
    return [findingOf(formatPath(path), text, nowMs, keyBeside(path, beside))];
  });
  const extra = env['NODE_EXTRA_CA_CERTS'];
  if (!extra) return own;
  const name = 'NODE_EXTRA_CA_CERTS';
  const ofSystem = await readFile(extra, 'utf8').then(
    (text) => findingOf(name, text, nowMs, null),
    (error: unknown) =>
      finder('certificate', name).failed(
        `cannot be read (${messageOf(error)}), and Node.js goes on without it: servers with a certificate of that authority are refused`,
      ),
  );
  return [...own, ofSystem];
}

/** @param key the private key of the certificate, as PEM; `null` for authorities, of which some can have expired */
function findingOf(name: string, pem: string, nowMs: number, key: string | null): Finding {
  const { ok, warning, failed } = finder('certificate', name);
  try {
    const all = (pem.match(CERTIFICATE) ?? []).map((each) => new X509Certificate(each));
    const [first] = all;
    if (first === undefined) return failed('there is no certificate in it; expected PEM');
    if (key !== null && !first.checkPrivateKey(createPrivateKey(key))) {
      return failed('the key beside it is that of another certificate');
    }
    const valid = all.filter(({ validTo }) => Date.parse(validTo) > nowMs);
    const soonest = valid.toSorted((a, b) => Date.parse(a.validTo) - Date.parse(b.validTo))[0];
    const expired = key === null ? undefined : all.find((each) => !valid.includes(each));
    if (soonest === undefined || expired !== undefined) {
      const { validTo } = expired ?? first;
      return failed(
        `${nameOf(expired ?? first)} expired on ${validTo}: put a new one in its place`,
      );
    }
    if (Date.parse(first.validFrom) > nowMs) {
      return failed(`${nameOf(first)} is not valid before ${first.validFrom}`);
    }
    const days = Math.floor((Date.parse(soonest.validTo) - nowMs) / DAY_MS);
    const of = all.length === 1 ? '' : ` is the next of ${all.length} that`;
    const text = `${nameOf(soonest)}${of} expires in ${days} days`;
    // A bundle of authorities has always one that is about to expire.
    return days < SOON_DAYS && all.length === 1 ? warning(`${text}: order a new one`) : ok(text);
  } catch (error) {
    return failed(`cannot be used (${messageOf(error)}); expected PEM`);
  }
}

function nameOf({ subject }: X509Certificate): string {
  return subject.split('\n').at(-1) ?? '';
}

interface Text {
  readonly path: FieldPath;
  readonly text: string;
  /** The map that has it. */
  readonly beside: object;
}

/** Finds the texts of a configuration, so that a certificate is seen in whatever key it is. */
function* textsIn(value: unknown, path: FieldPath): Iterable<Text> {
  if (typeof value !== 'object' || value === null || value instanceof URL) return;
  const isList = Array.isArray(value);
  for (const [name, member] of Object.entries(value)) {
    const at = [...path, isList ? Number(name) : name];
    if (typeof member === 'string') yield { path: at, text: member, beside: value };
    else yield* textsIn(member, at);
  }
}

function keyBeside(path: FieldPath, beside: object): string | null {
  const key = path.at(-1) === 'cert' && 'key' in beside ? beside.key : null;
  return typeof key === 'string' ? key : null;
}
