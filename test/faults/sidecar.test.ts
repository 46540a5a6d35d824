/** A pod with gateway and server, as in deploy/kubernetes/sidecar.yaml, is replaced while a call is parked in it. */
import { expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { callTool } from '../fixtures/clients/modern-client.ts';
import {
  answersOf,
  greeter,
  legacyServer,
  replica,
  text,
} from '../fixtures/gateways/replica-testbed.ts';
import { textOf } from '../unit/docs/markdown-tables.ts';

interface SidecarConfig {
  readonly routes: readonly [{ readonly continuation?: object }];
  readonly drain: object;
  readonly relay?: object;
}

/** Without what is of the pod: addresses, keys, and the pause for the Service. */
function optionsOfManifest() {
  const objects = parseAllDocuments(textOf('deploy/kubernetes/sidecar.yaml')).map((one) =>
    one.toJS(),
  );
  const { data } = objects.find(({ kind }) => kind === 'ConfigMap');
  const { routes, drain, relay } = parse(data['gateway.yaml']) as SidecarConfig;
  return {
    route: { continuation: routes[0].continuation },
    relay: relay !== undefined,
    config: { drain: { ...drain, delay: '0s' } },
  };
}

// Rule drain-4.
test.each([{ keepsEvents: false }, { keepsEvents: true }])(
  'a parked call is answered at the pod that replaces its own, by a server with $keepsEvents',
  async ({ keepsEvents }) => {
    const { effects, tools } = greeter();
    const pod = async () =>
      replica(await legacyServer({ tools, keepsEvents }), optionsOfManifest());
    const [old, fresh] = [await pod(), await pod()];
    const asked = await callTool(old.url, 'greet');
    const gone = old.drain();
    await old.saw('gateway.draining');
    const done = await callTool(fresh.url, 'greet', answersOf(asked, 'Ada'));
    expect(text(done)).toBe('Hello Ada');
    expect(await gone).toBe(0);
    expect(effects).toEqual(['Ada']);
  },
);
