/** `mrtr-gateway connect`: puts the gateway into the configuration of a client, after it has shown the change. */
import { homedir } from 'node:os';
import type { Home } from '../connect/clients.ts';
import { changeOf, findClients, type Change } from '../connect/connect.ts';
import { replace } from '../connect/write.ts';
import { messageOf } from '../lib/shown-text.ts';
import type { CommandOf, Host } from './arguments.ts';
import { EXIT, type ExitCode } from './exit-codes.ts';

/** Lists clients, or connects one. @returns the exit code */
export async function connect(
  { client, url, name, print, yes }: CommandOf<'connect'>,
  host: Host,
): Promise<ExitCode> {
  const folder = host.env['HOME'] || host.env['USERPROFILE'] || homedir();
  const home: Home = { platform: process.platform, folder, env: host.env };
  const say = (text: string) => void host.stdout.write(`${text}\n`);
  const all = findClients(home);
  const found = all.find((each) => each.name === client);
  if (found === undefined) {
    const rows = all.filter(({ isInstalled }) => isInstalled);
    const width = Math.max(...all.map((each) => each.name.length));
    for (const each of rows) say(`${each.name.padEnd(width)}  ${each.client}: ${each.file}`);
    const others = all.filter(({ isInstalled }) => !isInstalled).map((each) => each.name);
    if (others.length > 0) say(`Not found on this machine: ${others.join(', ')}`);
    say('"mrtr-gateway connect CLIENT" shows the change, and writes it after a confirmation.');
    return EXIT.ok;
  }
  const change = await changeOf(found, name, url);
  if (print) return printed(change, say);
  if (change.after !== null && change.after === change.before.text) {
    say(`${found.file} has this entry already.`);
    return EXIT.ok;
  }
  show(change, say);
  if (change.after === null) return EXIT.checkFailed;
  if (!yes && host.stdin?.isTTY !== true) {
    host.stderr.write('mrtr-gateway: nothing is written without a terminal; give --yes\n');
    return EXIT.usage;
  }
  if (!yes && !(await isConfirmed(host))) {
    say('Nothing is written.');
    return EXIT.ok;
  }
  try {
    await replace(change.before, change.after);
    say(`Written: ${found.file}. Start ${found.client} again.`);
    return EXIT.ok;
  } catch (error) {
    host.stderr.write(`mrtr-gateway: cannot write ${found.file}: ${messageOf(error)}\n`);
    return EXIT.checkFailed;
  }
}

function printed({ snippet, notes }: Change, say: (text: string) => void): ExitCode {
  say(snippet.trimEnd());
  for (const note of notes) say(`# ${note}`);
  return EXIT.ok;
}

function show(
  { found, before, after, problem, replaces, diff, notes }: Change,
  say: (text: string) => void,
): void {
  if (!found.isInstalled) say(`${found.client} was not found on this machine.`);
  if (after === null) {
    say(`${found.file}: ${problem}. Put this into it:`);
  } else {
    const what = replaces ? ', an entry of this name is replaced' : '';
    say(`${found.file}${before.text === null ? ' (new)' : ''}${what}:`);
  }
  for (const line of diff) say(after === null ? line.slice(2) : line);
  for (const note of notes) say(note);
}

/** Asks on the terminal. Anything but yes is no. */
async function isConfirmed({ stdin, stdout }: Host): Promise<boolean> {
  stdout.write('Write this? [y/N] ');
  const answer = await new Promise<string>((resolve) => {
    stdin?.on?.('data', (keys) => resolve(String(keys)));
    stdin?.on?.('end', () => resolve(''));
  });
  return /^\s*y(?:es)?\s*$/i.test(answer);
}
