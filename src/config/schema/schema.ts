/**
 * The configuration file: every key with its type, default and description. The types of the configuration,
 * the reference in the documentation and the JSON Schema for editors are generated from it.
 */
import { z } from 'zod';
import { address, addressOrOff, section } from './fields.ts';
import { identity, drain, edge, limits, log, workers } from './process.ts';
import { redis, relay } from './replicas.ts';
import { route } from './route.ts';
import { seal } from './seal.ts';

export const fileSchema = section(
  {
    listen: address()
      .prefault('127.0.0.1:8080')
      .describe(
        'The address for clients. `:8080` means all IPv4 interfaces, port `0` any free port.',
      ),
    admin: addressOrOff()
      .prefault('127.0.0.1:9090')
      .describe('The address for `/healthz`, `/readyz` and `/metrics`. Keep it private.'),
    workers,
    routes: z
      .array(route, { error: 'a list of at least one route' })
      .min(1, { error: 'a list of at least one route' })
      .max(1000, { error: 'at most 1000 routes' })
      .meta({ title: 'list' })
      .describe('One entry for each legacy server.'),
    identity,
    seal,
    relay,
    redis,
    edge,
    limits,
    drain,
    log,
  },
  'a map with at least routes',
);
