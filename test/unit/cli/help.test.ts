import { describe, expect, test } from 'vitest';
import { parseArguments } from '../../../src/cli/arguments.ts';
import { EXIT, EXIT_MEANINGS, exitCodeOfStart } from '../../../src/cli/exit-codes.ts';
import { COMMANDS, FLAGS } from '../../../src/cli/flags.ts';
import { UsageError } from '../../../src/cli/words.ts';
import { helpFor } from '../../../src/cli/help.ts';
import { configFromFlags } from '../../../src/config/load/from-flags.ts';

test.each(COMMANDS)('the help of %s names each of its flags', (command) => {
  const names = [...helpFor(command).matchAll(/^ {2}.*?--([a-z-]+)(?: [A-Z:=[\]]+)? {2,}/gm)];
  expect(names.map(([, name]) => name)).toEqual(FLAGS[command].map(({ name }) => name));
});

test('the help says that an unreachable Redis ends the start, and with which code', () => {
  expect(exitCodeOfStart('redis_unavailable')).toBe(EXIT.upstream);
  expect(helpFor('serve')).toMatch(/^ {2}69 .*Redis is unreachable$/m);
});

// Rule drain-3.
test('the help says that SIGHUP loads the file again, or stops without one', () => {
  expect(helpFor('serve')).toMatch(
    /With --config, SIGHUP loads the file again.*Without a file.*as SIGTERM/s,
  );
});

test('the help of probe says what its exit codes mean', () => {
  for (const code of [EXIT.ok, EXIT.usage, EXIT.upstream]) {
    expect(helpFor('probe')).toMatch(new RegExp(`^  ${code} +\\w`, 'm'));
  }
});

test('the help says what each exit code means', () => {
  expect(EXIT_MEANINGS.map(([code]) => code).toSorted()).toEqual(Object.values(EXIT).toSorted());
  for (const [code, meaning] of EXIT_MEANINGS) {
    expect(helpFor('serve')).toMatch(
      new RegExp(`^  ${code} +${meaning.replace(/[()]/g, '.')}$`, 'm'),
    );
  }
});

describe('every example is a command line that works', () => {
  const examples = COMMANDS.flatMap((command) =>
    [...helpFor(command).matchAll(/^ {2}(mrtr-gateway .*)$/gm)].flatMap(([, line]) =>
      (line ?? '')
        .split('&&')
        .map((part) => part.replace(/>.*$/, '').replace('SHELL', 'bash').trim()),
    ),
  ).filter((line) => !line.includes('['));

  test.each(examples)('%s', (line) => {
    const words = [...line.matchAll(/"([^"]*)"|\S+/g)].map(([word, quoted]) => quoted ?? word);
    const command = parseArguments(words.slice(1), {});
    expect(command).not.toBeInstanceOf(UsageError);
  });
});

test('the defaults that the help names are the ones that count', () => {
  const upstream = 'http://127.0.0.1:3001/mcp';
  const fallback = (name: string) => FLAGS.serve.find((flag) => flag.name === name)?.fallback ?? '';
  const spelledOut = configFromFlags({
    upstream,
    listen: fallback('listen'),
    admin: fallback('admin'),
    workers: fallback('workers'),
    path: fallback('path'),
    transport: fallback('transport'),
    'log-level': fallback('log-level'),
    'log-format': fallback('log-format'),
  });
  expect(spelledOut).toEqual(configFromFlags({ upstream }));
});
