/** The parts of the benchmark, in the order in which they are run and printed. */
import { backward } from './backward/part.ts';
import { busy } from './busy/part.ts';
import { calls } from './calls/part.ts';
import { legacy } from './legacy/part.ts';
import { limited } from './limited/part.ts';
import { many } from './parked/many-part.ts';
import { parked } from './parked/part.ts';
import type { Part } from './part.ts';
import { footprint } from './process/part.ts';
import { official, questions } from './questions/part.ts';
import { relay } from './relay/part.ts';
import { replicas } from './replicas/part.ts';
import { rolling } from './rolling/part.ts';
import { seal } from './seal/part.ts';
import { stdio } from './stdio/part.ts';
import { tasks } from './tasks/part.ts';
import { workers } from './workers/part.ts';

export const PARTS: readonly Part[] = [
  calls,
  questions,
  official,
  busy,
  stdio,
  legacy,
  backward,
  relay,
  replicas,
  workers,
  parked,
  many,
  rolling,
  tasks,
  limited,
  footprint,
  seal,
];
