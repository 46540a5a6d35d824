#!/usr/bin/env node
// Starts the program if this Node.js can run it. Plain old JavaScript: an old one must be able to say no.
import { existsSync } from 'fs';
import { explain, isRecentEnough } from './node-version.js';

var USAGE = 64;

if (isRecentEnough(process.versions.node)) {
  // Published packages have the compiled program, a checkout has the sources.
  var compiled = new URL('../dist/main.js', import.meta.url);
  var main = existsSync(compiled) ? compiled : new URL('../src/main.ts', import.meta.url);
  import(main.href);
} else {
  console.error(explain(process.versions.node));
  process.exitCode = USAGE;
}
