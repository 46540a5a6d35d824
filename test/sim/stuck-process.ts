/** Plays a history that never ends, as far as who watches it can see. */
import { watch } from './watch.ts';

watch(200)(7);
for (;;);
