/** Small defects of the sources, which the simulation has to find. */
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import type { ThemeName } from '../fleet/themes.ts';

export interface Mutant {
  /** What is wrong with it, as a sentence. */
  readonly what: string;
  readonly file: string;
  /** A part of the file, which is in it once. */
  readonly code: string;
  /** What stands in its place. */
  readonly without: string;
  /** The law that it breaks. */
  readonly law: number;
  /** How many seeds, from the first one, it survives at most. */
  readonly within: number;
  /** Of these, only the histories with this theme are played. */
  readonly theme?: ThemeName;
}

type Written = Omit<Mutant, 'file' | 'without'> & {
  readonly in: string;
  readonly without?: string;
};

/** The flag of the environment that names a mutant for the process. */
export const MUTANT_FLAG = 'SIMULATED_MUTANT';
const FILE = new URL('mutants.yaml', import.meta.url);

export const MUTANTS: readonly Mutant[] = (parse(readFileSync(FILE, 'utf8')) as Written[]).map(
  ({ in: file, without = '', ...mutant }) => ({ ...mutant, file, without }),
);

/** @returns how often the code of the mutant is in `source`, and `source` with the defect */
export function mutate({ code, without }: Mutant, source: string): { count: number; text: string } {
  return { count: source.split(code).length - 1, text: source.replace(code, () => without) };
}
