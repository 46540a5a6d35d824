/** How the image runs the program, read from the Dockerfile. */
import { readFileSync } from 'node:fs';
import { CHECKOUT } from './gateway-process.ts';

export interface ImageRun {
  /** What `node` is given before the program. */
  readonly flags: readonly string[];
  /** Variables that Node.js and the C library read. */
  readonly env: Readonly<Record<string, string>>;
}

/** Reads the Dockerfile of this checkout. */
export function imageRun(): ImageRun {
  return readImageRun(readFileSync(new URL('Dockerfile', CHECKOUT), 'utf8'));
}

/** Parses the last stage of a Dockerfile. @throws Error if its entry point is not `node` */
export function readImageRun(dockerfile: string): ImageRun {
  const text = dockerfile.replace(/\\\n/g, ' ');
  const stage = text.slice(text.lastIndexOf('\nFROM '));
  const entry = /^ENTRYPOINT (\[.*\])$/m.exec(stage)?.[1];
  const [command, ...args] = entry === undefined ? [] : (JSON.parse(entry) as string[]);
  const program = args.findIndex((arg) => !arg.startsWith('-'));
  if (command !== 'node' || program < 0) throw new Error('the image does not run node');
  const env = Object.fromEntries(
    [...stage.matchAll(/^ENV ((?:NODE|MALLOC)_[A-Z_]+)=("?)(.*)\2$/gm)].map(([, name, , value]) => [
      name,
      value,
    ]),
  ) as Record<string, string>;
  return { flags: args.slice(0, program), env };
}
