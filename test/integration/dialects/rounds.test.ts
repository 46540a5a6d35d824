/** Use cases of `requestState` that the proposals describe in steps, in each dialect. */
import { describe, expect, test } from 'vitest';
import { DIALECT_NAMES, type DialectName } from '../../../src/dialects/dialects.ts';
import { DialectClient } from '../../fixtures/clients/dialect-client.ts';
import { accept } from '../../fixtures/clients/modern-client.ts';
import { askForm, GITHUB_LOGIN, loginTo } from '../../fixtures/dialects/proposal-tools.ts';
import { withDialect } from '../../fixtures/dialects/testbed.ts';
import { startTestGateway } from '../../fixtures/gateways/gateway.ts';
import { testGateway } from '../../fixtures/gateways/test-gateway.ts';
import type { Tool } from '../../fixtures/servers/legacy/tools.ts';
import { LegacyServer } from '../../fixtures/servers/legacy-server.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';
import { WIRES } from '../../fixtures/dialects/wires.ts';

const signIn =
  (...providers: string[]): Tool =>
  async (call) => {
    const questions = providers.map((name) => (name === 'GitHub' ? GITHUB_LOGIN : loginTo(name)));
    const answers = await Promise.all(questions.map((question) => askForm(call, question)));
    return answers.map(({ name }) => String(name)).join(' and ');
  };

const oldVersion = signIn('GitHub', 'Google');
const newVersion = signIn('GitHub', 'Microsoft');
const KEYS = [{ kid: 'kid-1', key: Buffer.alloc(32, 1).toString('base64url') }];

describe.each(DIALECT_NAMES)('%s', (dialect: DialectName) => {
  const { ask, retry, textOf, questionsOf } = WIRES[dialect];

  // Rule dialects-11: A replay asks only for what was not answered before.
  test('"Rolling Upgrades": an answer that the old version had is not asked for again', async () => {
    const old = await LegacyServer.start({ tools: { sign_in: oldVersion } });
    const gateway = await testGateway(
      old.url,
      withDialect(dialect, '/draft', {
        continuation: { replay: { tools: ['sign_in'], annotated: false } },
      }),
    );
    const client = await DialectClient.connect(gateway.url, '/draft');
    const first = await client.send(ask('sign_in', {}));
    const [github, google] = questionsOf(first);
    expect([github?.params.message, google?.params.message]).toEqual([
      'Please provide your GitHub username',
      'Please provide your Google username',
    ]);
    const { port } = old;
    await old.stop();
    const upgraded = await LegacyServer.start({ tools: { sign_in: newVersion }, port });
    stopAfterTest(() => upgraded.stop());
    const answers = {
      [github!.key]: accept({ name: 'octocat' }),
      [google!.key]: accept({ name: 'g' }),
    };
    const second = await client.send(retry('sign_in', {}, first, answers));
    const [microsoft, ...others] = questionsOf(second);
    expect(others).toEqual([]);
    expect(microsoft?.params.message).toBe('Please provide your Microsoft username');
    const more = { [microsoft!.key]: accept({ name: 'clippy' }) };
    const third = await client.send(retry('sign_in', {}, second, more, answers));
    expect(textOf(third)).toBe('octocat and clippy');
  });

  // Rule dialects-12: A client that has to retry without answers gets a `requestState` without questions.
  test('"Load Shedding": state alone sends the client to another instance', async () => {
    let goOn = () => {};
    const computed = new Promise<void>((resolve) => (goOn = resolve));
    const compute: Tool = async () => computed.then(() => 'computed');
    const legacy = await LegacyServer.start({ tools: { compute }, keepsEvents: true });
    stopAfterTest(() => legacy.stop());
    const config = withDialect(dialect, '/draft', {
      seal: { keys: KEYS, audience: 'test' },
      drain: { delayMs: 0, parkedMs: 0, timeoutMs: 100 },
    });
    const overloaded = await startTestGateway(legacy.url, config);
    const other = await testGateway(legacy.url, config);
    const client = await DialectClient.connect(overloaded.url, '/draft');
    const running = client.send(ask('compute', {}));
    await legacy.saw('tools/call');
    await overloaded.drain();
    const shed = await running;
    expect(questionsOf(shed)).toEqual([]);
    const elsewhere = await DialectClient.connect(other.url, '/draft');
    const resumed = elsewhere.send(retry('compute', {}, shed, {}));
    goOn();
    expect(textOf(await resumed)).toBe('computed');
    expect(legacy.methods().filter((method) => method === 'tools/call')).toHaveLength(1);
  });
});
