/** The live page as one document: its style and its script are in it, and the policy of the response allows no others. */
import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';

export interface Page {
  readonly html: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Reads the page from the files of this program. */
export function readPage(): Page {
  const style = read('page.css');
  const script = oneScript(read('elements.js'), read('page.js'));
  const html = read('page.html')
    .replace('<style></style>', () => `<style>${style}</style>`)
    .replace('<script></script>', () => `<script type="module">${script}</script>`);
  const policy = [
    "default-src 'none'",
    `style-src ${source(style)}`,
    `script-src ${source(script)}`,
    "connect-src 'self'",
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ];
  return {
    html,
    headers: {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': policy.join('; '),
      'cross-origin-opener-policy': 'same-origin',
      'referrer-policy': 'no-referrer',
      'cache-control': 'no-store',
    },
  };
}

function read(name: string): string {
  return readFileSync(new URL(`./page/${name}`, import.meta.url), 'utf8');
}

/** Makes one script of two modules, since a document without other files cannot import. */
function oneScript(imported: string, importing: string): string {
  const own = importing.replace(/^import [^;]*;$/m, '');
  return `${imported.replace(/^export /gm, '')}\n${own}`;
}

function source(text: string): string {
  return `'sha256-${hash('sha256', text, 'base64')}'`;
}
