/** The keys of `seal`: the secrets. */
import { z } from 'zod';
import { section, text, NAME } from './fields.ts';

const SEAL_KEY = /^[A-Za-z0-9_-]{43}=?$/;
const SECRET_BYTES = 32;

export const seal = section({
  keys: z
    .array(
      section(
        {
          kid: text(NAME, 'a name (letters, digits, "_" and "-", at most 64)', 'name').describe(
            'The public name of the key. Everybody can read it in what the key seals.',
          ),
          key: text(
            SEAL_KEY,
            `${SECRET_BYTES} bytes as base64url, as "mrtr-gateway keygen" prints them`,
            `${SECRET_BYTES} bytes as base64url`,
          )
            .transform((written) => written.replace(/=$/, ''))
            .describe('The secret: 32 random bytes. Can be a `file:/path` reference.'),
        },
        'a map with kid and key',
      ),
      { error: 'a list of keys, each with kid and key' },
    )
    .max(16, { error: 'at most 16 keys' })
    .meta({ title: 'list' })
    .prefault([])
    .describe(
      'The first key encrypts; all keys decrypt. If empty, a key is generated at start, and parked calls do not survive a restart.',
    ),
  audience: text(/^[\x21-\x7e]{1,128}$/, 'a name of 1 to 128 printable ASCII characters', 'name')
    .default('mrtr-gateway')
    .describe(
      'The name of the deployment. All its replicas share it, and no other deployment must use it.',
    ),
})
  .prefault({})
  .describe('How pointers to parked calls are sealed.');
