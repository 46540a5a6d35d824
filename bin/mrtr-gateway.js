#!/usr/bin/env node
// Starts the program if this Node.js can run it. Plain old JavaScript: an older Node.js must be able to parse it.
import { existsSync } from 'fs';
import module from 'module';
import v8 from 'v8';
import { fileURLToPath } from 'url';
import { explain, isRecentEnough } from './node-version.js';

var USAGE = 64;
// A checkout has the sources and always runs them. A package has only the compiled program.
var sources = new URL('../src/main.ts', import.meta.url);
var isCheckout = existsSync(sources);

if (isRecentEnough(process.versions.node)) {
  // A call passes many small functions, more than V8 inlines by default (docs/adr/0044). Before the cache, which is for one
  // set of flags.
  v8.setFlagsFromString('--max-inlined-bytecode-size-cumulative=3000');
  // Most of what a start allocates is garbage soon after. Let go again once it serves (docs/adr/0046).
  v8.setFlagsFromString('--semi-space-growth-factor=1');
  // The only WebAssembly parses HTTP, and to optimize that takes 10 MB that stay with the process (docs/adr/0047).
  v8.setFlagsFromString('--wasm-tiering-budget=2000000000');
  // Halves the time to start. The cache stays in this package: one under /tmp could be planted by another user.
  // Where the folder cannot be written, the program starts without a cache.
  module.enableCompileCache(fileURLToPath(new URL('../.compile-cache', import.meta.url)));
  var main = isCheckout ? sources : new URL('../dist/main.js', import.meta.url);
  import(main.href);
} else {
  console.error(explain(process.versions.node, isCheckout));
  process.exitCode = USAGE;
}
