/** The configuration as the code sees it: the schema's own output, every option present. */
import type { z } from 'zod';
import type { fileSchema } from './schema/schema.ts';

type Immutable<T> = T extends URL | string | number | boolean | null | undefined
  ? T
  : T extends readonly (infer Item)[]
    ? readonly Immutable<Item>[]
    : { readonly [Key in keyof T]: Immutable<T[Key]> };

export type Config = Immutable<z.output<typeof fileSchema>>;
export type RouteConfig = Config['routes'][number];
