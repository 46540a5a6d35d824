/** `node --import` this: the mutant that the environment names is in the sources, as they are loaded. */
import { registerHooks } from 'node:module';
import { MUTANT_FLAG, mutate, MUTANTS } from './mutants.ts';

const name = process.env[MUTANT_FLAG];
const mutant = MUTANTS.find(({ what }) => what === name);
if (mutant === undefined) throw new Error(`${MUTANT_FLAG}: there is no mutant "${name}"`);
const url = new URL(`../../../${mutant.file}`, import.meta.url).href;

registerHooks({
  load(loaded, context, next) {
    const module = next(loaded, context);
    if (loaded !== url) return module;
    const { count, text } = mutate(mutant, String(module.source));
    if (count !== 1) throw new Error(`${mutant.file} has the code ${count} times`);
    return { ...module, source: text };
  },
});
