/** What our pictures share: their colours, which follow the reader's, and the width that a text takes. */
import { escape } from '../site/html.ts';

const FONT_SIZE = 14;
export const LINE_HEIGHT = 18;
/** No browser is asked, so that a picture is the same on every machine: a little more than most letters take. */
const LETTER_WIDTH = 7.4;

/** Classes begin with `picture-`, since a page can contain the picture itself. */
const STYLE = `
.picture { --ground: #fff; --raised: #f3f5f8; --line: #8a95a5; --text: #17202c; --quiet: #526071; --people: #fff3d6; --edge: #c98a00;
  background: var(--ground); font: ${FONT_SIZE}px system-ui, sans-serif }
@media (prefers-color-scheme: dark) {
.picture { --ground: #12161b; --raised: #1f2731; --line: #77839a; --text: #e6ebf1; --quiet: #a3b0c0; --people: #3a2f14; --edge: #d9a441 } }
.picture text { fill: var(--text); text-anchor: middle; dominant-baseline: central }
.picture-quiet { fill: var(--quiet) !important }
.picture-box { fill: var(--raised); stroke: var(--line) }
.picture-note { fill: var(--people); stroke: var(--edge) }
.picture-line { fill: none; stroke: var(--line); stroke-width: 1.4 }
.picture-thin { fill: none; stroke: var(--line); stroke-dasharray: 2 4 }
.picture-reply { stroke-dasharray: 6 4 }
.picture-point { fill: var(--line) }
.picture-under { fill: var(--ground) }`;

/** The head of an arrow. Its name is unique in a page whose pictures have different titles. */
const marker = (id: string) =>
  `<marker id="${id}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto-start-reverse"><path class="picture-point" d="M0 0L10 5L0 10z"/></marker>`;

export function textWidth(text: string): number {
  return text.length * LETTER_WIDTH;
}

/** A picture of its own, or a part of a page. @param title what a screen reader says */
export function picture(title: string, size: { width: number; height: number }, content: string) {
  const [width, height] = [Math.ceil(size.width), Math.ceil(size.height)];
  return `<svg xmlns="http://www.w3.org/2000/svg" class="picture" role="img" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}">
<title>${escape(title)}</title>
<style>${STYLE}</style>
<defs>${marker(arrowOf(title))}</defs>
${content}
</svg>
`;
}

/** The id of the arrow of a picture. */
export function arrowOf(title: string): string {
  return `arrow-${title.toLowerCase().replace(/\W+/g, '-')}`;
}

/** Lines of text, centred at a point. */
export function label(x: number, y: number, lines: readonly string[], style = ''): string {
  return lines
    .map((line, at) => {
      const lineY = y + (at - (lines.length - 1) / 2) * LINE_HEIGHT;
      const attribute = style === '' ? '' : ` class="${style}"`;
      return `<text x="${round(x)}" y="${round(lineY)}"${attribute}>${escape(line)}</text>`;
    })
    .join('\n');
}

/** A box of a class, around its centre. */
export function box(
  style: string,
  { x, y, width, height }: { x: number; y: number; width: number; height: number },
): string {
  return `<rect class="${style}" x="${round(x - width / 2)}" y="${round(y - height / 2)}" width="${round(width)}" height="${round(height)}" rx="5"/>`;
}

/** One digit after the point is enough, and the same on every machine. */
export function round(value: number): number {
  return Math.round(value * 10) / 10;
}
