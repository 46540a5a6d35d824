/** Builds the site of the documentation in the folder `site`: `npm run site`. */
import { fileURLToPath } from 'node:url';
import { buildSite } from './build.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const pages = buildSite(root, `${root}/site`);
console.log(`site: ${pages.length} pages`);
