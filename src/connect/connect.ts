/** What `connect` finds of clients, and what it would change. */
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { messageOf } from '../lib/shown-text.ts';
import { CLIENT_PROGRAMS, type ClientProgram } from '../model/client-programs.ts';
import { isJsonObject } from '../protocol/json.ts';
import { CONNECTABLE_NAMES, formatOf, type ConnectableName, type Home } from './clients.ts';
import { diffOf } from './diff.ts';
import { jsonText, tomlText, withJsonEntry, withTomlEntry, type Entry } from './edit.ts';
import { readUserFile, type UserFile } from './write.ts';

export interface FoundClient {
  readonly name: ConnectableName;
  readonly client: string;
  readonly file: string;
  readonly isInstalled: boolean;
}

/** Lists all clients whose files are known, and whether they are on this machine. */
export function findClients(home: Home): FoundClient[] {
  return CONNECTABLE_NAMES.map((name) => {
    const { file: fileOf, hasFolder } = formatOf(name);
    const { client } = CLIENT_PROGRAMS[name];
    const file = variantOf(fileOf(home));
    const isInstalled = existsSync(hasFolder ? dirname(file) : file);
    return { name, client, file, isInstalled };
  });
}

/** A file with comments can have a name of its own. */
function variantOf(file: string): string {
  const withComments = file.replace(/\.json$/, '.jsonc');
  return !existsSync(file) && existsSync(withComments) ? withComments : file;
}

export interface Change {
  readonly found: FoundClient;
  readonly before: UserFile;
  /** The whole new text; `null` if it has to be written by hand. */
  readonly after: string | null;
  /** Why it cannot be written. */
  readonly problem: string | null;
  /** Whether an entry of this name is there. */
  readonly replaces: boolean;
  /** The entry alone, for a person to copy. */
  readonly snippet: string;
  readonly diff: readonly string[];
  /** What its user has to know, a sentence each. */
  readonly notes: readonly string[];
}

const JSON_BY_HAND =
  'it has comments, or is not as expected, so that it is not changed by a program';
const TOML_BY_HAND =
  'it has this entry, all servers in one table, or features already, which are not changed by a program';

/** Works out how a client gets an entry. It writes nothing. */
export async function changeOf(found: FoundClient, name: string, url: string): Promise<Change> {
  const format = formatOf(found.name);
  const program: ClientProgram = CLIENT_PROGRAMS[found.name];
  const entry: Entry = { servers: format.servers, name, value: format.entry(url) };
  const isToml = found.file.endsWith('.toml');
  const feature = isToml ? 'mcp_2026_07_28 = true' : null;
  const snippet = isToml ? tomlText(entry, feature) : jsonText(entry);
  const edit = (json: string) => withJsonEntry(json, entry);
  let before: UserFile = { path: found.file, text: null, mode: 0, owner: null };
  let [after, problem]: [string | null, string | null] = [null, null];
  try {
    before = await readUserFile(found.file);
    const text = before.text ?? '';
    after = isToml ? withTomlEntry(text, entry, feature) : edit(text);
  } catch (error) {
    problem = `it cannot be changed (${messageOf(error)})`;
  }
  const text = before.text ?? '';
  const isOneLine = !text.trim().includes('\n');
  const byHand = isToml ? TOML_BY_HAND : JSON_BY_HAND;
  return {
    found,
    before,
    after,
    problem: problem ?? (after === null ? byHand : null),
    replaces: !isToml && hasEntry(text, entry),
    snippet,
    // Nothing of a TOML file is repeated, since no parser tells where its values are, nor of one long line.
    diff: after === null || isToml || isOneLine ? linesAdded(snippet) : diffOf(text, edit),
    notes: [...(format.note === undefined ? [] : [format.note]), noteOn(program, feature !== null)],
  };
}

function linesAdded(text: string): string[] {
  return text
    .trimEnd()
    .split('\n')
    .map((line) => `+ ${line}`);
}

function hasEntry(text: string, { servers, name }: Entry): boolean {
  try {
    const data: unknown = JSON.parse(text);
    const map = isJsonObject(data) ? data[servers] : null;
    return isJsonObject(map) && Object.hasOwn(map, name);
  } catch {
    return false;
  }
}

/** Says which protocol the client speaks then, and what that means for questions. */
function noteOn({ client, modern, canBeAsked, ...program }: ClientProgram, isSet: boolean): string {
  const asked = canBeAsked === false ? ' It cannot be asked.' : '';
  const older =
    'a legacy server over HTTP asks it directly, and one over stdio gets a process for it';
  const switched = isSet
    ? `${client} speaks 2026-07-28 with the switch that is added.`
    : `${client} speaks 2026-07-28 only with ${program.switch}.`;
  const notes = {
    yes: `${client} speaks 2026-07-28 by itself.`,
    'switched-on': switched,
    no: `${client} speaks an older revision: ${older}.`,
    unknown: `Whether ${client} speaks 2026-07-28 is not known. If not, ${older}.`,
  };
  return `${notes[modern]}${asked}`;
}
