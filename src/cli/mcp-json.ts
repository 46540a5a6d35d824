/** `mrtr-gateway mcp.json FILE`: prints a configuration file that is made from the file of a client. */
import { stringify } from 'yaml';
import { readClientFile } from '../config/load/client-file.ts';
import { ConfigError } from '../config/load/problem.ts';
import { VERSION } from '../lib/program.ts';
import { asOneLine } from '../lib/shown-text.ts';
import type { Host } from './arguments.ts';
import { EXIT, type ExitCode } from './exit-codes.ts';

const MAX_CHARACTERS = 2_000;

/** Prints the configuration, and what has to be done for it. @returns the exit code */
export function printConfiguration(file: string, host: Host): ExitCode {
  try {
    const { data, variables, notes } = readClientFile(file);
    const said = [
      ...[...variables].map(([name, fields]) => `Set ${name}: ${fields.join(', ')}`),
      ...notes.map((note) => `Note: ${note}`),
    ];
    const head = [`Made from ${file} by mrtr-gateway ${VERSION}.`, ...said];
    // A line break in a name would end the comment.
    const comments = head.map((line) => `# ${asOneLine(line, MAX_CHARACTERS)}\n`).join('');
    host.stdout.write(`${comments}${stringify(data, { lineWidth: 0 })}`);
    // Whoever writes it into a file sees what is left to do. A log of both has it already.
    const isHidden = host.stdout.isTTY !== true && host.stderr.isTTY === true;
    if (isHidden) for (const line of said) host.stderr.write(`${line}\n`);
    return EXIT.ok;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    for (const problem of error.problems) host.stderr.write(`${problem}\n`);
    return EXIT.config;
  }
}
