/** The flags of the benchmark. */
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { FULL, NOISY, QUICK, type Sizes } from './sizes.ts';

export interface BenchOptions extends Sizes {
  readonly print: 'text' | 'json' | 'markdown';
  /** The names of the parts to run. */
  readonly parts: readonly string[];
  /** The folder of another version of the gateway, or `null`. */
  readonly earlier: URL | null;
}

/** Run for so long that they must be asked for. */
const LONG_PARTS: readonly string[] = ['many', 'rolling'];
const MANY_MS = 3_600_000;
/** On a slow machine, for each call that is released over three replicas. */
const ROLLING_CALL_MS = 10;

/** @param parts the names of all parts */
export function usage(parts: readonly string[]): string {
  return `npm run bench -- [--quick | --noisy] [--only PARTS] [--many] [--json | --markdown] [--earlier FOLDER]

  --only PARTS  some of the parts, separated by commas: ${parts.join(', ')}
  --many      also parks as many calls at once as an operator may want (${LONG_PARTS.join(', ')}): hours
  --quick     a run of about two minutes that shows that everything works; its numbers are rough
  --noisy     short turns and many of them, for a machine that others use: trust the processor time and
              the ratios of the same round, not the times
  --earlier FOLDER  another version of the gateway, with its node_modules, as one more peer
  --json      one JSON document
  --markdown  the tables as docs/performance.md has them
  --parked N  how many calls to hold parked at once for the memory of one (1000)
  --over-replicas N  how many calls rolling releases over three replicas (1000000)
  --released N  how many calls to park and release for the same (2000)

On a terminal a line on standard error shows the progress.`;
}

/**
 * Reads the flags.
 * @param parts the names of all parts
 * @returns `null` if help was asked for
 * @throws TypeError for flags that are not understood
 */
export function readOptions(
  args: readonly string[],
  parts: readonly string[],
): BenchOptions | null {
  const { values } = parseArgs({
    args: [...args],
    options: {
      only: { type: 'string' },
      many: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      markdown: { type: 'boolean', default: false },
      quick: { type: 'boolean', default: false },
      noisy: { type: 'boolean', default: false },
      earlier: { type: 'string' },
      parked: { type: 'string' },
      released: { type: 'string' },
      'over-replicas': { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) return null;
  if (values.quick && values.noisy) throw new TypeError('--quick and --noisy exclude each other');
  if (values.json && values.markdown) {
    throw new TypeError('--json and --markdown exclude each other');
  }
  const base = values.quick ? QUICK : values.noisy ? NOISY : FULL;
  const chosen = chosenParts(values.only, values.many, parts);
  const rolled =
    wholeNumber('--over-replicas', values['over-replicas'], 1_000_000) ?? base.rolling.count;
  const giveUpMs =
    base.giveUpMs +
    (chosen.includes('many') ? MANY_MS : 0) +
    (chosen.includes('rolling') ? rolled * ROLLING_CALL_MS : 0);
  const count = wholeNumber('--parked', values.parked) ?? base.parked.count;
  const releasedCount = wholeNumber('--released', values.released) ?? base.parked.releasedCount;
  return {
    ...base,
    giveUpMs,
    print: values.json ? 'json' : values.markdown ? 'markdown' : 'text',
    parts: chosen,
    earlier: values.earlier === undefined ? null : folderUrl(values.earlier),
    parked: { ...base.parked, count, releasedCount },
    rolling: { ...base.rolling, count: rolled },
  };
}

function chosenParts(
  only: string | undefined,
  withLong: boolean,
  parts: readonly string[],
): readonly string[] {
  if (only === undefined) return parts.filter((name) => withLong || !LONG_PARTS.includes(name));
  const asked = only.split(',').map((name) => name.trim());
  const unknown = asked.find((name) => !parts.includes(name));
  if (unknown !== undefined) {
    throw new TypeError(`--only takes parts of ${parts.join(', ')}; there is no "${unknown}"`);
  }
  return parts.filter((name) => asked.includes(name) || (withLong && LONG_PARTS.includes(name)));
}

function folderUrl(path: string): URL {
  return pathToFileURL(path.endsWith('/') ? path : `${path}/`);
}

function wholeNumber(flag: string, text: string | undefined, most = 200_000): number | null {
  if (text === undefined) return null;
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1 || value > most) {
    throw new TypeError(`${flag} takes a whole number from 1 to ${most}`);
  }
  return value;
}
