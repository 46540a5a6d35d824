/**
 * The elements of the live page: finds them, keeps rows where they are, and draws plots. `page.ts` makes one script
 * of it and `page.js`.
 */

export const SVG = 'http://www.w3.org/2000/svg';

/** @param {string} id */
export function byId(id) {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`no element ${id}`);
  return found;
}

/** Writes a text, unless it is there already: screen readers read what changes. @param {Element} element @param {string} text */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Keeps one row for each item, so that the focus stays where it is.
 * @template Item
 * @param {Element} body
 * @param {readonly Item[]} items
 * @param {(item: Item) => string} keyOf
 * @param {(row: HTMLTableRowElement, item: Item) => void} fill
 */
export function keepRows(body, items, keyOf, fill) {
  /** @type {Map<string, HTMLTableRowElement>} */
  const before = new Map();
  for (const row of body.children) {
    if (row instanceof HTMLTableRowElement) before.set(row.dataset['key'] ?? '', row);
  }
  items.forEach((item, at) => {
    const key = keyOf(item);
    const row = before.get(key) ?? document.createElement('tr');
    before.delete(key);
    row.dataset['key'] = key;
    fill(row, item);
    if (body.children[at] !== row) body.insertBefore(row, body.children[at] ?? null);
  });
  for (const row of before.values()) row.remove();
}

/**
 * @param {HTMLTableRowElement} row
 * @param {number} at
 * @param {string} label
 * @returns {HTMLElement} the cell, which is made if it is not there
 */
export function cell(row, at, label) {
  const there = row.children[at];
  if (there instanceof HTMLElement) return there;
  const made = document.createElement(at === 0 ? 'th' : 'td');
  if (at === 0) made.setAttribute('scope', 'row');
  made.dataset['label'] = label;
  row.append(made);
  return made;
}

/**
 * Draws bars, one series upon the other.
 * @param {Element} parent
 * @param {readonly (readonly [string, readonly number[]])[]} series
 * @param {string} label what a screen reader reads
 */
export function draw(parent, series, label) {
  const length = series[0]?.[1].length ?? 0;
  const sums = Array.from({ length }, (_, at) =>
    series.reduce((sum, [, values]) => sum + (values[at] ?? 0), 0),
  );
  const most = Math.max(1, ...sums);
  let svg = parent.querySelector('svg');
  if (svg === null) {
    svg = document.createElementNS(SVG, 'svg');
    svg.setAttribute('role', 'img');
    svg.setAttribute('preserveAspectRatio', 'none');
    svg.setAttribute('viewBox', `0 0 ${length * 4} 102`);
    for (const name of ['axis', ...series.map(([name]) => name)]) {
      const path = document.createElementNS(SVG, 'path');
      path.setAttribute('class', name);
      svg.append(path);
    }
    parent.append(svg);
  }
  svg.setAttribute('aria-label', label);
  const [axis, ...paths] = svg.children;
  axis?.setAttribute('d', `M0 100h${length * 4}v2h-${length * 4}z`);
  const tops = sums.map(() => 100);
  series.forEach(([, values], number) => {
    const bars = values.map((value, at) => {
      if (value === 0) return '';
      const height = Math.max(2, (100 * value) / most);
      const bottom = tops[at] ?? 100;
      tops[at] = bottom - height;
      return `M${at * 4} ${bottom}v-${height}h3v${height}z`;
    });
    paths[number]?.setAttribute('d', bars.join(''));
  });
}
