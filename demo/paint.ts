/** Colours for a terminal, and plain text for everything else (https://no-color.org). */
import { styleText } from 'node:util';

type Style = 'bold' | 'dim' | 'cyan' | 'green' | 'yellow' | 'magenta' | 'red';

const coloured = process.stdout.isTTY && !process.env['NO_COLOR'];

export function paint(style: Style, text: string): string {
  return coloured ? styleText(style, text, { validateStream: false }) : text;
}
