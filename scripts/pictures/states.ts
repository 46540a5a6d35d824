/** Draws a state diagram from the part of the language of Mermaid that our documents use. */
import { Graph, layout } from '@dagrejs/dagre';
import { arrowOf, box, label, LINE_HEIGHT, picture, round, textWidth } from './svg.ts';

const TRANSITION = /^(\S+) --> (\S+?)(?:: (.+))?$/;
const END = '[*]';
const DOT = 9;
const CORNER = 24;

interface Point {
  readonly x: number;
  readonly y: number;
}

interface Place extends Point {
  readonly width: number;
  readonly height: number;
}

interface Transition {
  readonly from: string;
  readonly to: string;
  readonly on: readonly string[];
}

/**
 * Draws the lines after `stateDiagram-v2`. Of a transition on several events, each event has a line of its own.
 * @throws Error for a line that it cannot draw
 */
export function drawStates(title: string, source: readonly string[]): string {
  const arrow = arrowOf(title);
  const transitions = source.map(read);
  const graph = new Graph({ multigraph: true });
  graph.setGraph({
    rankdir: 'TB',
    nodesep: 40,
    edgesep: 24,
    ranksep: 34,
    marginx: 12,
    marginy: 12,
  });
  for (const state of new Set(transitions.flatMap(({ from, to }) => [from, to]))) {
    const size = isEnd(state)
      ? { width: 2 * DOT, height: 2 * DOT }
      : { width: textWidth(state) + 28, height: 36 };
    graph.setNode(state, size);
  }
  for (const { from, to, on } of transitions) {
    const width = Math.max(0, ...on.map(textWidth)) + 12;
    graph.setEdge(from, to, { width, height: on.length * LINE_HEIGHT, labelpos: 'c' }, 'edge');
  }
  layout(graph);
  const lines: string[] = [];
  const labels: string[] = [];
  for (const { from, to, on } of transitions) {
    const edge = graph.edge(from, to, 'edge') as Place & { points: readonly Point[] };
    lines.push(
      `<path class="picture-line" marker-end="url(#${arrow})" d="${curve(edge.points)}"/>`,
    );
    if (on.length === 0) continue;
    labels.push(box('picture-under', edge), label(edge.x, edge.y, on, 'picture-quiet'));
  }
  const states = graph.nodes().map((state: string) => {
    const place = graph.node(state) as Place;
    const at = `cx="${round(place.x)}" cy="${round(place.y)}"`;
    if (isEnd(state)) return `<circle class="picture-point" ${at} r="${DOT - 2}"/>`;
    return box('picture-box', place) + label(place.x, place.y, [state]);
  });
  const { width, height } = graph.graph() as { width: number; height: number };
  return picture(title, { width, height }, [...lines, ...labels, ...states].join('\n'));
}

function read(line: string): Transition {
  const [, from, to, on] = TRANSITION.exec(line) ?? [];
  if (from === undefined || to === undefined) {
    throw new Error(`a state diagram has a line that cannot be drawn: "${line}"`);
  }
  return {
    // The first state and the last have the same name, and are two dots.
    from: from === END ? `${END} start` : from,
    to: to === END ? `${END} end` : to,
    on: on?.split(', ') ?? [],
  };
}

function isEnd(state: string): boolean {
  return state.startsWith(END);
}

/** A line from point to point whose corners are round. */
function curve(points: readonly Point[]): string {
  const [first, ...corners] = points;
  const last = corners.pop()!;
  const turns = corners.map((corner, at) => {
    const into = towards(corner, at === 0 ? first! : corners[at - 1]!);
    const out = towards(corner, corners[at + 1] ?? last);
    return `L${into}Q${pair(corner)} ${out}`;
  });
  return `M${pair(first!)}${turns.join('')}L${pair(last)}`;
}

/** Where the curve of a corner begins: on the way to the next point, and at most half of it. */
function towards(corner: Point, next: Point): string {
  const length = Math.hypot(next.x - corner.x, next.y - corner.y);
  const part = length === 0 ? 0 : Math.min(CORNER / length, 0.5);
  return pair({
    x: corner.x + (next.x - corner.x) * part,
    y: corner.y + (next.y - corner.y) * part,
  });
}

function pair({ x, y }: Point): string {
  return `${round(x)} ${round(y)}`;
}
