import { execFileSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import { completionFor } from '../../../src/cli/completion.ts';
import { COMMANDS, FLAGS, SHELLS } from '../../../src/cli/flags.ts';

/** What bash offers for the last word of a line. */
function offered(...words: string[]): string[] {
  const script = `${completionFor('bash')}
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _mrtr_gateway; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const args = ['-c', script, 'bash', 'mrtr-gateway', ...words];
  return execFileSync('bash', args, { encoding: 'utf8' })
    .split('\n')
    .filter((word) => word !== '');
}

describe('bash offers', () => {
  test.each<[string[], string[]]>([
    [['pro'], ['probe']],
    [['--upstream-'], ['--upstream-header']],
    [
      ['keygen', '--'],
      ['--format', '--help'],
    ],
    [['keygen', '--format', 'r'], ['raw']],
    [['completion', ''], [...SHELLS]],
    [['help', 'ch'], ['check']],
    [['--upstream', 'http://a/', '--sess'], ['--session-scope']],
    [['check', '/dev/nul'], ['/dev/null']],
  ])('for %j: %j', (words, expected) => {
    expect(offered(...words)).toEqual(expected);
  });
});

test.each(SHELLS)('%s knows every command and flag', (shell) => {
  const script = completionFor(shell);
  for (const command of COMMANDS) {
    expect(script).toContain(command);
    for (const { name } of FLAGS[command]) expect(script).toMatch(new RegExp(`(--|-l )${name}\\b`));
  }
});
