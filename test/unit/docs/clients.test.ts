/** What docs/clients.md says of clients, and the gateway goes by. */
import { expect, test } from 'vitest';
import { KNOWN_CLIENTS } from '../../../src/model/known-clients.ts';
import { tableWith, textOf } from './markdown-tables.ts';

test('the rounds that clients stand are the same in docs/clients.md and in the code', () => {
  const table = tableWith(textOf('docs/clients.md'), 'Client', '`clientInfo.name`');
  const known = KNOWN_CLIENTS.map(({ client, name, stateOnly, rounds }) => [
    client,
    name === null ? 'of the application' : `\`${name}\``,
    stateOnly === null ? 'as any others' : String(stateOnly),
    rounds === null ? 'not known' : String(rounds),
  ]);
  expect(table.rows).toEqual(known);
});
