/** Draws a sequence diagram from the part of the language of Mermaid that our documents use. */
import { arrowOf, box, label, LINE_HEIGHT, picture, round, textWidth } from './svg.ts';

const MARGIN = 12;
const HEAD = 36;
const GAP = 26;
const PADDING = 18;

const PARTICIPANT = /^participant (\w+) as (.+)$/;
const MESSAGE = /^(\w+)(--?)>>(\w+): (.+)$/;
const NOTE = /^Note over (\w+),(\w+): (.+)$/;

interface Step {
  readonly kind: 'message' | 'reply' | 'note';
  readonly from: string;
  readonly to: string;
  readonly lines: readonly string[];
}

/**
 * Draws the lines after `sequenceDiagram`. Each step is between two participants that stand side by side.
 * @throws Error for a line that it cannot draw
 */
export function drawSequence(title: string, source: readonly string[]): string {
  const arrow = arrowOf(title);
  const { names, steps } = read(source);
  const columns = columnsOf(names, steps);
  const width = Math.max(...columns.values()) + halfOf(names.at(-1)!.name) + MARGIN;
  const parts: string[] = [];
  let y = MARGIN + HEAD;
  for (const step of steps) {
    const height = step.lines.length * LINE_HEIGHT;
    const [from, to] = [columns.get(step.from)!, columns.get(step.to)!];
    const middle = y + GAP / 2 + height / 2;
    if (step.kind === 'note') {
      const size = { width: Math.abs(to - from) - PADDING, height: height + 12 };
      parts.push(box('picture-note', { x: (from + to) / 2, y: middle + 4, ...size }));
      parts.push(label((from + to) / 2, middle + 4, step.lines));
      y += height + GAP;
      continue;
    }
    const under = y + GAP / 2 + height + 4;
    const style = step.kind === 'reply' ? 'picture-line picture-reply' : 'picture-line';
    parts.push(label((from + to) / 2, middle, step.lines));
    parts.push(line(style, arrow, from, to, under));
    y = under;
  }
  const bottom = y + GAP;
  const heads = names.map(({ id, name }) => {
    const x = columns.get(id)!;
    const size = { width: 2 * halfOf(name), height: HEAD };
    return `<path class="picture-thin" d="M${round(x)} ${MARGIN + HEAD}V${round(bottom)}"/>
${box('picture-box', { x, y: MARGIN + HEAD / 2, ...size })}
${label(x, MARGIN + HEAD / 2, [name])}`;
  });
  return picture(title, { width, height: bottom + MARGIN }, [...heads, ...parts].join('\n'));
}

function read(source: readonly string[]) {
  const names: { id: string; name: string }[] = [];
  const steps: Step[] = [];
  for (const line of source) {
    const [, id, name] = PARTICIPANT.exec(line) ?? [];
    const [, sender, dashes, receiver, said] = MESSAGE.exec(line) ?? [];
    const [, first, last, noted] = NOTE.exec(line) ?? [];
    if (id !== undefined && name !== undefined) names.push({ id, name });
    else if (said !== undefined) {
      const kind = dashes === '--' ? 'reply' : 'message';
      steps.push({ kind, from: sender!, to: receiver!, lines: said.split('<br/>') });
    } else if (noted !== undefined) {
      steps.push({ kind: 'note', from: first!, to: last!, lines: noted.split('<br/>') });
    } else throw new Error(`a sequence diagram has a line that cannot be drawn: "${line}"`);
  }
  return { names, steps };
}

/** The middle of each participant: as far apart as what is written between them needs. */
function columnsOf(names: readonly { id: string; name: string }[], steps: readonly Step[]) {
  const columns = new Map<string, number>();
  let x = MARGIN + halfOf(names[0]!.name);
  for (const [at, { id, name }] of names.entries()) {
    const left = names[at - 1];
    if (left !== undefined) {
      const between = steps.filter(({ from, to }) =>
        [from, to].every((end) => end === id || end === left.id),
      );
      const texts = between.flatMap(({ lines }) => lines.map(textWidth));
      x += Math.max(halfOf(left.name) + halfOf(name), ...texts) + 2 * PADDING;
    }
    columns.set(id, x);
  }
  return columns;
}

function line(style: string, arrow: string, from: number, to: number, y: number): string {
  const inset = from < to ? 2 : -2;
  return `<path class="${style}" marker-end="url(#${arrow})" d="M${round(from + inset)} ${round(y)}H${round(to - inset)}"/>`;
}

function halfOf(name: string): number {
  return textWidth(name) / 2 + PADDING;
}
