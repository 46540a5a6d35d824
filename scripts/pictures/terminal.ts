/** Draws what a program writes on a terminal: a window with its text and colours, which appears line by line once. */
import { escape } from '../site/html.ts';
import { round } from './svg.ts';

const FONT_SIZE = 13;
const LETTER = 7.83;
const LINE = 19;
const PADDING = 18;
const BAR = 34;
const COLUMNS = 104;
const MAX_GAP = 16;
const MS_PER_LINE = 110;

/** Selects graphic rendition (ECMA-48, 8.3.117): the codes that the program uses, and the style of each. */
const ON: Readonly<Record<number, string>> = {
  1: 'bold',
  2: 'dim',
  31: 'red',
  32: 'green',
  33: 'yellow',
  35: 'magenta',
  36: 'cyan',
};
const OFF: Readonly<Record<number, RegExp>> = {
  22: /bold|dim/,
  39: /red|green|yellow|magenta|cyan/,
};
const ESCAPE = /\u001b\[(\d+)m/;

const STYLE = `
svg { --ground: #fbfcfd; --bar: #e9edf2; --line: #c3ccd6; --text: #1b1f24; --dim: #59636e; --red: #b3261e; --green: #1a7037; --yellow: #8a5a00; --magenta: #8b3aa8; --cyan: #0b6a85 }
@media (prefers-color-scheme: dark) {
svg { --ground: #12161b; --bar: #1f2731; --line: #3b4653; --text: #dfe5ec; --dim: #9aa4b0; --red: #ff7b72; --green: #56d364; --yellow: #e3b341; --magenta: #d2a8ff; --cyan: #6cc9e4 } }
text { font: ${FONT_SIZE}px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: var(--text); white-space: pre }
.bold { font-weight: 700 } .dim { fill: var(--dim) } .red { fill: var(--red) } .green { fill: var(--green) }
.yellow { fill: var(--yellow) } .magenta { fill: var(--magenta) } .cyan { fill: var(--cyan) }
@media (prefers-reduced-motion: no-preference) {
g { animation: appear 1ms both } @keyframes appear { from { visibility: hidden } to { visibility: visible } } }`;

interface Span {
  readonly text: string;
  readonly style: string;
}

/** @param output the text with its escape sequences */
export function drawTerminal(title: string, output: string): string {
  const lines = output.split('\n').map(spansOf).flatMap(wrap);
  const width = Math.ceil(COLUMNS * LETTER + 2 * PADDING);
  const height = BAR + 2 * PADDING + lines.length * LINE;
  const drawn = lines.map((spans, at) => {
    const y = BAR + PADDING + at * LINE + FONT_SIZE;
    const delay = `style="animation-delay:${at * MS_PER_LINE}ms"`;
    return spans.length === 0 ? '' : `<g ${delay}>${drawLine(spans, y)}</g>\n`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}">
<title>${escape(title)}</title>
<style>${STYLE}</style>
<rect x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="8" style="fill:var(--ground);stroke:var(--line)"/>
<path d="M1 ${BAR}V9a8 8 0 0 1 8-8H${width - 9}a8 8 0 0 1 8 8V${BAR}z" style="fill:var(--bar)"/>
<text x="${width / 2}" y="${BAR / 2 + 5}" text-anchor="middle" class="dim">${escape(title)}</text>
${drawn.join('')}</svg>
`;
}

function spansOf(line: string): Span[] {
  const [first = '', ...rest] = line.split(ESCAPE);
  const spans: Span[] = [{ text: first, style: '' }];
  let styles: string[] = [];
  for (let at = 0; at < rest.length; at += 2) {
    const code = Number(rest[at]);
    const [on, off] = [ON[code], OFF[code]];
    if (on !== undefined) styles = [...styles, on];
    else if (off !== undefined) styles = styles.filter((style) => !off.test(style));
    else throw new Error(`a line has an escape sequence that cannot be drawn: ${code}`);
    spans.push({ text: rest[at + 1] ?? '', style: styles.join(' ') });
  }
  return spans.filter(({ text }) => text !== '');
}

/** Breaks a line that is too long, and goes on below the column of its last part. */
function wrap(spans: readonly Span[]): Span[][] {
  const lines: Span[][] = [[]];
  let column = 0;
  for (const { text, style } of spans) {
    const indent = column;
    let rest = text;
    while (column + rest.length > COLUMNS) {
      const room = COLUMNS - column;
      // Between two words, if one of the last letters is a space.
      const space = rest.lastIndexOf(' ', room);
      const end = space > room - MAX_GAP ? space + 1 : room;
      lines.at(-1)!.push({ text: rest.slice(0, end), style });
      rest = rest.slice(end);
      column = Math.min(indent, COLUMNS / 2);
      lines.push([{ text: ' '.repeat(column), style: '' }]);
    }
    lines.at(-1)!.push({ text: rest, style });
    column += rest.length;
  }
  return lines.map((line) => line.filter(({ text }) => text !== ''));
}

/** Each part has its place and its length, so that columns are straight with any font. */
function drawLine(spans: readonly Span[], y: number): string {
  let column = 0;
  return spans
    .map(({ text, style }) => {
      const start = column + (text.length - text.trimStart().length);
      column += text.length;
      const shown = text.trim();
      if (shown === '') return '';
      const x = round(PADDING + start * LETTER);
      const attribute = style === '' ? '' : ` class="${style}"`;
      return `<text x="${x}" y="${y}" textLength="${round(shown.length * LETTER)}"${attribute}>${escape(shown)}</text>`;
    })
    .join('');
}
