/** Compares what a client sees of a server directly with what it sees through the gateway. */
import { LISTS, type ListName, type Observation } from './observe.ts';
import type { PublishedServer } from './server.ts';

export type CallVerdict = 'same result' | 'same error' | 'different';

export interface Comparison {
  readonly lists: readonly {
    readonly name: ListName;
    readonly count: number;
    readonly missing: readonly string[];
    readonly changed: readonly string[];
  }[];
  readonly calls: readonly {
    readonly tool: string;
    readonly verdict: CallVerdict;
    readonly detail: string;
  }[];
  readonly questions: {
    readonly direct: number;
    readonly through: number;
    readonly same: boolean;
  };
}

/** @param masked what names this run: folders, ports */
export function compare(
  direct: Observation,
  through: Observation,
  { calls, rootsAtStart = false }: Pick<PublishedServer, 'calls' | 'rootsAtStart'>,
  masked: readonly string[],
): Comparison {
  const masks = masked.map((text) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  const plain = (text: string, varies?: RegExp): string => {
    const steady = masks.reduce((rest, mask) => rest.replaceAll(new RegExp(mask, 'g'), '*'), text);
    return varies === undefined ? steady : steady.replaceAll(new RegExp(varies, 'g'), '*');
  };
  const asked = ({ questions }: Observation) =>
    questions
      .filter((question) => !(rootsAtStart && question === 'roots'))
      .map((question) => plain(question))
      .toSorted();
  return {
    lists: LISTS.map((name) => {
      const here = new Map(through.lists[name].map((item) => [identity(item), plain(item)]));
      const there = direct.lists[name].map((item) => [identity(item), plain(item)] as const);
      return {
        name,
        count: there.length,
        missing: there.filter(([id]) => !here.has(id)).map(([id]) => id),
        changed: there
          .filter(([id, item]) => here.has(id) && here.get(id) !== item)
          .map(([id]) => id),
      };
    }),
    calls: calls.map(({ tool, varies }, index) => {
      const [one, other] = [direct.calls[index], through.calls[index]];
      if (one === undefined || other === undefined) throw new Error(`${tool} was not called`);
      const [left, right] = [plain(one.text, varies), plain(other.text, varies)];
      if (one.kind === other.kind && (one.kind !== 'result' || left === right))
        return {
          tool,
          verdict: one.kind === 'result' ? 'same result' : 'same error',
          detail: left,
        };
      return {
        tool,
        verdict: 'different',
        detail: `${one.kind}: ${left}\n${other.kind}: ${right}`,
      };
    }),
    questions: {
      direct: asked(direct).length,
      through: asked(through).length,
      same: JSON.stringify(asked(direct)) === JSON.stringify(asked(through)),
    },
  };
}

function identity(item: string): string {
  const { name, uri, uriTemplate } = JSON.parse(item) as Record<string, string | undefined>;
  return uri ?? uriTemplate ?? name ?? item;
}
