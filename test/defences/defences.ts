/** The defences of docs/threats.md that can be taken out. */
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';

export interface Defence {
  /** Its row in docs/threats.md. */
  readonly threat: string;
  readonly file: string;
  /** A part of the file, without which the test fails. */
  readonly code: string;
  /** What stands in its place then. */
  readonly without: string;
  readonly test: string;
  /** As it stands in the test file. */
  readonly title: string;
}

type Written = Omit<Defence, 'file' | 'without'> & {
  readonly in: string;
  readonly without?: string;
};

const FILE = new URL('defences.yaml', import.meta.url);

export const DEFENCES: readonly Defence[] = (parse(readFileSync(FILE, 'utf8')) as Written[]).map(
  ({ in: file, without = '', ...defence }) => ({ ...defence, file, without }),
);
