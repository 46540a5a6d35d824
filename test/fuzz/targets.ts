/** All fuzz targets. */
import type { Target } from './target.ts';
import { config } from './targets/config.ts';
import { edge } from './targets/edge.ts';
import { eventStream } from './targets/event-stream.ts';
import { growth } from './targets/growth.ts';
import { pointer } from './targets/pointer.ts';
import { stdio } from './targets/stdio.ts';

export const TARGETS: readonly Target[] = [edge, eventStream, pointer, config, stdio, growth];
