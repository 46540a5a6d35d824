/** What docs/clients.md says of clients, and the gateway goes by. */
import { expect, test } from 'vitest';
import { KNOWN_CLIENTS } from '../../../src/model/known-clients.ts';
import { CLIENTS, DOCUMENTED } from '../../../sweep/clients/published.ts';
import { readResults } from '../../../sweep/clients/results.ts';
import { table } from '../../../sweep/clients/table.ts';
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

test('the clients that were run are in docs/clients.md as their results say', () => {
  const written = tableWith(textOf('docs/clients.md'), 'Client', 'Begins with');
  const made = tableWith(`${table(CLIENTS, readResults(), DOCUMENTED)}\n`, 'Client');
  expect(written).toEqual(made);
});

test('each client that is run has results, of the version that is pinned', () => {
  const versions = (
    of: readonly { name: string; setting?: string | undefined; version: string }[],
  ) => of.map(({ name, setting = '', version }) => `${name} ${version} ${setting}`).sort();
  const pinned = CLIENTS.map(({ name, setting, package: { version } }) => ({
    name,
    setting,
    version,
  }));
  expect(versions(readResults())).toEqual(versions(pinned));
});
