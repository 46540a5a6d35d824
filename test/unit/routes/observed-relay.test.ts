/** Spans and lines of hops between replicas end, whatever becomes of the hop. */
import { describe, expect, test } from 'vitest';
import { observeRelay, observeRelayed } from '../../../src/routes/observed-relay.ts';
import type { RelayedHandle } from '../../../src/model/relay.ts';
import { waiterWithoutNotifications, type EdgeRequest } from '../../../src/model/request.ts';
import type { Span, Tracer } from '../../../src/ops/tracing.ts';
import { RecordedLog } from '../../fixtures/gateways/gateway.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';

function spanOf() {
  const ends: (string | null)[] = [];
  const span: Span = {
    context: { traceparent: '', tracestate: null },
    child: () => span,
    set: () => {},
    link: () => {},
    // As a span does, which ignores a second end.
    end: (errorType: string | null) => {
      if (ends.length === 0) ends.push(errorType);
    },
  } as unknown as Span;
  return { span, ends };
}

const OWNER = { id: 'one', instance: 'one' };
const DEFECT = new TypeError('oops');

describe('the span of a hop', () => {
  test('ends where it begins, if the relay throws', async () => {
    const { span, ends } = spanOf();
    const log = new RecordedLog();
    const relay = { relay: () => Promise.reject(DEFECT), sendClientsBack: () => {} };
    const observed = observeRelay('mcp', relay, new ManualClock(), log);
    const request = { span } as unknown as EdgeRequest;
    await expect(observed?.relay(OWNER, request, waiterWithoutNotifications())).rejects.toBe(
      DEFECT,
    );
    expect(ends).toEqual(['failed']);
    expect(log.named('relay.hop')).toMatchObject([{ replica: 'one', outcome: 'failed' }]);
  });

  const served = async (
    handle: () => Promise<RelayedHandle | null>,
    closed = new AbortController(),
  ) => {
    const { span, ends } = spanOf();
    const tracer = { start: () => span } as unknown as Tracer;
    const serve = observeRelayed(handle, tracer);
    const request = { hop: {} } as unknown as EdgeRequest;
    const outcome = serve('mcp', request, waiterWithoutNotifications(closed.signal));
    return { ends, outcome };
  };
  const begun = (reply: ReturnType<RelayedHandle['begin']>) => async () => ({
    begin: () => reply,
    sendClientBack: () => {},
  });

  test('ends at the owner, if it throws', async () => {
    const { ends, outcome } = await served(() => Promise.reject(DEFECT));
    await expect(outcome).rejects.toBe(DEFECT);
    expect(ends).toEqual(['failed']);
  });

  test('ends at the owner, if the call is gone before it begins', async () => {
    const { ends, outcome } = await served(begun(null));
    expect((await outcome)?.begin()).toBeNull();
    expect(ends).toEqual(['gone']);
  });

  test('ends at the owner, if the client leaves before it begins', async () => {
    const leaving = new AbortController();
    const { ends, outcome } = await served(begun(null), leaving);
    await outcome;
    leaving.abort();
    expect(ends).toEqual(['left']);
  });

  test('ends with the reply', async () => {
    const { ends, outcome } = await served(begun(Promise.resolve({ kind: 'result', result: {} })));
    await (await outcome)?.begin();
    expect(ends).toEqual([null]);
  });
});
