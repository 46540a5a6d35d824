/** Runs the command of a command line. What a command needs is loaded for that command only, so that all respond at once. */
import { VERSION } from '../lib/program.ts';
import { givenFormat, parseArguments, type Host } from './arguments.ts';
import { completionFor } from './completion.ts';
import { EXIT, type ExitCode } from './exit-codes.ts';
import { SEAL_KEY_VARIABLE, type KeyFormat } from './flags.ts';
import { helpFor } from './help.ts';
import { commandNamed, UsageError } from './words.ts';
import { tellStartFailed, type Start } from './serve.ts';
import { generateKey, type SecretKey } from '../seal/key-ring.ts';

/** Runs a command. @returns its exit code */
export async function run(words: readonly string[], host: Host, start: Start): Promise<ExitCode> {
  const command = parseArguments(words, host.env);
  if (command instanceof UsageError) {
    const named = commandNamed(words) ?? 'serve';
    tellStartFailed(host, givenFormat(words, host.env), {
      code: 'usage',
      problems: [command.message],
      prefix: 'mrtr-gateway: ',
      seeAlso: `see mrtr-gateway ${named === 'serve' ? '' : `${named} `}--help`,
    });
    return EXIT.usage;
  }
  switch (command.kind) {
    case 'help':
      return print(host, helpFor(command.command));
    case 'version':
      return print(host, `mrtr-gateway ${VERSION}\n`);
    case 'schema':
      return print(host, (await import('../config/schema/json-schema.ts')).writtenSchemaText());
    case 'keygen':
      return print(host, keygen(command.format));
    case 'completion':
      return print(host, completionFor(command.shell));
    case 'probe':
      return (await import('./probe.ts')).probeUpstream(command, host);
    case 'doctor':
      return (await import('./doctor.ts')).doctor(command, words, host);
    case 'connect':
      return (await import('./connect.ts')).connect(command, host);
    case 'mcp-json':
      return (await import('./mcp-json.ts')).printConfiguration(command.file, host);
    case 'top':
      return (await import('./top.ts')).top(command, host);
    case 'check':
      return (await import('./configured.ts')).printCheck(command.file, host);
    case 'serve-upstream':
      return (await import('./configured.ts')).serveUpstream(command, words, host, start);
    case 'serve-from':
      return (await import('./configured.ts')).serveFrom(command, words, host, start);
    case 'serve-file':
      return (await import('./configured.ts')).serveFile(command, words, host, start);
  }
}

function print(host: Host, text: string): ExitCode {
  host.stdout.write(text);
  return EXIT.ok;
}

/** Formats a new key. In YAML its name is quoted, since YAML reads a name of digits as a number. */
export function keygen(format: KeyFormat, { kid, secret }: SecretKey = generateKey()): string {
  const key = Buffer.from(secret).toString('base64url');
  const written = {
    yaml: `    # under seal.keys\n    - kid: "${kid}"\n      key: "${key}"`,
    env: `${SEAL_KEY_VARIABLE}=${kid}:${key}`,
    raw: `${kid}:${key}`,
    json: JSON.stringify({ kid, key }),
  };
  return `${written[format]}\n`;
}
