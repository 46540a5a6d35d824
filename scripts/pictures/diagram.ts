/** Draws the diagrams of our documents, which are written in the language of Mermaid. */
import { drawSequence } from './sequence.ts';
import { drawStates } from './states.ts';

/**
 * Draws a diagram as SVG.
 * @param title what a screen reader says in place of the picture
 * @throws Error for a kind of diagram, or a line of one, that it cannot draw
 */
export function drawDiagram(title: string, source: string): string {
  const [kind = '', ...lines] = source
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  if (kind === 'sequenceDiagram') return drawSequence(title, lines);
  if (kind === 'stateDiagram-v2') return drawStates(title, lines);
  throw new Error(`a diagram is of a kind that cannot be drawn: "${kind}"`);
}
