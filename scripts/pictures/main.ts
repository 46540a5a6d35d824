/** Makes the pictures of the documents in docs/images: `npm run docs:pictures`. Those of the live page need Chromium. */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { demoPicture } from './demo.ts';
import { drawDiagram } from './diagram.ts';
import { takeLivePictures } from './live.ts';

const folder = fileURLToPath(new URL('../../docs/images', import.meta.url));

const source = readFileSync(`${folder}/how-it-works.mmd`, 'utf8');
writeFileSync(`${folder}/how-it-works.svg`, drawDiagram('How a call is parked', source));
writeFileSync(`${folder}/demo.svg`, await demoPicture());
await takeLivePictures(folder);
